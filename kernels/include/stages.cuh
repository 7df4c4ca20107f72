// Kernels whose first blocks prepare what the others use: these have loaded all that they can by then. Blocks that wait
// do so for blocks of lower numbers alone, which begin before them.
#pragma once
#include "spmv.cuh"

// What the block has written is there for who waits. Every thread arrives.
__device__ __forceinline__ void announce(int* blocks_ready) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(blocks_ready, 1);
}

// Until so many blocks have announced. Every thread arrives.
__device__ __forceinline__ void await(int* blocks_ready, int blocks) {
  if (threadIdx.x == 0) {
    while (*static_cast<volatile int*>(blocks_ready) < blocks) __nanosleep(20);
    __threadfence();
  }
  __syncthreads();
}

// The last block of the grid to leave sets the counters, of which the last counts these blocks, to zero for the next run.
// Every thread arrives.
__device__ __forceinline__ void leave(int* counters, int count) {
  __syncthreads();
  if (threadIdx.x > 0) return;
  __threadfence();
  if (atomicAdd(counters + count - 1, 1) < static_cast<int>(gridDim.x) - 1) return;
  __threadfence();
  for (int c = 0; c < count; ++c) atomicExch(counters + c, 0);
}
