// CSR to BRO on the device: what spmvbench/formats/compressed/bro.py computes by arrays on the host.
#include "largest.cuh"
#include "offsets.cuh"
#include "search.cuh"
#include "side_by_side.cuh"
#include "spmv.cuh"

constexpr int POSITIONS = 64;     // of a slice whose widths a block finds together
constexpr int MOST_HEIGHT = 256;  // rows of a slice

// Bits that a number takes; 0 for 0.
__device__ __forceinline__ int bit_length(int number) { return 32 - __clz(number); }

// A thread's stream of fields, words of 32 bits `step` apart. MOST_FIRST: as in bits.cuh.
template <bool MOST_FIRST>
struct BitWriter {
  unsigned* __restrict__ words;
  int step;
  unsigned long long window = 0;
  int bits = 0;

  __device__ __forceinline__ void put(unsigned field, int width) {
    window = MOST_FIRST ? window << width | field : window | static_cast<unsigned long long>(field) << bits;
    bits += width;
    if (bits < 32) return;
    bits -= 32;
    *words = static_cast<unsigned>(MOST_FIRST ? window >> bits : window);
    words += step;
    window = MOST_FIRST ? window & ((1ull << bits) - 1) : window >> 32;
  }

  __device__ __forceinline__ void end() {
    if (bits) *words = static_cast<unsigned>(MOST_FIRST ? window << (32 - bits) : window);
  }
};

// A row of a slice, from its first entry on, `upto` entries at most.
template <typename I, bool SORTED>
struct SliceRow {
  I begin = 0;
  int length = 0;

  __device__ __forceinline__ SliceRow(long long slice, int rows, int upto, const int* __restrict__ perm,
                                      const I* __restrict__ row_ptr) {
    const long long place = slice * blockDim.x + threadIdx.x;
    if (place >= rows) return;
    const int row = SORTED ? perm[place] : static_cast<int>(place);
    begin = row_ptr[row];
    const I all = row_ptr[row + 1] - begin;
    length = all < upto ? static_cast<int>(all) : upto;
  }
};

// Bits of the differences at each position, and the words of a row's stream: a block a slice, a thread a row.
template <typename I, typename P, bool SORTED>
__global__ void bro_widths(int rows, int upto, const int* __restrict__ perm, const I* __restrict__ row_ptr,
                           const int* __restrict__ col_idx, const P* __restrict__ slice_ptr,
                           unsigned char* __restrict__ widths, int* __restrict__ words) {
  __shared__ int most[POSITIONS];
  __shared__ int bits;
  const long long slice = blockIdx.x;
  if (threadIdx.x == 0) bits = 0;
  const SliceRow<I, SORTED> row(slice, rows, upto, perm, row_ptr);
  const P first = slice_ptr[slice];
  const int positions = static_cast<int>(slice_ptr[slice + 1] - first);
  for (int from = 0; from < positions; from += POSITIONS) {
    const int here = positions - from < POSITIONS ? positions - from : POSITIONS;
    for (int p = threadIdx.x; p < here; p += blockDim.x) most[p] = 0;
    __syncthreads();
    for (int p = 0; p < here; p += SIDE) {
      int largest = 0;  // of the differences to the column before, which is -1 before the first, at one position
      side_by_side(row.begin, row.length, from + p, [&](int, bool held, int, int position, I entry) {
        const int column = held ? col_idx[entry] : 0;
        const int before = column_before(col_idx, from + p, held, entry, column);
        const int step = !held ? 0 : position ? column - before : column + 1;
        largest = largest < step ? step : largest;
      });
#pragma unroll
      for (int offset = SIDE; offset < WARP; offset *= 2) {
        const int other = __shfl_xor_sync(FULL_MASK, largest, offset);
        largest = largest < other ? other : largest;
      }
      if (lane_id() < SIDE && largest) atomicMax(most + p + lane_id(), largest);
    }
    __syncthreads();
    for (int p = threadIdx.x; p < here; p += blockDim.x) {
      const int width = bit_length(most[p]);
      widths[first + from + p] = static_cast<unsigned char>(width);
      atomicAdd(&bits, width);
    }
    __syncthreads();
  }
  __syncthreads();
  if (threadIdx.x == 0) words[slice] = (bits + 31) / 32;
}

