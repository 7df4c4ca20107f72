// CSR to sell-window on the device, without packed columns: what spmvbench/formats/cache_blocking/sell_window.py computes
// by arrays on the host.
#include "largest.cuh"
#include "offsets.cuh"
#include "spmv.cuh"
#include "window.cuh"

constexpr int CONVERT_BLOCK = 256;
constexpr int WIDE = 32;    // bits of a column whose x lies in global memory
constexpr int ALIGNED = 4;  // of a window's first column
constexpr int NONE = 0x7fffffff;

template <typename I, bool SORTED>
struct SliceRow {
  I begin;
  int length;

  __device__ __forceinline__ SliceRow(int rows, long long place, const int* __restrict__ perm,
                                      const I* __restrict__ row_ptr)
      : begin(0), length(0) {
    if (place >= rows) return;
    const int row = SORTED ? perm[place] : static_cast<int>(place);
    begin = row_ptr[row];
    length = static_cast<int>(row_ptr[row + 1] - begin);
  }
};

// Of each slice of 32 rows: offsets of its positions and of the bytes of a thread, the bits of a column, first column (0
// where columns are whole), and the columns that a window has to hold: from `narrow_low`, NONE if there are none, to
// `narrow_high`, -1. begins: set to 0. The last two notes: positions and bytes in all.
template <typename I, bool SORTED>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    window_slices(int rows, int slices, int window, const int* __restrict__ perm, const I* __restrict__ row_ptr,
                  const int* __restrict__ col_idx, int* __restrict__ position, int* __restrict__ word,
                  int* __restrict__ bits_of, int* __restrict__ lows, int* __restrict__ narrow_low,
                  int* __restrict__ narrow_high, int* __restrict__ begins, unsigned long long* __restrict__ state) {
  constexpr int HALF = 31;  // bits of each of the two sums
  const auto count = [&](long long at) {
    int width = 0, low = NONE, high = -1;
#pragma unroll 4
    for (int s = 0; s < WARP; ++s) {
      const SliceRow<I, SORTED> row(rows, (at - lane_id() + s) * WARP + lane_id(), perm, row_ptr);
      const int most = warp_max(row.length);
      const int lowest = warp_min(row.length ? col_idx[row.begin] : NONE);
      const int highest = warp_max(row.length ? col_idx[row.begin + row.length - 1] : -1);
      if (s == lane_id()) width = most, low = lowest, high = highest;
    }
    const long long span = high >= 0 ? static_cast<long long>(high) - low + 1 : 0;
    int bits = WIDE;
    for (int fewer = 16; fewer >= 4; fewer -= 4) {
      if (span < 1 << fewer) bits = fewer;  // all ones are padding
    }
    if (span + low % ALIGNED > window) bits = WIDE;
    const bool far = bits == WIDE;
    const int held = 4 * (width / GROUP * (GROUP * bits / 32) + (width % GROUP * bits + 31) / 32);
    if (at < slices) {
      bits_of[at] = bits;
      lows[at] = far || high < 0 ? 0 : low;
      narrow_low[at] = far || high < 0 ? NONE : low;
      narrow_high[at] = far ? -1 : high;
      begins[at] = 0;
    }
    const long long widths = group_sum<WARP>(static_cast<long long>(width));
    const long long bytes = group_sum<WARP>(static_cast<long long>(held));
    if (lane_id() == 0) {
      atomicAdd(state + 1, static_cast<unsigned long long>(widths));
      atomicAdd(state + 2, static_cast<unsigned long long>(bytes));
    }
    return width | static_cast<long long>(held) << HALF;
  };
  sum_before<1>(slices, state, count, [=](long long at, long long before, long long number) {
    position[at + 1] = static_cast<int>((before + number) & ((1ll << HALF) - 1));
    word[at + 1] = static_cast<int>((before + number) >> HALF);
  });
  if (blockIdx.x == 0 && threadIdx.x == 0) position[0] = word[0] = 0;
}

