// Sliced ELLPACK whose slices take x from a window in shared memory; columns in 4, 8, 12 or 16 bits. See
// spmvbench/formats/cache_blocking/sell_window.py.
#include "async_copy.cuh"
#include "shared_read.cuh"
#include "together.cuh"
#include "window.cuh"

constexpr int PACKED = 40;  // in place of a slice's bits with the bytes of a thread's upper bits: packed columns

// Asks for a line that will be loaded soon.
__device__ __forceinline__ void prefetch_l2(const void* p) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#endif
}

// Field `i` of BITS bits in a thread's words; i is known when compiling.
template <int BITS>
__device__ __forceinline__ unsigned field(const unsigned* words, int i) {
  const int bit = i * BITS, word = bit / 32, inside = bit % 32;
  unsigned found = words[word] >> inside;
  if (inside + BITS > 32) found |= words[word + 1] << (32 - inside);
  return found & ((1u << BITS) - 1);
}

// The products of GROUPS groups of positions, each TEAM behind the one before; all are loaded before the first is used.
// `words` and `values` are the lane's of the first group. A column of all ones is padding, whose x is not used, so that an
// infinite one does no harm.
template <int BITS, int TEAM, int GROUPS, typename V, typename S>
__device__ __forceinline__ V groups_sum(const unsigned* __restrict__ words, const S* __restrict__ values,
                                        SharedRead<V> window) {
  constexpr int WORDS = GROUP * BITS / 32, VECTOR = 16 / sizeof(S);
  unsigned packed[GROUPS][WORDS];
  S loaded[GROUPS][GROUP];
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
#pragma unroll
    for (int i = 0; i < WORDS; ++i) packed[g][i] = load_stream(words + (g * TEAM * WORDS + i) * WARP);
#pragma unroll
    for (int i = 0; i < GROUP; i += VECTOR) {
      load_values<VECTOR>(values + (g * TEAM * GROUP + i) * WARP, loaded[g] + i);
    }
  }
  V sum = 0;
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
      const unsigned column = field<BITS>(packed[g], i);
      if (column != (1u << BITS) - 1) sum += loaded[g][i] * window[column];
    }
  }
  return sum;
}

// A thread's share of a slice: the groups `team`, team + TEAM, ..., FLIGHT of them loaded at a time, and the rest of less
// than a group.
template <int BITS, int TEAM, int FLIGHT, typename V, typename S>
__device__ __forceinline__ V window_sum(int lane, int team, int width, const unsigned* __restrict__ words,
                                        const S* __restrict__ values, SharedRead<V> window) {
  constexpr int WORDS = GROUP * BITS / 32, VECTOR = 16 / sizeof(S);
  constexpr unsigned PADDING = (1u << BITS) - 1;
  const int whole = width / GROUP;
  V sum = 0;
  const unsigned* word = words + team * (WORDS * WARP) + lane;
  const S* value = values + team * (GROUP * WARP) + lane * VECTOR;
  int left = (whole - team + TEAM - 1) / TEAM;  // groups
  for (; left >= FLIGHT; left -= FLIGHT) {
    sum += groups_sum<BITS, TEAM, FLIGHT>(word, value, window);
    word += FLIGHT * TEAM * (WORDS * WARP);
    value += FLIGHT * TEAM * (GROUP * WARP);
  }
  for (; FLIGHT > 1 && left > 0; --left) {
    sum += groups_sum<BITS, TEAM, 1>(word, value, window);
    word += TEAM * (WORDS * WARP);
    value += TEAM * (GROUP * WARP);
  }
  const int rest = width % GROUP;
  if (rest != 0 && whole % TEAM == team) {
    unsigned packed[WORDS];
    S loaded[GROUP];
    const unsigned* from = words + static_cast<long long>(whole) * (WORDS * WARP) + lane;
    const S* const first = values + static_cast<long long>(whole) * (GROUP * WARP) + lane;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) packed[i] = i * 32 < rest * BITS ? load_stream(from + i * WARP) : 0u;
#pragma unroll
    for (int i = 0; i < GROUP; ++i) loaded[i] = i < rest ? load_stream(first + i * WARP) : S(0);
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
      const unsigned column = field<BITS>(packed, i);
      if (i < rest && column != PADDING) sum += loaded[i] * window[column];
    }
  }
  return sum;
}

