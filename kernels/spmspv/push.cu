// y += A x for a sparse x: the columns of its entries, scaled and added to y by atomics.
#include "sparse_vector.cuh"

// LANES threads share a column, whatever its length. y is zero.
template <typename V, typename I, int LANES>
__global__ void push_columns(int k, const int* __restrict__ index, const V* __restrict__ value,
                             const I* __restrict__ col_ptr, const int* __restrict__ row_idx,
                             const V* __restrict__ values, V* __restrict__ y) {
  const long long i = global_thread() / LANES;
  if (i >= k) return;
  const int column = index[i];
  const V factor = value[i];
  const I end = col_ptr[column + 1];
  for (I e = col_ptr[column] + threadIdx.x % LANES; e < end; e += LANES) atomicAdd(y + row_idx[e], values[e] * factor);
}

// The same, but a long column is shared by the whole block. y is zero.
template <typename V, typename I, int LANES, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    push_shared(int k, const int* __restrict__ index, const V* __restrict__ value, const I* __restrict__ col_ptr,
                const int* __restrict__ row_idx, const V* __restrict__ values, V* __restrict__ y) {
  push_block<LANES, BLOCK>(blockIdx.x, k, index, value, col_ptr, row_idx, values, y);
}
