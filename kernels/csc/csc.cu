// Compressed sparse columns: LANES threads share a column, and x is read once.
#include "spmv.cuh"

// KEEP: products stay at their entries' places in `out`, (nnz,); else they are added to `out`, y, by atomics.
template <typename V, typename I, int LANES, bool KEEP, typename S = V>
__global__ void csc_columns(int cols, const I* __restrict__ col_ptr, const int* __restrict__ row_idx,
                            const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ out) {
  const long long col = global_thread() / LANES;
  if (col >= cols) return;
  const V factor = x[col];
  const I end = col_ptr[col + 1];
  for (I k = col_ptr[col] + threadIdx.x % LANES; k < end; k += LANES) {
    const V product = load_stream(values + k) * factor;
    if (KEEP) {
      out[k] = product;
    } else {
      atomicAdd(out + load_stream(row_idx + k), product);
    }
  }
}

// y from the products: LANES threads share a row, whose k-th entry is at place[k] in column order.
template <typename V, typename I, int LANES>
__global__ void csc_collect(int rows, const I* __restrict__ row_ptr, const I* __restrict__ place,
                            const V* __restrict__ products, V* __restrict__ y) {
  const long long row = global_thread() / LANES;
  V sum = 0;
  if (row < rows) {
    const I end = row_ptr[row + 1];
    for (I k = row_ptr[row] + threadIdx.x % LANES; k < end; k += LANES) sum += __ldg(products + load_stream(place + k));
  }
  sum = group_sum<LANES>(sum);
  if (threadIdx.x % LANES == 0 && row < rows) y[row] = sum;
}
