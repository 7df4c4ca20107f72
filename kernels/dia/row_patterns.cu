// A dictionary of distinct rows; see spmvbench/formats/dia/row_patterns.py.
#include "epilogue.cuh"

constexpr int BLOCK = 128;

// One thread per row. Neighbouring rows mostly have one pattern: a warp then loads each offset and value once, for all
// lanes, and its x are neighbours. BATCH entries are in flight; places after the last load that once more.
template <typename V, typename P, bool ADD, typename Y = V*>
__global__ void __launch_bounds__(BLOCK)
    row_patterns_spmv(int rows, const P* __restrict__ pattern, const int* __restrict__ pattern_ptr,
                      const int* __restrict__ offset, const V* __restrict__ values, const V* __restrict__ x, Y y) {
  constexpr int BATCH = 8;
  const int row = blockIdx.x * BLOCK + threadIdx.x;
  if (row >= rows) return;
  const auto to = y + row;
  const int own = load_stream(pattern + row);
  const int begin = __ldg(pattern_ptr + own), end = __ldg(pattern_ptr + own + 1);
  V sum = 0;
#pragma unroll 1
  for (int k = begin; k < end; k += BATCH) {
    V value[BATCH], factor[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const int place = min(k + u, end - 1);
      value[u] = __ldg(values + place);
      factor[u] = load_x(x, row + __ldg(offset + place));
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (k + u < end) sum += value[u] * factor[u];
    }
  }
  put<ADD>(to, sum);
}
