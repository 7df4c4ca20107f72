// y += A x for a sparse x: the columns of its entries, scaled and added to y by atomics.
#include "sparse_vector.cuh"
#include "zero.cuh"

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

// y becomes zero, and the columns of x's entries are found.
template <typename V, typename I>
__global__ void find_columns(int k, int rows, const int* __restrict__ index, const I* __restrict__ col_ptr,
                             I* __restrict__ begin, I* __restrict__ end, V* __restrict__ y) {
  const long long i = global_thread();
  const int column = i < k ? index[i] : 0;
  set_zero(y, rows);
  if (i >= k) return;
  begin[i] = col_ptr[column];
  end[i] = col_ptr[column + 1];
}

// LANES threads share a column that was found, the whole block a long one. y is zero.
template <typename V, typename I, int LANES, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    push_shared(int k, const V* __restrict__ value, const I* __restrict__ begin, const I* __restrict__ end,
                const int* __restrict__ row_idx, const V* __restrict__ values, V* __restrict__ y) {
  const auto find = [=](long long i, I& from, I& to) {
    from = begin[i];
    to = end[i];
  };
  push_block<LANES, BLOCK, V, I>(blockIdx.x, k, value, find, row_idx, values, y);
}
