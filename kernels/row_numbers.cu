// Numbers of a matrix by which a format is chosen, in one pass over the row pointers and of a sample of its rows: what
// spmvbench/advice/quick.py computes by arrays on the host.
#include "largest.cuh"
#include "search.cuh"

constexpr int NUMBERS_BLOCK = 256;
constexpr int PROBES = NUMBERS_BLOCK / WARP;  // rows in which the diagonal of an entry of the sample is looked up
constexpr unsigned MIXING = 2654435761u;      // its multiples modulo 2^32 are evenly distributed

enum Number { LONGEST, SQUARES, EMPTY, WIDTHS, SAMPLED, RUNS, REPEATED, ON_DIAGONALS, NUMBERS };

template <typename I>
__device__ __forceinline__ bool has_entry(const I* __restrict__ row_ptr, const int* __restrict__ col_idx, long long row,
                                          long long column) {
  long long low = row_ptr[row], high = row_ptr[row + 1];
  const long long end = high;
  while (low < high) {
    const long long middle = (low + high) / 2;
    if (col_idx[middle] < column) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < end && col_idx[low] == column;
}

// `first_behind` by a warp, whose lanes all ask for one key: 32 places at a time, where each waits for memory.
template <typename T, typename I>
__device__ __forceinline__ I first_behind_by_warp(const T* __restrict__ ascending, I low, I high, T key) {
  while (low < high) {
    const long long size = high - low;
    const I at = low + static_cast<I>(size * (lane_id() + 1) / (WARP + 1));
    const int before = __popc(__ballot_sync(FULL_MASK, ascending[at] <= key));
    const I last = low + static_cast<I>(size * before / (WARP + 1));  // of the places before
    const I next = low + static_cast<I>(size * (before + 1) / (WARP + 1));
    low = before ? last + 1 : low;
    high = before < WARP ? next : high;
  }
  return low;
}

// A block for each of `samples`. It compares one row of every `rows_apart` with the row before, and takes neighbouring
// entries of every `apart`, a lane for each: their runs, and whether their diagonals are full. A warp looks these up in
// one row of each of PROBES equal parts. sums: (NUMBERS + 1,), zero before and after; the last counts blocks. found:
// (NUMBERS,), which may be in the host's memory: the last block to leave writes it.
template <typename I>
__global__ void __launch_bounds__(NUMBERS_BLOCK)
    row_numbers(int rows, int cols, int samples, int rows_apart, I nnz, I apart, const I* __restrict__ row_ptr,
                const int* __restrict__ col_idx, unsigned long long* sums, unsigned long long* __restrict__ found) {
  __shared__ unsigned long long own[NUMBERS];
  __shared__ int hits[WARP];
  const int lane = lane_id(), warp = threadIdx.x / WARP;
  if (threadIdx.x < NUMBERS) own[threadIdx.x] = 0;
  if (threadIdx.x < WARP) hits[threadIdx.x] = 0;
  __syncthreads();

  unsigned long long squares = 0;
  int empty = 0, longest = 0;
  long long widths = 0;
  const long long warps = static_cast<long long>(gridDim.x) * PROBES;
  for (long long slice = static_cast<long long>(blockIdx.x) * PROBES + warp; slice * WARP < rows; slice += warps) {
    const long long row = slice * WARP + lane;
    const int length = row < rows ? static_cast<int>(row_ptr[row + 1] - row_ptr[row]) : 0;
    squares += static_cast<unsigned long long>(length) * static_cast<unsigned long long>(length);
    empty += row < rows && length == 0;
    const int width = warp_max(length);
    longest = longest < width ? width : longest;
    widths += width;
  }
  squares = group_sum<WARP>(squares);
  empty = group_sum<WARP>(empty);
  if (lane == 0 && longest + empty > 0) {
    atomicMax(&own[LONGEST], static_cast<unsigned long long>(longest));
    atomicAdd(&own[SQUARES], squares);
    atomicAdd(&own[EMPTY], static_cast<unsigned long long>(empty));
    atomicAdd(&own[WIDTHS], static_cast<unsigned long long>(widths));
  }

  if (blockIdx.x < samples) {
    const unsigned mixed = blockIdx.x * MIXING;
    const I at =
        static_cast<I>(blockIdx.x) * apart + static_cast<I>(mixed % static_cast<unsigned long long>(apart)) + lane;
    const bool entry = at < nnz;
    // Loaded before what is found by several loads, one after the other.
    const int column = entry ? col_idx[at] : 0, before = entry && at > 0 ? col_idx[at - 1] : 0;
    const int lower =
        static_cast<int>(blockIdx.x) * rows_apart + static_cast<int>(mixed % static_cast<unsigned>(rows_apart));
    const I begin = row_ptr[lower], above = lower > 0 ? row_ptr[lower - 1] : begin;
    const I length = row_ptr[lower + 1] - begin;
    const int first_row = first_behind_by_warp(row_ptr, 0, rows + 1, at - static_cast<I>(lane)) - 1;
    const int row = entry ? row_from(row_ptr, first_row, rows, at) : 0;
    if (entry) {
      const long long diagonal = static_cast<long long>(column) - row;
      const long long first = diagonal < 0 ? -diagonal : 0;
      const long long crossed = (rows < cols - diagonal ? rows : cols - diagonal) - first;
      const long long other = first + (warp * crossed + mixed % crossed) / PROBES;
      if (has_entry(row_ptr, col_idx, other, other + diagonal)) atomicAdd(&hits[lane], 1);
    }
    __syncthreads();
    if (warp == 0) {
      const bool starts = entry && (at == row_ptr[row] || before + 1 != column);
      const int taken = __popc(__ballot_sync(FULL_MASK, entry));
      const int runs = __popc(__ballot_sync(FULL_MASK, starts));
      const int full = __popc(__ballot_sync(FULL_MASK, entry && 2 * hits[lane] >= PROBES));
      const bool alike = length > 0 && begin - above == length;
      const bool differs = alike && lane < length && col_idx[above + lane] != col_idx[begin + lane];
      const int repeats = __all_sync(FULL_MASK, alike && !differs);
      if (lane == 0) {
        own[SAMPLED] = taken;
        own[RUNS] = runs;
        own[REPEATED] = repeats;
        own[ON_DIAGONALS] = full;
      }
    }
  }
  __syncthreads();
  if (warp > 0) return;
  if (lane < NUMBERS && own[lane] > 0) {
    if (lane == LONGEST) {
      atomicMax(sums, own[LONGEST]);
    } else {
      atomicAdd(sums + lane, own[lane]);
    }
    __threadfence();
  }
  __syncwarp();
  bool last = false;
  if (lane == 0) last = atomicAdd(sums + NUMBERS, 1ull) == gridDim.x - 1;
  if (!__any_sync(FULL_MASK, last)) return;
  __threadfence();
  if (lane < NUMBERS) found[lane] = atomicExch(sums + lane, 0ull);
  if (lane == NUMBERS) atomicExch(sums + NUMBERS, 0ull);
}
