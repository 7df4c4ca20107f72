// CRSD (Sun et al., ICPP 2011): segments of rows that share patterns of diagonals, with code of its own for each
// pattern; see spmvbench/formats/dia/crsd.py.
#include "dia.cuh"

constexpr int SEGMENT = 128;  // rows, and threads of a block

// The offsets of a pattern's diagonals, ascending: what the code of a pattern is made of.
template <int... OFFSETS>
struct Pattern {};

// A row's sum over the diagonals of a pattern, which are in the code. values: of the row on the first diagonal.
// inside: whether the columns of all rows of the segment are inside of the matrix on every diagonal.
template <typename V, int FIRST, int... OFFSETS, typename S>
__device__ __forceinline__ V pattern_sum(Pattern<FIRST, OFFSETS...>, bool inside, unsigned row, unsigned cols,
                                         const S* __restrict__ values, const V* __restrict__ x) {
  constexpr int COUNT = 1 + static_cast<int>(sizeof...(OFFSETS));
  constexpr int offset[COUNT] = {FIRST, OFFSETS...};
  V sum = 0;
  if (inside) {
#pragma unroll
    for (int d = 0; d < COUNT; ++d) sum += load_stream(values + d * SEGMENT) * __ldg(x + (row + offset[d]));
  } else {
#pragma unroll
    for (int d = 0; d < COUNT; ++d) {
      const unsigned column = row + offset[d];
      if (column < cols) sum += load_stream(values + d * SEGMENT) * __ldg(x + column);
    }
  }
  return sum;
}

// Segments without entries have a pattern too.
template <typename V>
__device__ __forceinline__ V pattern_sum(Pattern<>, bool, unsigned, unsigned, const V*, const V*) {
  return V(0);
}

// Whether the columns of rows `first` .. `first` + SEGMENT - 1 are in the matrix on the first and last diagonal.
template <int FIRST, int... OFFSETS>
__device__ __forceinline__ bool is_inside(Pattern<FIRST, OFFSETS...>, long long first, int cols) {
  constexpr int offset[] = {FIRST, OFFSETS...};
  return first + FIRST >= 0 && first + SEGMENT - 1 + offset[sizeof...(OFFSETS)] < cols;
}

__device__ __forceinline__ bool is_inside(Pattern<>, long long, int) { return true; }

// The code of pattern `wanted` of those that have code, counted from 0: false if it is none of them.
template <typename V>
__device__ __forceinline__ bool by_code(int, long long, unsigned, int, const V*, const V*, V*) {
  return false;
}
template <typename V, typename P, typename... REST, typename S>
__device__ __forceinline__ bool by_code(int wanted, long long first, unsigned row, int cols,
                                        const S* __restrict__ values, const V* __restrict__ x, V* sum) {
  if (wanted > 0) return by_code<V, REST...>(wanted - 1, first, row, cols, values, x, sum);
  *sum = pattern_sum(P(), is_inside(P(), first, cols), row, static_cast<unsigned>(cols), values, x);
  return true;
}

// A block per segment. PATTERNS: of the first patterns, as the matrix has them; the others are read from the table, as
// by crsd_spmv of pieces.cu.
template <typename V, typename I, bool ADD, typename... PATTERNS, typename S = V>
__global__ void __launch_bounds__(SEGMENT)
    crsd_generated(int rows, int cols, const I* __restrict__ segment_ptr, const int* __restrict__ pattern,
                   const int* __restrict__ pattern_ptr, const int* __restrict__ offset, const S* __restrict__ values,
                   const V* __restrict__ x, V* __restrict__ y) {
  const long long first = static_cast<long long>(blockIdx.x) * SEGMENT;
  const unsigned row = static_cast<unsigned>(first) + threadIdx.x;
  if (row >= rows) return;
  const int which = __ldg(pattern + blockIdx.x);
  const I begin = __ldg(segment_ptr + blockIdx.x);
  values += static_cast<long long>(begin) * SEGMENT + threadIdx.x;
  V sum[1] = {V(0)};
  if (!by_code<V, PATTERNS...>(which, first, row, cols, values, x, sum)) {
    const int diagonals = static_cast<int>(__ldg(segment_ptr + blockIdx.x + 1) - begin);
    sum_diagonals<1, 4, false>(row, cols, diagonals, SEGMENT, offset + __ldg(pattern_ptr + which), values, x, sum);
  }
  put<ADD>(y + row, sum[0]);
}
