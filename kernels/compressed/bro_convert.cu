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

// A row of a slice, from its first entry on.
template <typename I, bool SORTED>
struct SliceRow {
  I begin = 0;
  int length = 0;

  __device__ __forceinline__ SliceRow(int rows, const int* __restrict__ perm, const I* __restrict__ row_ptr) {
    const long long place = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (place >= rows) return;
    const int row = SORTED ? perm[place] : static_cast<int>(place);
    begin = row_ptr[row];
    length = static_cast<int>(row_ptr[row + 1] - begin);
  }
};

// Bits of the differences at each position, and the words of a row's stream: a block a slice, a thread a row.
template <typename I, typename P, bool SORTED>
__global__ void bro_widths(int rows, const int* __restrict__ perm, const I* __restrict__ row_ptr,
                           const int* __restrict__ col_idx, const P* __restrict__ slice_ptr,
                           unsigned char* __restrict__ widths, int* __restrict__ words) {
  __shared__ int most[POSITIONS];
  __shared__ int bits;
  const SliceRow<I, SORTED> row(rows, perm, row_ptr);
  const P first = slice_ptr[blockIdx.x];
  const int positions = static_cast<int>(slice_ptr[blockIdx.x + 1] - first);
  if (threadIdx.x == 0) bits = 0;
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
  if (threadIdx.x == 0) words[blockIdx.x] = (bits + 31) / 32;
}

// The streams and the slots of values.
template <typename V, typename I, typename P, bool SORTED>
__global__ void bro_fill(int rows, const int* __restrict__ perm, const I* __restrict__ row_ptr,
                         const int* __restrict__ col_idx, const V* __restrict__ from, const P* __restrict__ slice_ptr,
                         const P* __restrict__ symbol_ptr, const unsigned char* __restrict__ widths,
                         unsigned* __restrict__ symbols, V* __restrict__ values) {
  const SliceRow<I, SORTED> row(rows, perm, row_ptr);
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

// Offsets of the rounds of `lanes` entries of each row.
template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    bro_rounds(int rows, int lanes, const I* __restrict__ row_ptr, P* __restrict__ ptr,
               unsigned long long* __restrict__ state) {
  write_offsets<OFFSETS_EACH>(rows, ptr, state, [=](long long row) {
    return row < rows ? static_cast<long long>((row_ptr[row + 1] - row_ptr[row] + lanes - 1) / lanes) : 0ll;
  });
}

// The entries of a round.
template <typename I, typename R>
struct Round {
  I begin;
  int count;

  __device__ __forceinline__ Round(long long round, int rows, int lanes, const I* __restrict__ row_ptr,
                                   const R* __restrict__ round_ptr) {
    const int row = first_behind(round_ptr, 0, rows + 1, static_cast<R>(round)) - 1;
    begin = row_ptr[row] + static_cast<I>(round - round_ptr[row]) * static_cast<I>(lanes);
    const I left = row_ptr[row + 1] - begin;
    count = left < lanes ? static_cast<int>(left) : lanes;
  }
};

// The first column of each round, the bits of its fields, and offsets of its words.
template <typename I, typename R, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    bro_round_widths(int rows, int rounds, int lanes, const I* __restrict__ row_ptr, const R* __restrict__ round_ptr,
                     const int* __restrict__ col_idx, int* __restrict__ base, unsigned char* __restrict__ widths,
                     P* __restrict__ ptr, unsigned long long* __restrict__ state) {
  write_offsets<1>(rounds, ptr, state, [=](long long at) {
    if (at >= rounds) return 0ll;
    const Round<I, R> round(at, rows, lanes, row_ptr, round_ptr);
    int before = col_idx[round.begin], most = 0;
    base[at] = before;
#pragma unroll 4
    for (int i = 1; i < round.count; ++i) {
      const int column = col_idx[round.begin + i];
      most = column - before - 1 > most ? column - before - 1 : most;
      before = column;
    }
    const int width = bit_length(most);
    widths[at] = static_cast<unsigned char>(width);
    return (static_cast<long long>(round.count - 1) * width + 31) / 32;
  });
}

// The fields: a thread a round.
template <typename I, typename R>
__global__ void bro_round_fill(int rows, int rounds, int lanes, const I* __restrict__ row_ptr,
                               const R* __restrict__ round_ptr, const int* __restrict__ col_idx,
                               const unsigned char* __restrict__ widths, const int* __restrict__ word_ptr,
                               unsigned* __restrict__ words) {
  const long long at = global_thread();
  if (at >= rounds) return;
  const Round<I, R> round(at, rows, lanes, row_ptr, round_ptr);
  const int width = widths[at];
  if (!width) return;
  BitWriter<false> stream{words + word_ptr[at], 1};
  int before = col_idx[round.begin];
  for (int i = 1; i < round.count; ++i) {
    const int column = col_idx[round.begin + i];
    stream.put(static_cast<unsigned>(column - before - 1), width);
    before = column;
  }
  stream.end();
}
