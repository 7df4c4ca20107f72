// CSR with rows padded to a multiple of STEP entries: one thread per row, STEP entries in flight.
#include "spmv.cuh"

template <typename V, typename I, int STEP, typename S = V>
__global__ void csr_padded(int rows, const I* __restrict__ row_ptr, const int* __restrict__ columns,
                           const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long row = global_thread<V>();
  if (row >= rows) return;
  V sum = 0;
  for (I k = row_ptr[row]; k < row_ptr[row + 1]; k += STEP) {
#pragma unroll
    for (int u = 0; u < STEP; ++u) {
      const int column = load_stream(columns + k + u);
      if (column >= 0) sum += load_stream(values + k + u) * load_x(x, column);  // -1 is padding
    }
  }
  put<false>(y + row, sum);
}
