// A dictionary of distinct rows; see spmvbench/formats/dia/row_patterns.py.
#include "spmv.cuh"

constexpr int BLOCK = 128;

// ROWS rows of a thread, BLOCK rows apart. Neighbouring rows mostly have one pattern: a warp then loads each offset and
// value once, for all lanes, and its x are neighbours. BATCH entries of each row are in flight; places after the last
// load that once more.
template <typename V, typename P, int ROWS, bool ADD>
__global__ void __launch_bounds__(BLOCK)
    row_patterns_spmv(int rows, const P* __restrict__ pattern, const int* __restrict__ pattern_ptr,
                      const int* __restrict__ offset, const V* __restrict__ values, const V* __restrict__ x,
                      V* __restrict__ y) {
  constexpr int BATCH = 8;
  const int first = blockIdx.x * (BLOCK * ROWS) + threadIdx.x;
  int begin[ROWS], end[ROWS], longest = 0;
  V sum[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = first + r * BLOCK;
    const int own = row < rows ? load_stream(pattern + row) : -1;
    begin[r] = own < 0 ? 0 : __ldg(pattern_ptr + own);
    end[r] = own < 0 ? 0 : __ldg(pattern_ptr + own + 1);
    longest = max(longest, end[r] - begin[r]);
    sum[r] = 0;
  }
#pragma unroll 1
  for (int k = 0; k < longest; k += BATCH) {
    V value[BATCH][ROWS], factor[BATCH][ROWS];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        if (begin[r] == end[r]) continue;
        const int place = min(begin[r] + k + u, end[r] - 1);
        value[u][r] = __ldg(values + place);
        factor[u][r] = load_x(x, first + r * BLOCK + __ldg(offset + place));
      }
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        if (begin[r] + k + u < end[r]) sum[r] += value[u][r] * factor[u][r];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (first + r * BLOCK < rows) put<ADD>(y + first + r * BLOCK, sum[r]);
  }
}
