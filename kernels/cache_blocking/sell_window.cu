// Sliced ELLPACK whose slices take x from a window in shared memory; columns in 4, 8, 12 or 16 bits. See
// spmvbench/formats/cache_blocking/sell_window.py.
#include "async_copy.cuh"
#include "counters.cuh"
#include "together.cuh"

constexpr int GROUP = 8;        // positions whose columns share words
constexpr int WIDTH_UNIT = 64;  // a slice's width is stored times this, its bits below
constexpr int BATCH =
    2;  // groups that are loaded before the first is used: 857 against 842 GFLOPS with 1 (band, f64, H200)

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

// The products of GROUPS groups of positions, each TEAM behind the one before; all are loaded before the first is used. A
// column of all ones is padding, whose x is not used, so that an infinite one does no harm.
template <int BITS, int TEAM, int GROUPS, typename V>
__device__ __forceinline__ V groups_sum(int group, const unsigned* __restrict__ words, const V* __restrict__ values,
                                        const V* window) {
  constexpr int WORDS = GROUP * BITS / 32, VECTOR = 16 / sizeof(V);
  const int lane = lane_id();
  unsigned packed[GROUPS][WORDS];
  V loaded[GROUPS][GROUP];
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const unsigned* const from = words + static_cast<long long>(group + g * TEAM) * (WORDS * WARP) + lane;
    const V* const first = values + static_cast<long long>(group + g * TEAM) * (GROUP * WARP) + lane * VECTOR;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) packed[g][i] = load_stream(from + i * WARP);
#pragma unroll
    for (int i = 0; i < GROUP; i += VECTOR) load_values<VECTOR>(first + i * WARP, loaded[g] + i);
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

// A thread's share of a slice: the groups `team`, team + TEAM, ..., and the rest of less than a group.
template <int BITS, int TEAM, typename V>
__device__ __forceinline__ V window_sum(int team, int width, const unsigned* __restrict__ words,
                                        const V* __restrict__ values, const V* window) {
  constexpr int WORDS = GROUP * BITS / 32;
  constexpr unsigned PADDING = (1u << BITS) - 1;
  const int lane = lane_id(), whole = width / GROUP;
  V sum = 0;
  int group = team;
  for (; group + (BATCH - 1) * TEAM < whole; group += BATCH * TEAM) {
    sum += groups_sum<BITS, TEAM, BATCH>(group, words, values, window);
  }
  for (; BATCH > 1 && group < whole; group += TEAM) sum += groups_sum<BITS, TEAM, 1>(group, words, values, window);
  const int rest = width % GROUP;
  if (rest != 0 && whole % TEAM == team) {
    unsigned packed[WORDS];
    V loaded[GROUP];
    const unsigned* from = words + static_cast<long long>(whole) * (WORDS * WARP) + lane;
    const V* const first = values + static_cast<long long>(whole) * (GROUP * WARP) + lane;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) packed[i] = i * 32 < rest * BITS ? load_stream(from + i * WARP) : 0u;
#pragma unroll
    for (int i = 0; i < GROUP; ++i) loaded[i] = i < rest ? load_stream(first + i * WARP) : V(0);
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
      const unsigned column = field<BITS>(packed, i);
      if (i < rest && column != PADDING) sum += loaded[i] * window[column];
    }
  }
  return sum;
}

// The same of whole columns, whose x lies in global memory; -1 is padding.
template <int TEAM, typename V>
__device__ __forceinline__ V global_sum(int team, int width, const int* __restrict__ columns,
                                        const V* __restrict__ values, const V* __restrict__ x) {
  constexpr int VECTOR = 16 / sizeof(V);
  const int lane = lane_id(), whole = width / GROUP * GROUP;
  V sum = 0;
  for (int begin = team * GROUP; begin < width; begin += TEAM * GROUP) {
    int at[GROUP];
    V loaded[GROUP];
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
      const int position = begin + i;
      const long long slot = begin < whole ? static_cast<long long>(begin) * WARP + i / VECTOR * (VECTOR * WARP) +
                                                 lane * VECTOR + i % VECTOR
                                           : static_cast<long long>(position) * WARP + lane;
      at[i] = position < width ? load_stream(columns + static_cast<long long>(position) * WARP + lane) : -1;
      loaded[i] = position < width ? load_stream(values + slot) : V(0);
    }
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
      if (at[i] >= 0) sum += loaded[i] * load_x(x, at[i]);
    }
  }
  return sum;
}