// The streams and the slots of values.
template <typename V, typename I, typename P, bool SORTED>
__global__ void bro_fill(int rows, int upto, const int* __restrict__ perm, const I* __restrict__ row_ptr,
                         const int* __restrict__ col_idx, const V* __restrict__ from, const P* __restrict__ slice_ptr,
                         const P* __restrict__ symbol_ptr, const unsigned char* __restrict__ widths,
                         unsigned* __restrict__ symbols, V* __restrict__ values) {
  const SliceRow<I, SORTED> row(blockIdx.x, rows, upto, perm, row_ptr);
  const int height = static_cast<int>(blockDim.x);
  const long long first = slice_ptr[blockIdx.x], word = symbol_ptr[blockIdx.x];
  const int positions = static_cast<int>(slice_ptr[blockIdx.x + 1] - first);
  BitWriter<true> stream{symbols + word * height + threadIdx.x, height};
  __shared__ Side<V> sides[MOST_HEIGHT / WARP];
  int before = -1;
  const auto store = [&](int p, bool held, int column, V value) {
    stream.put(static_cast<unsigned>(held ? column - before : 0), widths[first + p]);
    values[(first + p) * height + threadIdx.x] = value;
    before = column;
  };
  sides[threadIdx.x / WARP].each(row.begin, row.length, 0, positions, col_idx, from, store);
  stream.end();
}

// The rows of more than `upto` entries.
template <typename I>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    bro_longer(int rows, int upto, const I* __restrict__ row_ptr, int* __restrict__ listed,
               unsigned long long* __restrict__ state) {
  const auto count = [=](long long row) { return row < rows && row_ptr[row + 1] - row_ptr[row] > upto ? 1ll : 0ll; };
  sum_before<OFFSETS_EACH>(rows, state, count, [=](long long row, long long before, long long number) {
    if (number) listed[before] = static_cast<int>(row);
  });
}

// The entries of rows from number `first` on. LISTED: of the rows in `listed`, of which `ptr` says what is before each.
template <typename I, typename Q, bool LISTED>
struct Rest {
  int rows, first;
  const int* __restrict__ listed;
  const I* __restrict__ row_ptr;
  Q* __restrict__ ptr;

  __device__ __forceinline__ int row(int place) const { return LISTED ? listed[place] : place; }
  __device__ __forceinline__ I begin(int place) const { return row_ptr[row(place)] + static_cast<I>(first); }
  __device__ __forceinline__ I end(int place) const { return row_ptr[row(place) + 1]; }
};

// Offsets of the entries of each row, if they are listed, and of its rounds of `lanes` entries. entries: state of the former.
template <typename I, typename Q, bool LISTED, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    bro_rounds(Rest<I, Q, LISTED> rest, int lanes, unsigned long long* __restrict__ entries, P* __restrict__ ptr,
               unsigned long long* __restrict__ state) {
  const auto count = [=](long long at) {
    const int place = static_cast<int>(at);
    return at < rest.rows ? static_cast<long long>(rest.end(place) - rest.begin(place)) : 0ll;
  };
  if (LISTED) write_offsets<OFFSETS_EACH>(rest.rows, rest.ptr, entries, count);
  write_offsets<OFFSETS_EACH>(rest.rows, ptr, state, [=](long long at) { return (count(at) + lanes - 1) / lanes; });
}

// The entries of a round; no entries behind the last round. Every lane of the warp arrives, with neighbouring rounds.
template <typename I, typename Q, bool LISTED, typename R>
struct Round {
  I begin = 0;
  int count = 0;
  long long to = 0;  // the place of its first value

