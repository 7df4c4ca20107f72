// Jagged diagonals: the entry at position d of the row at place k, in order of length, at diag_ptr[d] + k. A thread per
// row.
#include "spmv.cuh"

constexpr int BATCH = 4;  // entries that a thread has in flight

// The row at place k, through the positions for which `reaches`(position, slots of its diagonal) holds, below `end`.
//
// Threads of a warp read the same diag_ptr at a time, which L1 gives to all of them at once: on an H200 pde:100 gives
// 590 GFLOPS so and 541 with diag_ptr staged in shared memory, fem:40:3 and uniform the same. 8 entries in flight
// instead of 4 take more registers, and fewer threads give 569.
template <typename V, typename I, typename Reaches, typename S>
__device__ __forceinline__ V jagged_row(long long k, int end, int diagonals, const I* __restrict__ diag_ptr,
                                        const int* __restrict__ columns, const S* __restrict__ values,
                                        const V* __restrict__ x, Reaches reaches) {
  V sum = 0;
  for (int d = 0; d < end; d += BATCH) {
    I begin[BATCH + 1];
#pragma unroll
    for (int u = 0; u <= BATCH; ++u) begin[u] = __ldg(diag_ptr + (d + u < diagonals ? d + u : diagonals));
    if (!reaches(d, begin[1] - begin[0])) break;
    int column[BATCH];
    S value[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const bool stored = reaches(d + u, begin[u + 1] - begin[u]);
      column[u] = stored ? load_stream(columns + (begin[u] + k)) : -1;
      value[u] = stored ? load_stream(values + (begin[u] + k)) : S(0);
    }
    V factor[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) factor[u] = column[u] >= 0 ? load_x(x, column[u]) : V(0);
#pragma unroll
    for (int u = 0; u < BATCH; ++u) sum += value[u] * factor[u];
  }
  return sum;
}

// A thread stops at the first diagonal that has no slot for it.
template <typename V, typename I, typename S = V>
__global__ void jad_spmv(int rows, int diagonals, const I* __restrict__ diag_ptr, const int* __restrict__ perm,
                         const int* __restrict__ columns, const S* __restrict__ values, const V* __restrict__ x,
                         V* __restrict__ y) {
  const long long k = global_thread<V>();
  if (k >= rows) return;
  const int row = load_stream(perm + k);
  const auto reaches = [=](int, I size) { return k < size; };
  put<false>(y + row, jagged_row<V, I>(k, diagonals, diagonals, diag_ptr, columns, values, x, reaches));
}

// A thread stops at its row's length.
template <typename V, typename I, typename S = V>
__global__ void pjds_spmv(int rows, int diagonals, const I* __restrict__ diag_ptr, const int* __restrict__ lengths,
                          const int* __restrict__ perm, const int* __restrict__ columns, const S* __restrict__ values,
                          const V* __restrict__ x, V* __restrict__ y) {
  const long long k = global_thread<V>();
  if (k >= rows) return;
  const int row = load_stream(perm + k);
  const int length = load_stream(lengths + k);
  const auto reaches = [=](int d, I) { return d < length; };
  put<false>(y + row, jagged_row<V, I>(k, length, diagonals, diag_ptr, columns, values, x, reaches));
}
