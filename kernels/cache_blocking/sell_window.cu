// Sliced ELLPACK whose slices take x from a window in shared memory; columns in 4, 8, 12 or 16 bits. See
// spmvbench/formats/cache_blocking/sell_window.py.
#include "async_copy.cuh"
#include "spmv.cuh"

constexpr int GROUP = 8;  // positions whose columns a thread loads together

// What a thread loads at once of the values of one type: 16 bytes.
template <typename V>
struct VectorOf;
template <>
struct VectorOf<double> {
  using type = double2;
};
template <>
struct VectorOf<float> {
  using type = float4;
};

template <typename V>
__device__ __forceinline__ void load_values(const V* __restrict__ values, V* loaded) {
  using Vector = typename VectorOf<V>::type;
  const Vector v = __ldcs(reinterpret_cast<const Vector*>(values));
  *reinterpret_cast<Vector*>(loaded) = v;
}

// Field `i` of BITS bits in a thread's words; i is known when compiling.
template <int BITS>
__device__ __forceinline__ unsigned field(const unsigned* words, int i) {
  const int bit = i * BITS, word = bit / 32, inside = bit % 32;
  unsigned found = words[word] >> inside;
  if (inside + BITS > 32) found |= words[word + 1] << (32 - inside);
  return found & ((1u << BITS) - 1);
}

// Columns and values of eight positions of a slice, of one thread. Columns in 32 bits are not among them.
template <typename V>
struct Group {
  unsigned packed[GROUP * 16 / 32];
  alignas(16) V values[GROUP];
};

// A slice's first position, first word / 32, first column in the window, and its width and the bits of a column.
struct Slice {
  int4 stored;
  __device__ __forceinline__ int first() const { return stored.x; }
  __device__ __forceinline__ int base() const { return stored.z; }
  __device__ __forceinline__ int width() const { return stored.w >> 6; }
  __device__ __forceinline__ int bits() const { return stored.w & 63; }
  __device__ __forceinline__ int groups() const { return (width() + GROUP - 1) / GROUP; }
  __device__ __forceinline__ const unsigned* words(const unsigned* words, int group) const {
    return words + (static_cast<long long>(stored.y) + group * (GROUP * bits() / 32)) * WARP + lane_id();
  }
};

// What a thread needs of a group of a slice; positions behind the slice's last one are 0.
template <typename V>
__device__ __forceinline__ void load_group(Slice slice, int group, const unsigned* __restrict__ words,
                                           const V* __restrict__ values, Group<V>& found) {
  constexpr int VECTOR = 16 / sizeof(V);
  const int left = slice.width() - group * GROUP, bits = slice.bits(), lane = lane_id();
  const unsigned* const from = slice.words(words, group);
  const V* const begin = values + (static_cast<long long>(slice.first()) + group * GROUP) * WARP;
  if (bits <= 16) {
    const int count = min(left, GROUP) * bits;
#pragma unroll
    for (int i = 0; i < GROUP * 16 / 32; ++i) {
      if (i * 32 < count) found.packed[i] = load_stream(from + i * WARP);
    }
  }
  if (left >= GROUP) {
#pragma unroll
    for (int i = 0; i < GROUP; i += VECTOR) load_values(begin + i * WARP + lane * VECTOR, found.values + i);
  } else {
#pragma unroll
    for (int i = 0; i < GROUP; ++i) found.values[i] = i < left ? load_stream(begin + i * WARP + lane) : V(0);
  }
}

// A column of all ones is padding, whose x is not used, so that an infinite one does no harm.
template <int BITS, typename V>
__device__ __forceinline__ V window_sum(const Group<V>& group, int left, const V* window) {
  V sum = 0;
#pragma unroll
  for (int i = 0; i < GROUP; ++i) {
    const unsigned column = field<BITS>(group.packed, i);
    if (i < left && column != (1u << BITS) - 1) sum += group.values[i] * window[column];
  }
  return sum;
}

// The sum of a thread's products of a group.
template <typename V>
__device__ __forceinline__ V group_products(Slice slice, int number, const Group<V>& group,
                                            const unsigned* __restrict__ words, const V* window,
                                            const V* __restrict__ x) {
  const V* const near = window + slice.base();
  const int left = slice.width() - number * GROUP;
  switch (slice.bits()) {
    case 4:
      return window_sum<4>(group, left, near);
    case 8:
      return window_sum<8>(group, left, near);
    case 12:
      return window_sum<12>(group, left, near);
    case 16:
      return window_sum<16>(group, left, near);
  }
  const int* const columns = reinterpret_cast<const int*>(slice.words(words, number));
  int at[GROUP];
#pragma unroll
  for (int i = 0; i < GROUP; ++i) at[i] = i < left ? load_stream(columns + i * WARP) : -1;
  V sum = 0;
#pragma unroll
  for (int i = 0; i < GROUP; ++i) {
    if (at[i] >= 0) sum += group.values[i] * load_x(x, at[i]);
  }
  return sum;
}

