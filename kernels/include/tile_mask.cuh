// A word with a bit for each row or column of a tile.
#pragma once
#include "spmv.cuh"

// As it is stored, and as it is computed with.
template <int NT>
struct MaskOf;
template <>
struct MaskOf<16> {
  using Stored = unsigned short;
  using Word = unsigned;
};
template <>
struct MaskOf<32> {
  using Stored = unsigned;
  using Word = unsigned;
};
template <>
struct MaskOf<64> {
  using Stored = unsigned long long;
  using Word = unsigned long long;
};

__device__ __forceinline__ int bits_in(unsigned word) { return __popc(word); }

__device__ __forceinline__ int bits_in(unsigned long long word) { return __popcll(word); }