// A thread's share of a slice of packed columns. Of each column 8 bits are stored as such. The k-th one among the upper
// bits, at p, says that the rest of column k is p - k (Elias-Fano); rows with fewer entries have fewer ones.
template <int TEAM, typename V, typename S>
__device__ __forceinline__ V packed_sum(int bytes, int lane, int team, int width, const unsigned* __restrict__ words,
                                        const S* __restrict__ values, SharedRead<V> window) {
  constexpr int VECTOR = 16 / sizeof(S), WORDS = GROUP / 4;
  const int whole = width / GROUP, low_words = (width + 3) / 4;
  const unsigned* const upper = words + low_words * WARP;
  const unsigned char* const left = reinterpret_cast<const unsigned char*>(upper + bytes / 4 * WARP);
  unsigned long long ones = 0;
  if (bytes >= 4) ones = load_stream(upper + lane);
  if (bytes >= 8) ones |= static_cast<unsigned long long>(load_stream(upper + WARP + lane)) << 32;
  if (bytes % 4 == 1) ones |= static_cast<unsigned long long>(load_stream(left + lane)) << bytes / 4 * 32;
  if (bytes % 4 == 2) {
    const unsigned short found = load_stream(reinterpret_cast<const unsigned short*>(left) + lane);
    ones |= static_cast<unsigned long long>(found) << bytes / 4 * 32;
  }
  V sum = 0;
  const auto take = [&](int k, unsigned low, S value) {
    const int p = __ffsll(static_cast<long long>(ones)) - 1;
    if (ones != 0) sum += value * window[(p - k) * 256 + static_cast<int>(low & 255)];
    ones &= ones - 1;
  };
  unsigned low[WORDS];
  S loaded[GROUP];
  const auto load = [&](int group, unsigned (&codes)[WORDS], S(&found)[GROUP]) {
#pragma unroll
    for (int i = 0; i < WORDS; ++i) codes[i] = load_stream(words + (group * WORDS + i) * WARP + lane);
#pragma unroll
    for (int i = 0; i < GROUP; i += VECTOR) {
      const S* const from = values + static_cast<long long>(group) * (GROUP * WARP) + i * WARP + lane * VECTOR;
      load_values<VECTOR>(from, found + i);
    }
  };
  const auto skip = [&]() {
#pragma unroll
    for (int i = 0; i < GROUP; ++i) ones &= ones - 1;
  };
  if (team < whole) load(team, low, loaded);
  for (int g = 0; g < min(team, whole); ++g) skip();
  for (int group = team; group < whole; group += TEAM) {
    unsigned coming[WORDS];
    S ahead[GROUP];
    load(min(group + TEAM, whole - 1), coming, ahead);  // the last once more, so that no test keeps loads waiting
#pragma unroll
    for (int i = 0; i < GROUP; ++i) take(group * GROUP + i, low[i / 4] >> i % 4 * 8, loaded[i]);
    for (int g = 1; g < TEAM && group + g < whole; ++g) skip();
#pragma unroll
    for (int i = 0; i < WORDS; ++i) low[i] = coming[i];
#pragma unroll
    for (int i = 0; i < GROUP; ++i) loaded[i] = ahead[i];
  }
  if (width % GROUP != 0 && whole % TEAM == team) {
    for (int k = whole * GROUP; k < width; ++k) {
      const unsigned low = load_stream(words + k / 4 * WARP + lane) >> k % 4 * 8;
      take(k, low, load_stream(values + static_cast<long long>(k) * WARP + lane));
    }
  }
  return sum;
}

