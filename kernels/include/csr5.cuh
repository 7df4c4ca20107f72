// CSR5's descriptors; see spmvbench/formats/csr5.py.
#pragma once
#include "spmv.cuh"

constexpr unsigned DIRTY = 0x80000000u;  // in tile_ptr: some row that begins in the tile has no entries

__host__ __device__ constexpr int bits_for(int n) {
  int bits = 1;
  while ((1 << bits) < n) ++bits;
  return bits;
}

// A lane's bits, from the highest on: y_offset, seg_offset and a flag a step, in words of 32.
template <int SIGMA>
struct Descriptor {
  static constexpr int OFFSET_BITS = bits_for(WARP * SIGMA);
  static constexpr int HEAD_BITS = OFFSET_BITS + 5;  // y_offset and seg_offset stand before the flags
  static constexpr int PACKETS = (HEAD_BITS + SIGMA + 31) / 32;
};
