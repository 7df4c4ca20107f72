// Compressed sparse rows: LANES threads share a row (Bell & Garland 2008: 1 is the scalar kernel, 32 the vector kernel).
#include "spmv.cuh"

// I: type of row_ptr. UNROLL entries a lane are loaded before the first is used: a short row is latency, not bandwidth.
template <typename V, typename I, int LANES, int UNROLL>
__global__ void csr_vector(int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                           const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long row = global_thread() / LANES;
  const int lane = threadIdx.x % LANES;
  V sum = 0;
  if (row < rows) {
    const I end = row_ptr[row + 1];
    I k = row_ptr[row] + lane;
    for (; k + (UNROLL - 1) * LANES < end; k += UNROLL * LANES) {
      int columns[UNROLL];
      V products[UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) columns[u] = load_stream(col_idx + k + u * LANES);
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) products[u] = load_stream(values + k + u * LANES);
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) sum += products[u] * load_x(x, columns[u]);
    }
    for (; k < end; k += LANES) sum += load_stream(values + k) * load_x(x, load_stream(col_idx + k));
  }
  sum = group_sum<LANES>(sum);
  if (lane == 0 && row < rows) y[row] = sum;
}