// Chunks of slices: equal shares of positions and slices, those whose columns exceed the window halved until they fit; a
// block per share. position: before each slice, and their number. begins, zero before: 1 where a chunk begins. firsts:
// the first column of each slice's window. columns: of the chunk that begins. notes: the most columns, and the last two
// of `window_slices`.
__global__ void __launch_bounds__(CONVERT_BLOCK)
    window_chunks(int slices, int window, const int* __restrict__ position, const int* __restrict__ low,
                  const int* __restrict__ high, int* __restrict__ begins, int* __restrict__ firsts,
                  int* __restrict__ columns, const unsigned long long* __restrict__ of_slices,
                  unsigned long long* __restrict__ notes) {
  constexpr int DEPTH = 33;
  __shared__ int of_warp[2][CONVERT_BLOCK / WARP];
  __shared__ int stack[DEPTH][2];  // As NumPy's linspace has them.
  const double step = static_cast<double>(static_cast<long long>(position[slices]) + slices) / gridDim.x;
  const auto after = [&](int share) {  // the slices that end in the shares before
    const double limit = share * step;
    int from = 0, to = slices;
    while (from < to) {
      const int middle = (from + to) / 2;
      if (static_cast<double>(static_cast<long long>(position[middle + 1]) + middle + 1) <= limit) {
        from = middle + 1;
      } else {
        to = middle;
      }
    }
    return from;
  };
  if (blockIdx.x == 0 && threadIdx.x == 0) notes[1] = of_slices[1], notes[2] = of_slices[2];
  const int share = blockIdx.x;
  const int begin = share ? after(share) : 0;
  const int end = share + 1 < static_cast<int>(gridDim.x) ? after(share + 1) : slices;
  if (threadIdx.x == 0) {
    stack[0][0] = begin;
    stack[0][1] = end;
  }
  for (int depth = begin < end ? 1 : 0; depth > 0;) {
    __syncthreads();
    const int first = stack[depth - 1][0], last = stack[depth - 1][1];
    int lowest = NONE, highest = -1;
    for (int s = first + static_cast<int>(threadIdx.x); s < last; s += CONVERT_BLOCK) {
      lowest = low[s] < lowest ? low[s] : lowest;
      highest = high[s] > highest ? high[s] : highest;
    }
    lowest = warp_min(lowest);
    highest = warp_max(highest);
    if (lane_id() == 0) {
      of_warp[0][threadIdx.x / WARP] = lowest;
      of_warp[1][threadIdx.x / WARP] = highest;
    }
    __syncthreads();
    for (int w = 0; w < CONVERT_BLOCK / WARP; ++w) {
      lowest = of_warp[0][w] < lowest ? of_warp[0][w] : lowest;
      highest = of_warp[1][w] > highest ? of_warp[1][w] : highest;
    }
    const int column = highest >= 0 ? lowest / ALIGNED * ALIGNED : 0;
    const int size = highest >= 0 ? highest - column + 1 : 0;
    if (size > window && last - first > 1) {
      const int middle = static_cast<int>((static_cast<long long>(first) + last) / 2);
      if (threadIdx.x == 0) {
        stack[depth - 1][0] = middle;
        stack[depth][0] = first;
        stack[depth][1] = middle;
      }
      ++depth;
    } else {
      for (int s = first + static_cast<int>(threadIdx.x); s < last; s += CONVERT_BLOCK) firsts[s] = column;
      if (threadIdx.x == 0) {
        begins[first] = 1;
        columns[first] = size;
        note_most(notes, size);
      }
      --depth;
    }
  }
}

// The tables of chunks and slices. begins: 1 where a chunk begins; their sum is how many there are.
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    window_tables(int slices, const int* __restrict__ position, const int* __restrict__ word,
                  const int* __restrict__ lows, const int* __restrict__ bits, const int* __restrict__ begins,
                  const int* __restrict__ firsts, const int* __restrict__ columns, int* __restrict__ chunk_table,
                  int* __restrict__ slice_table, unsigned long long* __restrict__ state) {
  const auto count = [=](long long s) { return s < slices ? static_cast<long long>(begins[s]) : 0ll; };
  sum_before<OFFSETS_EACH>(slices, state, count, [=](long long s, long long before, long long number) {
    const long long own = before + number - 1;
    if (number) {
      chunk_table[own * 4] = static_cast<int>(s);
      chunk_table[own * 4 + 2] = firsts[s];
      chunk_table[own * 4 + 3] = columns[s];
      if (own > 0) chunk_table[own * 4 - 3] = static_cast<int>(s);
    }
    if (s == slices - 1 && own >= 0) chunk_table[own * 4 + 1] = slices;
    const int width = position[s + 1] - position[s];
    slice_table[s * 4] = position[s];
    slice_table[s * 4 + 1] = word[s];
    slice_table[s * 4 + 2] = bits[s] == WIDE || width == 0 ? 0 : lows[s] - firsts[s];
    slice_table[s * 4 + 3] = width * WIDTH_UNIT + bits[s];
  });
}

