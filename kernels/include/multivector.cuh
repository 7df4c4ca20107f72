// Several vectors at once: a kernel whose V is a Multi multiplies as many vectors as it holds, from the code that
// multiplies one. See spmvbench/formats/multivector.py.
#pragma once

template <int BYTES>
constexpr int vector_alignment() {
  return BYTES % 16 == 0 ? 16 : BYTES % 8 == 0 ? 8 : BYTES % 4 == 0 ? 4 : 2;
}

// A row of K neighbouring values in memory, of which a thread computes T. LANES: neighbouring threads of a block
// (LANES, threads) that share a row, each with T values of its own, from T times its tile on; the tiles that a block
// does not reach belong to others in y of the grid.
template <typename V, int T, int K = T, int LANES = 1>
struct alignas(vector_alignment<K* static_cast<int>(sizeof(V))>()) Multi {
  V v[K];

  Multi() = default;
  template <typename S>
  __device__ __forceinline__ Multi(S value) {
#pragma unroll
    for (int i = 0; i < T; ++i) v[i] = static_cast<V>(value);
  }
  template <int HELD, int BESIDE>
  __device__ __forceinline__ Multi(const Multi<V, T, HELD, BESIDE>& other) {
#pragma unroll
    for (int i = 0; i < T; ++i) v[i] = other.v[i];
  }
  __device__ __forceinline__ Multi(const Multi& other) { *this = other; }
  __device__ __forceinline__ Multi& operator=(const Multi& other) {
#pragma unroll
    for (int i = 0; i < T; ++i) v[i] = other.v[i];
    return *this;
  }
  __device__ __forceinline__ Multi& operator+=(const Multi& other) {
#pragma unroll
    for (int i = 0; i < T; ++i) v[i] += other.v[i];
    return *this;
  }
  __device__ __forceinline__ Multi& operator-=(const Multi& other) {
#pragma unroll
    for (int i = 0; i < T; ++i) v[i] -= other.v[i];
    return *this;
  }
  __device__ __forceinline__ Multi& operator*=(const Multi& other) {
#pragma unroll
    for (int i = 0; i < T; ++i) v[i] *= other.v[i];
    return *this;
  }
  friend __device__ __forceinline__ Multi operator+(Multi a, const Multi& b) { return a += b; }
  friend __device__ __forceinline__ Multi operator-(Multi a, const Multi& b) { return a -= b; }
  friend __device__ __forceinline__ Multi operator*(Multi a, const Multi& b) {
    return a *= b;
  }  // a value counts for all

  // Where this thread's values of a row in memory are, and whether there are any.
  static __device__ __forceinline__ int tile() {
    return K == T ? 0 : LANES == 1 ? blockIdx.y : blockIdx.y * LANES + threadIdx.x;
  }
  static __device__ __forceinline__ bool inside() { return K / T % LANES == 0 || tile() < K / T; }
  static __device__ __forceinline__ int first() { return inside() ? tile() * T : 0; }
};

#define MULTI template <typename V, int T, int K, int LANES>
#define OF_MULTI Multi<V, T, K, LANES>

// T values in loads of up to 16 bytes.
MULTI __device__ __forceinline__ OF_MULTI __ldg(const OF_MULTI* p) {
  constexpr int BYTES = vector_alignment<T* static_cast<int>(sizeof(V))>();
  const V* from = p->v + OF_MULTI::first();
  OF_MULTI found;
#pragma unroll
  for (int i = 0; i < T; i += BYTES / static_cast<int>(sizeof(V))) {
    if constexpr (sizeof(V) == BYTES) {
      found.v[i] = __ldg(from + i);
    } else if constexpr (sizeof(V) == 8) {
      const double2 pair = __ldg(reinterpret_cast<const double2*>(from + i));
      found.v[i] = pair.x, found.v[i + 1] = pair.y;
    } else if constexpr (BYTES == 8) {
      const float2 pair = __ldg(reinterpret_cast<const float2*>(from + i));
      found.v[i] = pair.x, found.v[i + 1] = pair.y;
    } else {
      const float4 four = __ldg(reinterpret_cast<const float4*>(from + i));
      found.v[i] = four.x, found.v[i + 1] = four.y, found.v[i + 2] = four.z, found.v[i + 3] = four.w;
    }
  }
  return found;
}
MULTI __device__ __forceinline__ OF_MULTI __ldcs(const OF_MULTI* p) { return *p; }
MULTI __device__ __forceinline__ OF_MULTI load_x(const OF_MULTI* __restrict__ x, int column) {
  return __ldg(x + column);
}

