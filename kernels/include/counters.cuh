// Counters in device memory that a run leaves as it found them: zero.
#pragma once
#include "spmv.cuh"

// The last block of the grid to leave sets the counters, of which the last counts these blocks, to zero for the next
// run. Every thread arrives.
__device__ __forceinline__ void leave(int* counters, int count) {
  __syncthreads();
  if (threadIdx.x > 0) return;
  __threadfence();
  if (atomicAdd(counters + count - 1, 1) < static_cast<int>(gridDim.x) - 1) return;
  __threadfence();
  for (int c = 0; c < count; ++c) atomicExch(counters + c, 0);
}
