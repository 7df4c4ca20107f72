// Small blocks in strips of rows: a strip's part of y in shared memory; see spmvbench/formats/dense_blocks/strips.py.
#include "strips.cuh"
#include "spmv.cuh"

// A thread block per strip, a thread a block of R x C at a time. Value p of the strip's block j is at p * blocks + j. y
// holds what is added to.
template <typename V, typename I, int R, int C, typename S = V>
__global__ void strips_add(int rows, int cols, const I* __restrict__ strip_ptr,
                           const unsigned char* __restrict__ block_row, const int* __restrict__ block_col,
                           const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  __shared__ V sums[STRIP];
  if (threadIdx.x < STRIP) sums[threadIdx.x] = V(0);
  __syncthreads();
  const I first = strip_ptr[blockIdx.x];
  const int blocks = static_cast<int>(strip_ptr[blockIdx.x + 1] - first);
  const S* strip = values + static_cast<long long>(first) * (R * C);
  for (int j = threadIdx.x; j < blocks; j += blockDim.x) {
    const int column = load_stream(block_col + first + j);
    const int row = load_stream(block_row + first + j);
    S value[R * C];
#pragma unroll
    for (int p = 0; p < R * C; ++p) value[p] = load_stream(strip + static_cast<long long>(p) * blocks + j);
    V sum[R] = {};
#pragma unroll
    for (int q = 0; q < C; ++q) {
      // The last block of a row may reach over the edge; its values there are zeros.
      const V factor = load_x(x, C == 1 || column + q < cols ? column + q : cols - 1);
#pragma unroll
      for (int p = 0; p < R; ++p) sum[p] += value[p * C + q] * factor;
    }
#pragma unroll
    for (int p = 0; p < R; ++p) atomicAdd(sums + row + p, sum[p]);
  }
  __syncthreads();
  const long long row = static_cast<long long>(blockIdx.x) * STRIP + threadIdx.x;
  if (threadIdx.x < STRIP && row < rows) y[row] += sums[threadIdx.x];
}
