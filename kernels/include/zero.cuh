// Vectors set to zero by kernels that have something else to do as well.
#pragma once
#include "spmv.cuh"

constexpr int ZEROS_EACH = 4;  // entries of a thread, a block's width apart

// Sets y, of n values, to zero: the grid has a thread for every ZEROS_EACH of them, or more.
template <typename V>
__device__ __forceinline__ void set_zero(V* __restrict__ y, int n) {
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x * ZEROS_EACH + threadIdx.x;
#pragma unroll
  for (int u = 0; u < ZEROS_EACH; ++u) {
    const long long i = first + u * static_cast<long long>(blockDim.x);
    if (i < n) y[i] = V(0);
  }
}
