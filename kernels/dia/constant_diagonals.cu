// Few diagonals whose values repeat: one value each, or a dictionary of rows; see
// spmvbench/formats/dia/constant_diagonals.py.
#include "spmv.cuh"

constexpr int RESIDENT = 1024;  // threads of a multiprocessor that leave each the registers for its loads

// The sums of ROWS rows of a thread, BLOCK rows apart. INSIDE: every diagonal has a column for every row of the block,
// so that x is loaded before it is known which entries a row has. BATCH diagonals are in flight. coefficients(d, r): the
// values on diagonal d, which is even, and on the next.
template <bool INSIDE, int WIDTH, int ROWS, int BLOCK, typename V, typename Coefficients>
__device__ __forceinline__ void sum_rows(const unsigned (&present)[ROWS], const int* __restrict__ offset,
                                         const V* __restrict__ x, Coefficients coefficients, V (&sum)[ROWS]) {
  constexpr int BATCH = 8;
#pragma unroll
  for (int d = 0; d < WIDTH; d += BATCH) {
    V value[BATCH][ROWS], factor[BATCH][ROWS];
    const V* place[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) place[u] = x + __ldg(offset + min(d + u, WIDTH - 1));
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (d + u >= WIDTH) continue;
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        factor[u][r] = INSIDE || (present[r] >> (d + u) & 1) ? __ldg(place[u] + r * BLOCK) : V(0);
      }
    }
#pragma unroll
    for (int u = 0; u < BATCH; u += 2) {
      if (d + u >= WIDTH) continue;
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const auto pair = coefficients(d + u, r);
        value[u][r] = pair.x;
        value[u + 1][r] = pair.y;
      }
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (d + u >= WIDTH) continue;
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        // A choice between sums and not a condition, which the compiler would put before the load of x as well.
        const V with = sum[r] + value[u][r] * factor[u][r];
        sum[r] = present[r] >> (d + u) & 1 ? with : sum[r];
      }
    }
  }
}

// The rows of a block: their sums to y. `first`: the first row of the block.
template <int WIDTH, int ROWS, int BLOCK, bool ADD, typename V, typename Coefficients>
__device__ __forceinline__ void multiply_rows(long long first, int rows, int cols, const unsigned (&present)[ROWS],
                                              const int* __restrict__ offset, const V* __restrict__ x,
                                              Coefficients coefficients, V* __restrict__ y) {
  constexpr int SHARE = BLOCK * ROWS;
  const long long row = first + threadIdx.x;
  V sum[ROWS] = {};
  const bool inside =
      first + __ldg(offset) >= 0 && first + SHARE <= rows && first + SHARE - 1 + __ldg(offset + WIDTH - 1) < cols;
  if (inside) {
    sum_rows<true, WIDTH, ROWS, BLOCK>(present, offset, x + row, coefficients, sum);
  } else {
    sum_rows<false, WIDTH, ROWS, BLOCK>(present, offset, x + row, coefficients, sum);
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (row + r * BLOCK < rows) put<ADD>(y + row + r * BLOCK, sum[r]);
  }
}

template <typename V, typename M, int WIDTH, int ROWS, int BLOCK, bool ADD>
__global__ void __launch_bounds__(BLOCK, RESIDENT / BLOCK)
    constant_diagonals_spmv(int rows, int cols, const M* __restrict__ mask, const int* __restrict__ offset,
                            const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long first = static_cast<long long>(blockIdx.x) * (BLOCK * ROWS);
  unsigned present[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const long long row = first + threadIdx.x + r * BLOCK;
    present[r] = row < rows ? load_stream(mask + row) : 0u;
  }
  constexpr int PITCH = (WIDTH + 1) / 2 * 2;
  V value[PITCH];
#pragma unroll
  for (int d = 0; d < PITCH; ++d) value[d] = d < WIDTH ? __ldg(values + d) : V(0);
  const auto pair = [&](int d, int) { return typename PairOf<V>::type{value[d], value[d + 1]}; };
  multiply_rows<WIDTH, ROWS, BLOCK, ADD>(first, rows, cols, present, offset, x, pair, y);
}

// PITCH values of each pattern, WIDTH of them used.
template <typename V, typename P, int WIDTH, int PITCH, int ROWS, int BLOCK, bool ADD>
__global__ void __launch_bounds__(BLOCK, RESIDENT / BLOCK)
    diagonal_patterns_spmv(int rows, int cols, const P* __restrict__ pattern, const unsigned* __restrict__ mask,
                           const int* __restrict__ offset, const V* __restrict__ values, const V* __restrict__ x,
                           V* __restrict__ y) {
  using Pair = typename PairOf<V>::type;
  const long long first = static_cast<long long>(blockIdx.x) * (BLOCK * ROWS);
  unsigned present[ROWS];
  const Pair* from[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const long long row = first + threadIdx.x + r * BLOCK;
    const int own = row < rows ? load_stream(pattern + row) : 0;
    present[r] = row < rows ? __ldg(mask + own) : 0u;
    from[r] = reinterpret_cast<const Pair*>(values + static_cast<long long>(own) * PITCH);
  }
  const auto pair = [&](int d, int r) { return __ldg(from[r] + d / 2); };
  multiply_rows<WIDTH, ROWS, BLOCK, ADD>(first, rows, cols, present, offset, x, pair, y);
}
