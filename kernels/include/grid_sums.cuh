// Sums over all threads of a grid in double precision, the same in every run: a partial sum for each block, which the
// blocks of a later kernel add up.
#pragma once
#include "spmv.cuh"

constexpr int SUM_BLOCK = 512;  // threads of a block; a grid has at most as many blocks

// Sum over the block, in every thread. Every thread arrives.
__device__ __forceinline__ double block_total(double sum) {
  __shared__ double of_warp[SUM_BLOCK / WARP];
  sum = group_sum<WARP>(sum);
  __syncthreads();  // the sums of an earlier call have been read
  if (lane_id() == 0) of_warp[threadIdx.x / WARP] = sum;
  __syncthreads();
  double total = 0;
#pragma unroll
  for (int w = 0; w < SUM_BLOCK / WARP; ++w) total += of_warp[w];
  return total;
}

// The block's partial sum.
__device__ __forceinline__ void put_partial(double sum, double* partial) {
  const double total = block_total(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

// The sum over the grid of a kernel before this one with as many blocks, in every thread.
__device__ __forceinline__ double grid_total(const double* partial, int blocks) {
  return block_total(static_cast<int>(threadIdx.x) < blocks ? partial[threadIdx.x] : 0.0);
}

__device__ __forceinline__ bool first_thread() { return blockIdx.x == 0 && threadIdx.x == 0; }

__device__ __forceinline__ bool is_finite(double x) { return x - x == 0; }
