// CRSD (Sun et al., ICPP 2011): segments of rows that share patterns, which are groups of adjacent diagonals, with code
// of its own for each pattern or tables of them; see spmvbench/formats/dia/crsd.py.
#include "dia.cuh"

constexpr int SEGMENT = 128;  // rows, and threads of a block

// WIDTH adjacent diagonals from OFFSET on; a pattern's groups, ascending: what its code is made of.
template <int OFFSET, int WIDTH>
struct Group {
  static constexpr int FIRST = OFFSET, LAST = OFFSET + WIDTH - 1;
};
template <typename... GROUPS>
struct Pattern {};

// A row's sum over a group. values: of the row on its first diagonal, and then on that of the next group. INSIDE: no
// column of the segment's rows is outside of the matrix.
template <bool INSIDE, typename V, int OFFSET, int WIDTH>
__device__ __forceinline__ void add_group(Group<OFFSET, WIDTH>, unsigned row, unsigned cols, const V*& values,
                                          const V* __restrict__ x, V& sum) {
#pragma unroll
  for (int d = 0; d < WIDTH; ++d) {
    const unsigned column = row + (OFFSET + d);
    if (INSIDE || column < cols) sum += load_diagonal(values + d * SEGMENT) * __ldg(x + column);
  }
  values += WIDTH * SEGMENT;
}

// Whether the columns of rows `first` .. `first` + SEGMENT - 1 are in the matrix on all diagonals of a pattern.
template <typename... GROUPS>
__device__ __forceinline__ bool is_inside(Pattern<GROUPS...>, long long first, int cols) {
  int low = 0, high = 0;  // offsets of the first and last diagonal: constants
  bool any = false;
  ((low = any ? low : GROUPS::FIRST, high = GROUPS::LAST, any = true), ...);
  return first + low >= 0 && first + SEGMENT - 1 + high < cols;
}

template <typename V, typename... GROUPS>
__device__ __forceinline__ V pattern_sum(Pattern<GROUPS...> pattern, long long first, unsigned row, int cols,
                                         const V* __restrict__ values, const V* __restrict__ x) {
  V sum = 0;
  const V* group = values;
  const unsigned columns = static_cast<unsigned>(cols);
  if (is_inside(pattern, first, cols)) {
    (add_group<true>(GROUPS(), row, columns, group, x, sum), ...);
  } else {
    (add_group<false>(GROUPS(), row, columns, group, x, sum), ...);
  }
  return sum;
}

// The code of pattern `wanted` of those that have code, counted from 0: false if it is none of them.
template <typename V>
__device__ __forceinline__ bool by_code(int, long long, unsigned, int, const V*, const V*, V*) {
  return false;
}
template <typename V, typename P, typename... REST>
__device__ __forceinline__ bool by_code(int wanted, long long first, unsigned row, int cols,
                                        const V* __restrict__ values, const V* __restrict__ x, V* sum) {
  if (wanted > 0) return by_code<V, REST...>(wanted - 1, first, row, cols, values, x, sum);
  *sum = pattern_sum(P(), first, row, cols, values, x);
  return true;
}

// A block per segment. PATTERNS: of the first patterns, as the matrix has them; the groups of the others are read from
// the table.
template <typename V, typename I, bool ADD, typename... PATTERNS>
__global__ void __launch_bounds__(SEGMENT)
    crsd_generated(int rows, int cols, const I* __restrict__ segment_ptr, const int* __restrict__ pattern,
                   const int* __restrict__ pattern_ptr, const int* __restrict__ offset, const int* __restrict__ width,
                   const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long first = static_cast<long long>(blockIdx.x) * SEGMENT;
  const unsigned row = static_cast<unsigned>(first) + threadIdx.x;
  if (row >= rows) return;
  const int which = __ldg(pattern + blockIdx.x);
  const I begin = __ldg(segment_ptr + blockIdx.x);
  values += static_cast<long long>(begin) * SEGMENT + threadIdx.x;
  V sum[1] = {V(0)};
  if (!by_code<V, PATTERNS...>(which, first, row, cols, values, x, sum)) {
    const int diagonals = static_cast<int>(__ldg(segment_ptr + blockIdx.x + 1) - begin);
    const int group = __ldg(pattern_ptr + which);
    sum_diagonals<1, 4, false>(row, cols, diagonals, SEGMENT, Grouped{offset + group, width + group, 0, 0}, values, x,
                               sum);
  }
  put<ADD>(y + row, sum[0]);
}

// A block per segment, whose pattern is a list of diagonals in a table. Groups of them are slower here: where a
// diagonal is depends on the one before, and its loads wait for that.
template <typename V, typename I, bool ADD, typename S = V>
__global__ void __launch_bounds__(SEGMENT, blocks<V>(10))
    crsd_spmv(int rows, int cols, const I* __restrict__ segment_ptr, const int* __restrict__ pattern,
              const int* __restrict__ pattern_ptr, const int* __restrict__ offset, const S* __restrict__ values,
              const V* __restrict__ x, V* __restrict__ y) {
  const unsigned row = global_thread<V>();
  if (row >= rows) return;
  const unsigned segment = row / SEGMENT;
  const I begin = __ldg(segment_ptr + segment);
  const int diagonals = static_cast<int>(__ldg(segment_ptr + segment + 1) - begin);
  const int* offsets = offset + __ldg(pattern_ptr + __ldg(pattern + segment));
  V sum[1] = {V(0)};
  sum_diagonals<1, 4, sizeof(V) == 8>(row, cols, diagonals, SEGMENT, offsets,
                                      values + (static_cast<long long>(begin) * SEGMENT + row % SEGMENT), x, sum);
  put<ADD>(y + row, sum[0]);
}