// Entries of rows of several vectors in an order in which neighbouring rows read other banks: windows have CLASSES columns
// side by side in all banks, and of each class a row has one entry after the other, beginning with another class than the
// row before. A thread a row, by its place.
template <typename V, typename I, int CLASSES, bool SORTED>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    window_order(int rows, const int* __restrict__ perm, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                 const V* __restrict__ from, int* __restrict__ columns, V* __restrict__ values) {
  const long long place = global_thread();
  const SliceRow<I, SORTED> row(rows, place, perm, row_ptr);
  int count[CLASSES] = {}, before[CLASSES] = {};
  for (int k = 0; k < row.length; ++k) ++count[col_idx[row.begin + k] % CLASSES];
  for (int k = 0; k < row.length; ++k) {
    const int column = col_idx[row.begin + k], of = column % CLASSES, rank = before[of]++;
    const unsigned turn = (of - static_cast<unsigned>(place)) % CLASSES;
    int at = 0;
#pragma unroll
    for (int c = 0; c < CLASSES; ++c) {
      at += min(count[c], rank + ((c - static_cast<unsigned>(place)) % CLASSES < turn ? 1 : 0));
    }
    columns[row.begin + at] = column;
    values[row.begin + at] = from[row.begin + k];
  }
}

// Columns and values: a block per slice, a warp for each of its groups of positions in turn.
template <typename V, typename I, bool SORTED>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    window_fill(int rows, const int* __restrict__ slice_table, const int* __restrict__ lows,
                const int* __restrict__ perm, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                const V* __restrict__ from, unsigned* __restrict__ words, V* __restrict__ values) {
  constexpr int VECTOR = 16 / sizeof(V);
  const long long slice = blockIdx.x;
  const int lane = lane_id();
  const SliceRow<I, SORTED> row(rows, slice * WARP + lane, perm, row_ptr);
  const int width = slice_table[slice * 4 + 3] / WIDTH_UNIT;
  const int bits = slice_table[slice * 4 + 3] % WIDTH_UNIT;
  const int low = lows[slice];
  const unsigned padding = bits == 32 ? ~0u : (1u << bits) - 1;
  unsigned* word = words + static_cast<long long>(slice_table[slice * 4 + 1]) * QUARTER + lane;
  V* value = values + static_cast<long long>(slice_table[slice * 4]) * WARP;
  const int whole = width / GROUP * GROUP;
  for (int group = threadIdx.x / WARP; group * GROUP < width; group += CONVERT_BLOCK / WARP) {
    unsigned* next = word + static_cast<long long>(group) * (GROUP * bits / 32) * WARP;
    unsigned long long waiting = 0;
    int count = 0;
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      const int p = group * GROUP + g;
      if (p >= width) break;
      const bool entry = p < row.length;
      const unsigned code = entry ? static_cast<unsigned>(col_idx[row.begin + p] - low) : padding;
      value[p < whole ? p / VECTOR * (VECTOR * WARP) + lane * VECTOR + p % VECTOR : p * WARP + lane] =
          entry ? from[row.begin + p] : V(0);
      waiting |= static_cast<unsigned long long>(code) << count;
      count += bits;
      if (count >= 32) {
        *next = static_cast<unsigned>(waiting);
        next += WARP;
        waiting >>= 32;
        count -= 32;
      }
    }
    if (count) *next = static_cast<unsigned>(waiting);
  }
}