// The same of whole columns, whose x lies in global memory; -1 is padding.
template <int TEAM, typename V, typename S>
__device__ __forceinline__ V global_sum(int lane, int team, int width, const int* __restrict__ columns,
                                        const S* __restrict__ values, const V* __restrict__ x) {
  constexpr int VECTOR = 16 / sizeof(S);
  const int whole = width / GROUP * GROUP;
  V sum = 0;
  for (int begin = team * GROUP; begin < width; begin += TEAM * GROUP) {
    int at[GROUP];
    S loaded[GROUP];
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
      const int position = begin + i;
      const long long slot = begin < whole ? static_cast<long long>(begin) * WARP + i / VECTOR * (VECTOR * WARP) +
                                                 lane * VECTOR + i % VECTOR
                                           : static_cast<long long>(position) * WARP + lane;
      at[i] = position < width ? load_stream(columns + static_cast<long long>(position) * WARP + lane) : -1;
      loaded[i] = position < width ? load_stream(values + slot) : S(0);
    }
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
      if (at[i] >= 0) sum += loaded[i] * load_x(x, at[i]);
    }
  }
  return sum;
}

template <int TEAM, int FLIGHT, bool PACKED_ONES, typename V, typename S>
__device__ __forceinline__ V slice_sum(int bits, int lane, int team, int width, const unsigned* __restrict__ words,
                                       const S* __restrict__ values, SharedRead<V> window, const V* __restrict__ x) {
  if constexpr (PACKED_ONES) {
    if (bits > PACKED) return packed_sum<TEAM>(bits - PACKED, lane, team, width, words, values, window);
  }
  switch (bits) {
    case 4:
      return window_sum<4, TEAM, FLIGHT>(lane, team, width, words, values, window);
    case 8:
      return window_sum<8, TEAM, FLIGHT>(lane, team, width, words, values, window);
    case 12:
      return window_sum<12, TEAM, FLIGHT>(lane, team, width, words, values, window);
    case 16:
      return window_sum<16, TEAM, FLIGHT>(lane, team, width, words, values, window);
    default:
      return global_sum<TEAM>(lane, team, width, reinterpret_cast<const int*>(words), values, x);
  }
}

// Starts copies of the window's columns, 16 bytes at a time if x allows that.
template <int THREADS, typename V>
__device__ __forceinline__ void stage(V* window, int first, int columns, int cols, const V* __restrict__ x) {
  constexpr int VECTOR = 16 / sizeof(V), SIZE = sizeof(V);
  if (reinterpret_cast<unsigned long long>(x) % 16 == 0) {  // a window's first column is a multiple of four
    for (int i = threadIdx.x * VECTOR; i < columns; i += THREADS * VECTOR) {
      if (first + i + VECTOR <= cols) {
        copy_async<16>(window + i, x + first + i);
      } else {  // beyond x
#pragma unroll
        for (int u = 0; u < VECTOR; ++u) window[i + u] = first + i + u < cols ? x[first + i + u] : V(0);
      }
    }
  } else {
    for (int i = threadIdx.x; i < columns; i += THREADS) copy_async<SIZE>(window + i, x + first + i);
  }
}
template <int THREADS, typename V, int T, int K, int LANES>
__device__ __forceinline__ void stage_tiles(Multi<V, T * LANES>* window, int first, int columns, int cols,
                                            const Multi<V, T, K, LANES>* __restrict__ x) {
  columns = min(columns, cols - first);
  for (int i = block_thread<Multi<V, T, K, LANES>>(); i < columns * LANES; i += THREADS) {
    copy_async<16>(window[i / LANES].v + i % LANES * T, x[first + i / LANES].v + i % LANES * T);
  }
}

// Thread blocks of a multiprocessor: as many threads as leave each the registers for its loads in flight.
template <typename V>
constexpr int resident(int threads, int flight) {
  const int most = flight * static_cast<int>(sizeof(V)) >= 24 ? 768 : 1024;
  return threads < most ? most / threads : 1;
}