template <int TEAM, typename V>
__device__ __forceinline__ V slice_sum(int bits, int team, int width, const unsigned* __restrict__ words,
                                       const V* __restrict__ values, const V* window, const V* __restrict__ x) {
  switch (bits) {
    case 4:
      return window_sum<4, TEAM>(team, width, words, values, window);
    case 8:
      return window_sum<8, TEAM>(team, width, words, values, window);
    case 12:
      return window_sum<12, TEAM>(team, width, words, values, window);
    case 16:
      return window_sum<16, TEAM>(team, width, words, values, window);
    default:
      return global_sum<TEAM>(team, width, reinterpret_cast<const int*>(words), values, x);
  }
}

// A block a chunk {first slice, end, first column of the window, its columns}. A slice is {its first position, its first
// word / 32, the first column less the window's, width * WIDTH_UNIT + bits}; TEAM warps share it. SORTED: `perm` holds the row of
// each place. STEAL: `pool` has more slices {slice, first column}, which a warp that is done takes one after the other, with x
// from global memory. ahead: positions of a first slice that are prefetched.
template <typename V, int THREADS, int TEAM, bool SORTED, bool STEAL>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    sell_window_spmv(int rows, int pooled, int ahead, const int4* __restrict__ chunks, const int4* __restrict__ slices,
                     const unsigned* __restrict__ words, const V* __restrict__ values, const int* __restrict__ perm,
                     const int2* __restrict__ pool, int* counters, const V* __restrict__ x, V* __restrict__ y) {
  static_assert(TEAM == 1 || !STEAL, "warps that share a slice meet at barriers");
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* const window = reinterpret_cast<V*>(dynamic_shared);
  const int4 chunk = chunks[blockIdx.x];
  for (int i = threadIdx.x; i < chunk.w; i += THREADS) {
    copy_async<sizeof(V)>(window + i, x + chunk.z + i, sizeof(V));
  }
  const int warp = threadIdx.x / WARP, team = warp % TEAM, lane = lane_id();
  int s = chunk.x + warp / TEAM;
  int4 slice = s < chunk.y ? __ldg(slices + s) : int4{0, 0, 0, 0};
  if (s < chunk.y) {
    const int positions = min(slice.w / WIDTH_UNIT, ahead * TEAM);
    const char* const begin = reinterpret_cast<const char*>(values + static_cast<long long>(slice.x) * WARP);
    const char* const column = reinterpret_cast<const char*>(words + static_cast<long long>(slice.y) * WARP);
    for (int at = (team * WARP + lane) * 128; at < positions * static_cast<int>(WARP * sizeof(V));
         at += TEAM * WARP * 128) {
      prefetch_l2(begin + at);
      if (at < positions * (slice.w % WIDTH_UNIT) * 4) prefetch_l2(column + at);
    }
  }
  await_copies();
  __syncthreads();
  for (int first = chunk.x; first < chunk.y; first += THREADS / WARP / TEAM) {
    const int next = s + THREADS / WARP / TEAM;
    const int4 coming = next < chunk.y ? __ldg(slices + next) : int4{0, 0, 0, 0};
    V sum = 0;
    if (s < chunk.y) {
      sum = slice_sum<TEAM>(slice.w % WIDTH_UNIT, team, slice.w / WIDTH_UNIT,
                            words + static_cast<long long>(slice.y) * WARP,
                            values + static_cast<long long>(slice.x) * WARP, window + slice.z, x);
    }
    if (TEAM > 1) {
      __shared__ V partial[THREADS];
      partial[threadIdx.x] = sum;
      __syncthreads();
      if (team == 0) {
        for (int other = 1; other < TEAM; ++other) sum += partial[threadIdx.x + other * WARP];
      }
      __syncthreads();
    }
    const int place = s * WARP + lane;
    if (s < chunk.y && team == 0 && place < rows) y[SORTED ? perm[place] : place] = sum;
    s = next;
    slice = coming;
  }
  if constexpr (STEAL) {
    const auto ticket = [&]() { return lane == 0 ? atomicAdd(counters, 1) : 0; };
    int mine = __shfl_sync(FULL_MASK, ticket(), 0);
    while (mine < pooled) {
      const int following = ticket();  // asked for before the slice at hand is done
      const int2 taken = __ldg(pool + mine);
      const int4 found = __ldg(slices + taken.x);
      const V sum =
          slice_sum<1>(found.w % WIDTH_UNIT, 0, found.w / WIDTH_UNIT, words + static_cast<long long>(found.y) * WARP,
                       values + static_cast<long long>(found.x) * WARP, x + taken.y, x);
      const int place = taken.x * WARP + lane;
      if (place < rows) y[SORTED ? perm[place] : place] = sum;
      mine = __shfl_sync(FULL_MASK, following, 0);
    }
    leave(counters, 2);
  }
}
