// CSR to BRO on the device: what spmvbench/formats/compressed/bro.py computes by arrays on the host.
#include "largest.cuh"
#include "offsets.cuh"
#include "search.cuh"
#include "spmv.cuh"

constexpr int POSITIONS = 64;  // of a slice whose widths a block finds together

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

  // The difference of the column at a position to that before, which is -1 before the first; 0 after the last.
  __device__ __forceinline__ int difference(const int* __restrict__ col_idx, int position) const {
    if (position >= length) return 0;
    return col_idx[begin + position] - (position ? col_idx[begin + position - 1] : -1);
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
#pragma unroll 4
    for (int p = 0; p < here; ++p) {
      const int largest = warp_max(row.difference(col_idx, from + p));
      if (lane_id() == 0 && largest) atomicMax(most + p, largest);
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
  int before = -1;
#pragma unroll 4
  for (int p = 0; p < positions; ++p) {
    const bool held = p < row.length;
    const int column = held ? col_idx[row.begin + p] : before;
    stream.put(static_cast<unsigned>(column - before), widths[first + p]);
    values[(first + p) * height + threadIdx.x] = held ? from[row.begin + p] : V(0);
    before = column;
  }
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