// A block a chunk {first slice, end, first column of the window, its columns}. Its warps take equal shares of the
// positions: a group is its warp's in whose share its first position lies. A warp loads a group while it computes the one
// before. The parts of a slice that several warps share are added in their order. SORTED: `perm` holds the row of each place.
template <typename V, int THREADS, bool SORTED>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    sell_window_spmv(int rows, const int4* __restrict__ chunks, const int4* __restrict__ slices,
                     const unsigned* __restrict__ words, const V* __restrict__ values, const int* __restrict__ perm,
                     const V* __restrict__ x, V* __restrict__ y) {
  constexpr int WARPS = THREADS / WARP, NONE = -1;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  __shared__ V heads[WARPS][WARP];  // of a slice that an earlier warp begins
  __shared__ int head_slice[WARPS];
  V* const window = reinterpret_cast<V*>(dynamic_shared);
  const int4 chunk = chunks[blockIdx.x];
  for (int i = threadIdx.x; i < chunk.w; i += THREADS) {
    copy_async<sizeof(V)>(window + i, x + chunk.z + i, sizeof(V));
  }
  const int warp = threadIdx.x / WARP, lane = lane_id();
  const Slice last{__ldg(slices + chunk.y - 1)};
  const int begin = __ldg(&slices[chunk.x].x), positions = last.first() + last.width() - begin;
  const int from = begin + static_cast<int>(static_cast<long long>(positions) * warp / WARPS);
  const int end =
      warp + 1 < WARPS ? begin + static_cast<int>(static_cast<long long>(positions) * (warp + 1) / WARPS) : 0x7fffffff;
  // The first slice that has a group from `from` on, or none and begins there.
  int s = chunk.x, behind = chunk.y;
  while (s < behind) {
    const int middle = (s + behind) / 2;
    const Slice slice{__ldg(slices + middle)};
    if (slice.first() < from && slice.first() + (slice.groups() - 1) * GROUP < from) {
      s = middle + 1;
    } else {
      behind = middle;
    }
  }
  const auto slice_at = [=](int s) { return Slice{s < chunk.y ? __ldg(slices + s) : int4{0x7fffffff, 0, 0, 0}}; };
  Slice slice = slice_at(s);
  int group = slice.first() < from ? (from - slice.first() + GROUP - 1) / GROUP : 0;
  const int head = s < chunk.y && group > 0 ? s : NONE;
  bool more = slice.first() + group * GROUP < end && s < chunk.y;
  Group<V> current, next;
  if (more) load_group(slice, group, words, values, current);
  if (lane == 0) head_slice[warp] = more ? head : NONE;
  await_copies();
  __syncthreads();

  Slice coming = slice_at(s + 1);
  V sum = 0;
  int open = NONE;  // the last slice, where later warps have parts of it
  while (more) {
    Slice following = slice;
    int t = s, number = group + 1;
    if (number >= slice.groups()) {
      t = s + 1;
      number = 0;
      following = coming;
      coming = slice_at(t + 1);
    }
    more = t < chunk.y && following.first() + number * GROUP < end;
    if (more) load_group(following, number, words, values, next);
    if (slice.width() > 0) sum += group_products(slice, group, current, words, window, x);
    if (t != s) {
      const int place = s * WARP + lane;
      if (s == head) {
        heads[warp][lane] = sum;
      } else if (place < rows) {
        y[SORTED ? perm[place] : place] = sum;
      }
      sum = 0;
    } else if (!more) {
      if (s == head) {
        heads[warp][lane] = sum;
      } else {
        open = s;
      }
    }
    s = t;
    slice = following;
    group = number;
    current = next;
  }
  __syncthreads();
  if (open != NONE) {
    // A warp between may have no group, where shares are smaller than one.
    for (int other = warp + 1; other < WARPS; ++other) {
      if (head_slice[other] == open) sum += heads[other][lane];
    }
    const int place = open * WARP + lane;
    if (place < rows) y[SORTED ? perm[place] : place] = sum;
  }
}
