// CSR in two kernels with an array of products between them (He & Gao 2016).
#include "spmv.cuh"

constexpr int BLOCK = 256;      // threads, and rows of a block
constexpr int PRODUCTS = 1024;  // in shared memory at a time

template <typename V, typename I, typename S = V>
__global__ void perfect_products(I nnz, const int* __restrict__ col_idx, const S* __restrict__ values,
                                 const V* __restrict__ x, V* __restrict__ products) {
  const long long k = global_thread();
  if (k < nnz) products[k] = load_stream(values + k) * load_x(x, load_stream(col_idx + k));
}

// A thread per row: the block's products pass through shared memory, and each thread adds those of its row.
template <typename V, typename I>
__global__ void __launch_bounds__(BLOCK)
    perfect_sums(int rows, const I* __restrict__ row_ptr, const V* __restrict__ products, V* __restrict__ y) {
  __shared__ V held[PRODUCTS];
  const long long first = static_cast<long long>(blockIdx.x) * BLOCK;
  const long long last = first + BLOCK < rows ? first + BLOCK : rows;
  const long long row = first + threadIdx.x;
  const long long begin = row < last ? row_ptr[row] : 0, end = row < last ? row_ptr[row + 1] : 0;
  const long long block_end = row_ptr[last];
  V sum = 0;
  for (long long at = row_ptr[first]; at < block_end; at += PRODUCTS) {
    const int count = block_end - at < PRODUCTS ? static_cast<int>(block_end - at) : PRODUCTS;
#pragma unroll
    for (int i = 0; i < PRODUCTS / BLOCK; ++i) {
      const int k = i * BLOCK + threadIdx.x;
      if (k < count) held[k] = load_stream(products + at + k);
    }
    __syncthreads();
    const int from = begin > at ? static_cast<int>(begin - at < count ? begin - at : count) : 0;
    const int to = end > at ? static_cast<int>(end - at < count ? end - at : count) : 0;
    for (int k = from; k < to; ++k) sum += held[k];
    __syncthreads();
  }
  if (row < last) y[row] = sum;
}
