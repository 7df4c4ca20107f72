// Compressed sparse columns: LANES threads share a column, x is read once, products go to y by atomics.
#include "spmv.cuh"

template <typename V, typename I, int LANES>
__global__ void csc_atomic(int cols, const I* __restrict__ col_ptr, const int* __restrict__ row_idx,
                           const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long col = global_thread() / LANES;
  if (col >= cols) return;
  const V factor = x[col];
  const I end = col_ptr[col + 1];
  for (I k = col_ptr[col] + threadIdx.x % LANES; k < end; k += LANES) {
    atomicAdd(y + load_stream(row_idx + k), load_stream(values + k) * factor);
  }
}