// sum: in the first T of K values, or of T alone.
template <bool ADD, typename V, int T, int K, int LANES, int HELD, int BESIDE>
__device__ __forceinline__ void put(OF_MULTI* y, Multi<V, T, HELD, BESIDE> sum) {
  if (!OF_MULTI::inside()) return;
  V* to = y->v + OF_MULTI::first();
#pragma unroll
  for (int i = 0; i < T; ++i) to[i] = ADD ? to[i] + sum.v[i] : sum.v[i];
}
// This thread's values of a row in memory alone, as V if they are all.
template <typename V>
struct Own {
  using type = V;
};
MULTI struct Own<OF_MULTI> {
  using type = Multi<V, T>;
};
template <typename V>
using OwnOf = typename Own<V>::type;

template <typename V>
__device__ __forceinline__ V own(const V* p) {
  return *p;
}
MULTI __device__ __forceinline__ Multi<V, T> own(const OF_MULTI* p) {
  Multi<V, T> found;
#pragma unroll
  for (int i = 0; i < T; ++i) found.v[i] = p->v[OF_MULTI::first() + i];
  return found;
}
MULTI __device__ __forceinline__ void atomicAdd(OF_MULTI* y, OF_MULTI sum) {
  if (!OF_MULTI::inside()) return;
  V* to = y->v + OF_MULTI::first();
#pragma unroll
  for (int i = 0; i < T; ++i) atomicAdd(to + i, sum.v[i]);
}

// Shuffles: among LANES threads that share a row each talks to its like, so that a warp is 32 / LANES threads.
#define MULTI_SHUFFLE(NAME, FROM)                                                                       \
  MULTI __device__ __forceinline__ OF_MULTI NAME(unsigned mask, OF_MULTI value, int by, int width = 32) { \
    width = width * LANES < 32 ? width * LANES : 32;                                                    \
    _Pragma("unroll") for (int i = 0; i < T; ++i) value.v[i] = NAME(mask, value.v[i], FROM, width);      \
    return value;                                                                                       \
  }
MULTI_SHUFFLE(__shfl_sync, by* LANES + (LANES == 1 ? 0 : threadIdx.x))
MULTI_SHUFFLE(__shfl_up_sync, by* LANES)
MULTI_SHUFFLE(__shfl_down_sync, by* LANES)
MULTI_SHUFFLE(__shfl_xor_sync, by* LANES)
#undef MULTI_SHUFFLE

MULTI struct PairOf<OF_MULTI> {
  struct type {
    OF_MULTI x, y;
  };
};

// How many threads share what one thread does for one vector, where a thread is in a block without them, and the
// block's size.
template <typename V>
constexpr int SHARING = 1;
MULTI constexpr int SHARING<OF_MULTI> = LANES;
#undef MULTI
#undef OF_MULTI

// The blocks for which a multiprocessor must have registers: one if a thread holds several vectors.
template <typename V>
constexpr int blocks(int of_one) {
  return sizeof(V) <= 8 ? of_one : 1;
}

template <typename V>
__device__ __forceinline__ unsigned row_thread() {
  return SHARING<V> == 1 ? threadIdx.x : threadIdx.y;
}
template <typename V>
__device__ __forceinline__ unsigned row_threads() {
  return SHARING<V> == 1 ? blockDim.x : blockDim.y;
}
// Which of the threads that share a row, if a block has rows in x and these in y.
template <typename V>
__device__ __forceinline__ unsigned thread_of_row() {
  return SHARING<V> == 1 ? threadIdx.y : threadIdx.z;
}
template <typename V>
__device__ __forceinline__ long long global_thread() {
  return static_cast<long long>(blockIdx.x) * row_threads<V>() + row_thread<V>();
}
