// ELLPACK: entry e of row i at e * pitch + i, so that neighbouring threads read neighbouring slots.
#include "spmv.cuh"

// Block (32, THREADS): THREADS threads share a row, each in a warp of its own, and meet in shared memory. A column of
// -1 marks padding; the marker is tested, so that padding never multiplies an infinite x.
template <typename V, int THREADS>
__global__ void ell_spmv(int rows, int width, long long pitch, const int* __restrict__ columns,
                         const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  V sum = 0;
  if (row < rows) {
#pragma unroll 4
    for (int e = threadIdx.y; e < width; e += THREADS) {
      const int column = load_stream(columns + e * pitch + row);
      const V value = load_stream(values + e * pitch + row);
      if (column >= 0) sum += value * load_x(x, column);
    }
  }
  if (THREADS > 1) {
    __shared__ V partial[THREADS][WARP];
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0) return;
    for (int t = 1; t < THREADS; ++t) sum += partial[t][threadIdx.x];
  }
  if (row < rows) y[row] = sum;
}