  __device__ __forceinline__ Round(long long round, int rounds, int lanes, const Rest<I, Q, LISTED>& rest,
                                   const R* __restrict__ round_ptr) {
    const long long first_round = round - lane_id();
    if (first_round >= rounds) return;
    const int near = first_behind_of_warp(round_ptr, 0, rest.rows + 1, static_cast<R>(first_round)) - 1;
    if (round >= rounds) return;
    const int place = row_from(round_ptr, near, rest.rows + 1, static_cast<R>(round));
    const I inside = static_cast<I>(round - round_ptr[place]) * static_cast<I>(lanes);
    begin = rest.begin(place) + inside;
    const I left = rest.end(place) - begin;
    count = left < lanes ? static_cast<int>(left) : lanes;
    if (LISTED) to = static_cast<long long>(rest.ptr[place] + static_cast<Q>(inside));
  }
};

// The first column of each round, the bits of its fields, and offsets of its words.
template <typename I, typename Q, bool LISTED, typename R, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    bro_round_widths(Rest<I, Q, LISTED> rest, int rounds, int lanes, const R* __restrict__ round_ptr,
                     const int* __restrict__ col_idx, int* __restrict__ base, unsigned char* __restrict__ widths,
                     P* __restrict__ ptr, unsigned long long* __restrict__ state) {
  write_offsets<1>(rounds, ptr, state, [=](long long at) {
    const Round<I, Q, LISTED, R> round(at, rounds, lanes, rest, round_ptr);
    int most = 0;
    for (int from = 0; __any_sync(FULL_MASK, from < round.count); from += SIDE) {
      side_by_side(round.begin, round.count, from, [&](int i, bool held, int, int position, I entry) {
        const int column = held ? col_idx[entry] : 0;
        const int before = column_before(col_idx, from, held, entry, column);
        int step = held && position ? column - before - 1 : 0;
#pragma unroll
        for (int offset = 1; offset < SIDE; offset *= 2) step = max(step, __shfl_xor_sync(FULL_MASK, step, offset));
        const int of_run = lane_id() % (WARP / SIDE) * SIDE;  // the first lane that reads the run of this one
        const int largest = __shfl_sync(FULL_MASK, step, of_run), begins = __shfl_sync(FULL_MASK, column, of_run);
        if (lane_id() / (WARP / SIDE) != i) return;
        most = max(most, largest);
        if (from == 0 && round.count) base[at] = begins;
      });
    }
    if (at >= rounds) return 0ll;
    const int width = bit_length(most);
    widths[at] = static_cast<unsigned char>(width);
    return (static_cast<long long>(round.count - 1) * width + 31) / 32;
  });
}

// The fields, a thread a round; and the values, if they are not all.
template <typename V, typename I, typename Q, bool LISTED, typename R>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    bro_round_fill(Rest<I, Q, LISTED> rest, int rounds, int lanes, const R* __restrict__ round_ptr,
                   const int* __restrict__ col_idx, const V* __restrict__ csr_values,
                   const unsigned char* __restrict__ widths, const int* __restrict__ word_ptr,
                   unsigned* __restrict__ words, V* __restrict__ values) {
  __shared__ Side<V> sides[OFFSETS_BLOCK / WARP];
  Side<V>& side = sides[threadIdx.x / WARP];
  const long long at = global_thread();
  const Round<I, Q, LISTED, R> round(at, rounds, lanes, rest, round_ptr);
  const int width = at < rounds ? widths[at] : 0;
  BitWriter<false> stream{words + (width ? word_ptr[at] : 0), 1};
  int before = 0;
  for (int from = 0; __any_sync(FULL_MASK, from < round.count); from += SIDE) {
    side.load(round.begin, round.count, from, col_idx, csr_values);
#pragma unroll
    for (int i = 0; i < SIDE; ++i) {
      const int column = side.columns[lane_id()][i];
      if (width && from + i && from + i < round.count) stream.put(static_cast<unsigned>(column - before - 1), width);
      before = column;
    }
    if (LISTED && rest.first) {
      side_by_side(round.to, round.count, from, [&](int, bool held, int lane, int, long long to) {
        if (held) values[to] = side.values[lane][lane_id() % SIDE];
      });
    }
  }
  stream.end();
}
