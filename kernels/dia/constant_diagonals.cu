// Constant diagonals, and a mask per row of those that it has; see spmvbench/formats/dia/constant_diagonals.py.
#include "spmv.cuh"

// The sums of ROWS rows of a thread, BLOCK rows apart. INSIDE: every diagonal has a column for every row of the block,
// so that x is loaded before the masks are known. BATCH diagonals are in flight.
template <bool INSIDE, int WIDTH, int ROWS, int BLOCK, typename V>
__device__ __forceinline__ void sum_rows(const unsigned (&present)[ROWS], const int* __restrict__ offset,
                                         const V* __restrict__ values, const V* __restrict__ x, V (&sum)[ROWS]) {
  constexpr int BATCH = 8;
#pragma unroll
  for (int d = 0; d < WIDTH; d += BATCH) {
    V value[BATCH], factor[BATCH][ROWS];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (d + u >= WIDTH) continue;
      value[u] = __ldg(values + d + u);
      const V* from = x + __ldg(offset + d + u);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        factor[u][r] = INSIDE || (present[r] >> (d + u) & 1) ? __ldg(from + r * BLOCK) : V(0);
      }
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (d + u >= WIDTH) continue;
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        if (present[r] >> (d + u) & 1) sum[r] += value[u] * factor[u][r];
      }
    }
  }
}

template <typename V, typename M, int WIDTH, int ROWS, int BLOCK, bool ADD>
__global__ void __launch_bounds__(BLOCK)
    constant_diagonals_spmv(int rows, int cols, const M* __restrict__ mask, const int* __restrict__ offset,
                            const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  constexpr int SHARE = BLOCK * ROWS;
  const long long first = static_cast<long long>(blockIdx.x) * SHARE;
  const long long row = first + threadIdx.x;
  unsigned present[ROWS];
  V sum[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    present[r] = row + r * BLOCK < rows ? load_stream(mask + row + r * BLOCK) : 0u;
    sum[r] = V(0);
  }
  const bool inside =
      first + __ldg(offset) >= 0 && first + SHARE <= rows && first + SHARE - 1 + __ldg(offset + WIDTH - 1) < cols;
  if (inside) {
    sum_rows<true, WIDTH, ROWS, BLOCK>(present, offset, values, x + row, sum);
  } else {
    sum_rows<false, WIDTH, ROWS, BLOCK>(present, offset, values, x + row, sum);
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (row + r * BLOCK < rows) put<ADD>(y + row + r * BLOCK, sum[r]);
  }
}
