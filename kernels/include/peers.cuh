// The lanes of a warp that hold the same number of few bits: by ballots, which take less time than a match.
#pragma once
#include "spmv.cuh"

// Every lane of the warp arrives.
template <int BITS>
__device__ __forceinline__ unsigned peers_of(int number) {
  unsigned peers = FULL_MASK;
#pragma unroll
  for (int b = 0; b < BITS; ++b) {
    const bool set = number >> b & 1;
    const unsigned with = __ballot_sync(FULL_MASK, set);
    peers &= set ? with : ~with;
  }
  return peers;
}
