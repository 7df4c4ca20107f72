// BRCSD: blocks of 128 rows with diagonals of their own; see spmvbench/formats/dia/brcsd.py.
#include "dia.cuh"

constexpr int BLOCK = 128;  // rows of a row block
constexpr int THREADS = 128;
constexpr int EACH = 2;  // rows of a thread

// The row blocks with one list of diagonals, OFFSETS: members[first] and the `blocks` from there. No bounds are tested
// in row blocks all of whose columns are within the matrix.
template <typename V, typename I, bool ADD, int... OFFSETS>
__global__ void __launch_bounds__(THREADS)
    brcsd_list(int first, int blocks, int rows, int cols, const int* __restrict__ members,
               const I* __restrict__ segment_ptr, const V* __restrict__ values, const V* __restrict__ x,
               V* __restrict__ y) {
  constexpr int DIAGONALS = sizeof...(OFFSETS);
  constexpr int offset[DIAGONALS + 1] = {OFFSETS..., 0};  // ascending, the last is none
  using Pair = typename PairOf<V>::type;
  const int at = static_cast<int>(global_thread() / (BLOCK / EACH));
  if (at >= blocks) return;
  const int block = __ldg(members + first + at), inside = threadIdx.x % (BLOCK / EACH) * EACH;
  const long long begin = static_cast<long long>(block) * BLOCK, row = begin + inside;
  const V* const own = values + static_cast<long long>(__ldg(segment_ptr + block)) * BLOCK + inside;
  V sum[EACH] = {};
  Pair value[DIAGONALS + 1];
  V factor[DIAGONALS + 1][EACH];
#pragma unroll
  for (int d = 0; d < DIAGONALS; ++d) value[d] = load_stream(reinterpret_cast<const Pair*>(own + d * BLOCK));
  if (DIAGONALS > 0 && begin + offset[0] >= 0 && begin + BLOCK + offset[DIAGONALS > 0 ? DIAGONALS - 1 : 0] <= cols) {
#pragma unroll
    for (int d = 0; d < DIAGONALS; ++d) {
#pragma unroll
      for (int r = 0; r < EACH; ++r) factor[d][r] = __ldg(x + (row + r + offset[d]));
    }
  } else {
#pragma unroll
    for (int d = 0; d < DIAGONALS; ++d) {
#pragma unroll
      for (int r = 0; r < EACH; ++r) {
        const long long column = row + r + offset[d];
        factor[d][r] = column >= 0 && column < cols ? __ldg(x + column) : V(0);
      }
    }
  }
#pragma unroll
  for (int d = 0; d < DIAGONALS; ++d) {
    sum[0] += value[d].x * factor[d][0];
    sum[1] += value[d].y * factor[d][1];
  }
#pragma unroll
  for (int r = 0; r < EACH; ++r) {
    if (row + r < rows) put<ADD>(y + row + r, sum[r]);
  }
}

// The row blocks from members[first] on, a block each, whose diagonals are in a list that row blocks may share.
template <typename V, typename I, bool ADD, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    brcsd_table(int first, int rows, int cols, const int* __restrict__ members, const I* __restrict__ segment_ptr,
                const int* __restrict__ pattern, const int* __restrict__ pattern_ptr, const int* __restrict__ offset,
                const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const int block = __ldg(members + first + blockIdx.x);
  const long long row = static_cast<long long>(block) * BLOCK + threadIdx.x;
  if (row >= rows) return;
  const I begin = __ldg(segment_ptr + block);
  const int diagonals = static_cast<int>(__ldg(segment_ptr + block + 1) - begin);
  const int* const offsets = offset + __ldg(pattern_ptr + __ldg(pattern + block));
  V sum[1] = {V(0)};
  sum_diagonals<1, 4, sizeof(V) == 8>(static_cast<unsigned>(row), cols, diagonals, BLOCK, offsets,
                                      values + (static_cast<long long>(begin) * BLOCK + threadIdx.x), x, sum);
  put<ADD>(y + row, sum[0]);
}