// A block a chunk {first slice, end, first column of the window, its columns}. A slice is {its first position, its first
// word / 8, the first column less the window's, width * WIDTH_UNIT + bits}. TEAM warps share it; if that is one, a warp takes
// the next slice once it is done. SORTED: `perm` holds the row of each place. FLIGHT: groups in flight. PACKED_ONES: slices
// may have packed columns.
template <typename V, int THREADS, int TEAM_OF_ONE, bool SORTED, int FLIGHT, bool PACKED_ONES, typename S = V>
__global__ void __launch_bounds__(THREADS, resident<V>(THREADS, FLIGHT))
    sell_window_spmv(int rows, int cols, const int4* __restrict__ chunks, const int4* __restrict__ slices,
                     const unsigned* __restrict__ words, const S* __restrict__ values, const int* __restrict__ perm,
                     const V* __restrict__ x, V* __restrict__ y) {
  constexpr int TEAM = sizeof(V) <= 8 ? TEAM_OF_ONE : 1;
  static_assert(THREADS / WARP % TEAM == 0, "warps without a team would write beyond the partial sums");
  using Window = typename RowTile<V>::type;
  constexpr int TEAMS = THREADS / WARP / TEAM, PARTS = SHARING<V>, TURNS = RowTile<V>::TURNS;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  __shared__ int taken;  // parts of slices of the chunk
  Window* const window = reinterpret_cast<Window*>(dynamic_shared);
  const int4 chunk = chunks[blockIdx.x / TURNS];
  x = RowTile<V>::from(x, blockIdx.x % TURNS);
  y = RowTile<V>::from(y, blockIdx.x % TURNS);
  const int begin = chunk.x * PARTS, end = chunk.y * PARTS, thread = block_thread<V>();
  if constexpr (sizeof(V) <= 8) {
    stage<THREADS>(window, chunk.z, chunk.w, cols, x);
  } else {
    stage_tiles<THREADS>(window, chunk.z, chunk.w, cols, x);
  }
  if (TEAM == 1 && thread == 0) taken = TEAMS;
  const int warp = thread / WARP, team = warp % TEAM, of_warp = thread % WARP;
  int s = begin + warp / TEAM;
  int4 slice = s < end ? __ldg(slices + s / PARTS) : int4{0, 0, 0, 0};
  if (s < end) {
    const int positions = min(slice.w / WIDTH_UNIT, GROUP * TEAM), at = (team * WARP + of_warp) * 128;
    const int bits = PACKED_ONES ? min(slice.w % WIDTH_UNIT, 32) : slice.w % WIDTH_UNIT;
    const char* const value = reinterpret_cast<const char*>(values + static_cast<long long>(slice.x) * WARP);
    const char* const column = reinterpret_cast<const char*>(words + static_cast<long long>(slice.y) * QUARTER);
    if (at < positions * static_cast<int>(WARP * sizeof(S))) prefetch_l2(value + at);
    if (at < positions * bits * 4) prefetch_l2(column + at);
  }
  await_copies();
  __syncthreads();
  int round = begin;
  do {
    int next = s + TEAMS;
    if constexpr (TEAM == 1) next = begin + __shfl_sync(FULL_MASK, of_warp == 0 ? atomicAdd(&taken, 1) : 0, 0);
    const int4 coming = next < end ? __ldg(slices + next / PARTS) : int4{0, 0, 0, 0};
    const int lane = s % PARTS * (WARP / PARTS) + of_warp / PARTS;
    V sum = 0;
    if (s < end) {
      sum = slice_sum<TEAM, FLIGHT, PACKED_ONES>(
          slice.w % WIDTH_UNIT, lane, team, slice.w / WIDTH_UNIT, words + static_cast<long long>(slice.y) * QUARTER,
          values + static_cast<long long>(slice.x) * WARP, SharedRead<V>(window + slice.z), x);
    }
    if constexpr (TEAM > 1) {
      __shared__ V partial[THREADS];
      partial[threadIdx.x] = sum;
      __syncthreads();
      if (team == 0) {
        for (int other = 1; other < TEAM; ++other) sum += partial[threadIdx.x + other * WARP];
      }
      __syncthreads();
    }
    const int place = s / PARTS * WARP + lane;
    if (s < end && team == 0 && place < rows) {
      V* const to = y + (SORTED ? perm[place] : place);
      if constexpr (sizeof(V) <= 8) {
        __stcs(to, sum);  // the first to leave L2: 870 in place of 854 GFLOPS on band:1048576:24:2000 (f64, H200)
      } else {
        put<false>(to, sum);
      }
    }
    s = next;
    slice = coming;
    round += TEAMS;
  } while (TEAM > 1 ? round < end : s < end);
}
