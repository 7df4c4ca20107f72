// The largest and the least of a warp's numbers, and a number of the whole grid that only grows.
#pragma once
#include "spmv.cuh"

// In every lane; every lane of the warp must arrive.
template <typename T>
__device__ __forceinline__ T warp_max(T value) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) {
    const T other = __shfl_xor_sync(FULL_MASK, value, offset);
    value = value < other ? other : value;
  }
  return value;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ int warp_max(int value) { return __reduce_max_sync(FULL_MASK, value); }
#endif

__device__ __forceinline__ int warp_min(int value) { return ~warp_max(~value); }

// Raises `most`, zero before the first.
__device__ __forceinline__ void note_most(unsigned long long* most, int value) {
  const unsigned long long found = static_cast<unsigned long long>(value);
  // What is read may be old, and then is less.
  if (found > *static_cast<volatile unsigned long long*>(most)) atomicMax(most, found);
}

// Adds a number of each thread to `total`, once a block: warps of a large grid would wait for each other at one address.
// All threads of the block arrive.
template <typename T>
__device__ __forceinline__ void add_once(unsigned long long* total, T number) {
  __shared__ unsigned long long of_block;
  __syncthreads();
  if (threadIdx.x == 0) of_block = 0;
  __syncthreads();
  const unsigned long long of_warp = group_sum<WARP>(static_cast<unsigned long long>(number));
  if (lane_id() == 0 && of_warp) atomicAdd(&of_block, of_warp);
  __syncthreads();
  if (threadIdx.x == 0 && of_block) atomicAdd(total, of_block);
}
