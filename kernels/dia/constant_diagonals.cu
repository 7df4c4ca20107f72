// Few diagonals whose values repeat: one value each, or a dictionary of rows; see
// spmvbench/formats/dia/constant_diagonals.py.
#include "spmv.cuh"

// The sums of ROWS rows of a thread, BLOCK rows apart. INSIDE: every diagonal has a column for every row of the block,
// so that x is loaded before it is known which entries a row has. BATCH diagonals are in flight. coefficient(d, r): the
// value on a diagonal.
template <bool INSIDE, int WIDTH, int ROWS, int BLOCK, typename V, typename Coefficient>
__device__ __forceinline__ void sum_rows(const unsigned (&present)[ROWS], const int* __restrict__ offset,
                                         const V* __restrict__ x, Coefficient coefficient, V (&sum)[ROWS]) {
  constexpr int BATCH = 8;
#pragma unroll
  for (int d = 0; d < WIDTH; d += BATCH) {
    V factor[BATCH][ROWS];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (d + u >= WIDTH) continue;
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
        if (present[r] >> (d + u) & 1) sum[r] += coefficient(d + u, r) * factor[u][r];
      }
    }
  }
}

// The rows of a block: their sums to y. `first`: the first row of the block.
template <int WIDTH, int ROWS, int BLOCK, bool ADD, typename V, typename Coefficient>
__device__ __forceinline__ void multiply_rows(long long first, int rows, int cols, const unsigned (&present)[ROWS],
                                              const int* __restrict__ offset, const V* __restrict__ x,
                                              Coefficient coefficient, V* __restrict__ y) {
  constexpr int SHARE = BLOCK * ROWS;
  const long long row = first + threadIdx.x;
  V sum[ROWS] = {};
  const bool inside =
      first + __ldg(offset) >= 0 && first + SHARE <= rows && first + SHARE - 1 + __ldg(offset + WIDTH - 1) < cols;
  if (inside) {
    sum_rows<true, WIDTH, ROWS, BLOCK>(present, offset, x + row, coefficient, sum);
  } else {
    sum_rows<false, WIDTH, ROWS, BLOCK>(present, offset, x + row, coefficient, sum);
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (row + r * BLOCK < rows) put<ADD>(y + row + r * BLOCK, sum[r]);
  }
}

template <typename V, typename M, int WIDTH, int ROWS, int BLOCK, bool ADD>
__global__ void __launch_bounds__(BLOCK)
    constant_diagonals_spmv(int rows, int cols, const M* __restrict__ mask, const int* __restrict__ offset,
                            const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long first = static_cast<long long>(blockIdx.x) * (BLOCK * ROWS);
  unsigned present[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const long long row = first + threadIdx.x + r * BLOCK;
    present[r] = row < rows ? load_stream(mask + row) : 0u;
  }
  V value[WIDTH];
#pragma unroll
  for (int d = 0; d < WIDTH; ++d) value[d] = __ldg(values + d);
  multiply_rows<WIDTH, ROWS, BLOCK, ADD>(
      first, rows, cols, present, offset, x, [&](int d, int) { return value[d]; }, y);
}

// PITCH values of each pattern, WIDTH of them used.
template <typename V, typename P, int WIDTH, int PITCH, int ROWS, int BLOCK, bool ADD>
__global__ void __launch_bounds__(BLOCK)
    diagonal_patterns_spmv(int rows, int cols, const P* __restrict__ pattern, const unsigned* __restrict__ mask,
                           const int* __restrict__ offset, const V* __restrict__ values, const V* __restrict__ x,
                           V* __restrict__ y) {
  using Pair = typename PairOf<V>::type;
  const long long first = static_cast<long long>(blockIdx.x) * (BLOCK * ROWS);
  unsigned present[ROWS];
  V value[ROWS][PITCH];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const long long row = first + threadIdx.x + r * BLOCK;
    const int own = row < rows ? load_stream(pattern + row) : 0;
    present[r] = row < rows ? __ldg(mask + own) : 0u;
    const Pair* from = reinterpret_cast<const Pair*>(values + static_cast<long long>(own) * PITCH);
#pragma unroll
    for (int d = 0; d < PITCH; d += 2) {
      const Pair pair = __ldg(from + d / 2);
      value[r][d] = pair.x;
      value[r][d + 1] = pair.y;
    }
  }
  multiply_rows<WIDTH, ROWS, BLOCK, ADD>(
      first, rows, cols, present, offset, x, [&](int d, int r) { return value[r][d]; }, y);
}
