// Sliced ELLPACK with coded columns: codes of a dictionary of offsets, or differences in low bits of the values. See
// spmvbench/formats/ellpack/sell_coded.py.
#include "epilogue.cuh"
#include "sell.cuh"

constexpr int WORD_BYTES = 4;    // of codes that are loaded together
constexpr int MOST_BITS = 30;    // of a difference
constexpr int PACK_BLOCK = 256;  // threads
constexpr int GROUP = 8;         // positions whose loads are in flight together
constexpr int SHORT_TABLE = 256;

// The thread's positions are `group` * GROUP and after, each group THREADS behind the one before. Codes are WORD_BYTES /
// sizeof(C) to a word, words `stride` apart. offset(code) is what is added to the row.
template <int THREADS, typename C, typename V, typename Offset>
__device__ __forceinline__ V coded_sum(int group, int width, int row, int stride, const unsigned* __restrict__ words,
                                       const V* __restrict__ values, const V* __restrict__ x, Offset offset) {
  constexpr int EACH = WORD_BYTES / sizeof(C), WORDS = GROUP / EACH, BITS = 8 * sizeof(C);
  constexpr unsigned PADDING = (1u << BITS) - 1;
  const int row_words = (width + EACH - 1) / EACH;
  V sum = 0;
  for (; group * GROUP < width; group += THREADS) {
    unsigned packed[WORDS];
    V loaded[GROUP];
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      const int word = group * WORDS + i;
      packed[i] = FULL_MASK;
      if (word < row_words) packed[i] = load_stream(words + static_cast<long long>(word) * stride);
    }
#pragma unroll
    for (int u = 0; u < GROUP; ++u) {
      const int position = group * GROUP + u;
      loaded[u] = V(0);
      if (position < width) loaded[u] = load_stream(values + static_cast<long long>(position) * WARP);
    }
#pragma unroll
    for (int u = 0; u < GROUP; ++u) {
      const unsigned code = packed[u / EACH] >> u % EACH * BITS & PADDING;
      if (code != PADDING) sum += loaded[u] * load_x(x, row + offset(code));
    }
  }
  return sum;
}

// Block (ROWS, THREADS), as sell_spmv. C: type of a code. A slice with as many words as a row needs has one row's codes
// for all. SORTED: `perm` holds the row of each place.
template <typename V, typename P, typename C, int THREADS, int ROWS, bool SORTED>
__global__ void __launch_bounds__(ROWS* THREADS)
    sell_dict_spmv(unsigned rows, const P* __restrict__ slice_ptr, const P* __restrict__ word_ptr,
                   const C* __restrict__ codes, int offsets, const int* __restrict__ table,
                   const int* __restrict__ perm, const V* __restrict__ values, const V* __restrict__ x,
                   V* __restrict__ y) {
  constexpr int EACH = WORD_BYTES / sizeof(C);
  constexpr bool SHORT = sizeof(C) == 1;
  __shared__ int near[SHORT ? SHORT_TABLE : 1];
  if (SHORT) {
    for (int i = threadIdx.y * ROWS + threadIdx.x; i < offsets; i += ROWS * THREADS) near[i] = table[i];
    __syncthreads();
  }
  const unsigned place = blockIdx.x * ROWS + threadIdx.x;
  V sum = 0;
  int row = 0;
  if (place < rows) {
    const unsigned slice = place / WARP;
    const P begin = slice_ptr[slice];
    const int width = static_cast<int>((slice_ptr[slice + 1] - begin) / WARP);
    const P word = word_ptr[slice];
    const bool uniform = word_ptr[slice + 1] - word == (width + EACH - 1) / EACH;
    const unsigned* words = reinterpret_cast<const unsigned*>(codes) + word + (uniform ? 0 : lane_id());
    row = SORTED ? perm[place] : static_cast<int>(place);
    sum = coded_sum<THREADS, C>(threadIdx.y, width, row, uniform ? 1 : WARP, words, values + begin + lane_id(), x,
                                [&](unsigned code) {
                                  if constexpr (SHORT) return near[code];
                                  return __ldg(table + code);
                                });
  }
  sum = rows_sum<ROWS, THREADS>(sum);
  if (place < rows && threadIdx.y == 0) y[row] = sum;
}

// A value's bits.
template <typename V>
union Bits;
template <>
union Bits<double> {
  unsigned long long word;
  double value;
};
template <>
union Bits<float> {
  unsigned word;
  float value;
};

// A thread per row. The lowest `bits` bits of a slot are what its column is more than that of the slot before; all set
// is no entry.
template <typename V, typename P, bool SORTED, typename Y = V*>
__global__ void __launch_bounds__(PACK_BLOCK)
    sell_pack_spmv(unsigned rows, int bits, const P* __restrict__ slice_ptr, const int* __restrict__ bases,
                   const int* __restrict__ perm, const V* __restrict__ packed, const V* __restrict__ x, Y y) {
  const unsigned place = blockIdx.x * PACK_BLOCK + threadIdx.x;
  if (place >= rows) return;
  const unsigned slice = place / WARP;
  const P begin = slice_ptr[slice];
  const int width = static_cast<int>((slice_ptr[slice + 1] - begin) / WARP);
  const auto to = y + (SORTED ? perm[place] : place);
  const unsigned mask = (1u << bits) - 1;
  packed += begin + lane_id();
  unsigned column = bases[slice];
  V sum = 0;
  for (int first = 0; first < width; first += GROUP) {
    Bits<V> loaded[GROUP];
    unsigned columns[GROUP];
#pragma unroll
    for (int u = 0; u < GROUP; ++u) {
      loaded[u].word = mask;
      if (first + u < width) loaded[u].value = load_stream(packed + static_cast<long long>(first + u) * WARP);
    }
#pragma unroll
    for (int u = 0; u < GROUP; ++u) {
      const unsigned step = static_cast<unsigned>(loaded[u].word) & mask;
      column += step;
      columns[u] = step == mask ? FULL_MASK : column;
      loaded[u].word -= step;
    }
#pragma unroll
    for (int u = 0; u < GROUP; ++u) {
      if (columns[u] != FULL_MASK) sum += loaded[u].value * load_x(x, static_cast<int>(columns[u]));
    }
  }
  put<false>(to, sum);
}
