// Several vectors at once: a kernel whose V is a Multi multiplies as many vectors as it holds, from the code that
// multiplies one. See spmvbench/formats/multivector.py.
#pragma once

template <int BYTES>
constexpr int vector_alignment() {
  return BYTES % 16 == 0 ? 16 : BYTES % 8 == 0 ? 8 : BYTES % 4 == 0 ? 4 : 2;
}

// N values in one load or store.
template <typename V, int N>
struct VectorOf {
  using type = V;
};
template <>
struct VectorOf<double, 2> {
  using type = double2;
};
template <>
struct VectorOf<float, 2> {
  using type = float2;
};
template <>
struct VectorOf<float, 4> {
  using type = float4;
};

// A row of K neighbouring values in memory, of which a thread computes T. LANES: neighbouring threads of a block
// (LANES, threads) that share a row, each with T values of its own: neighbours load and store 16 bytes beside each
// other, and then the next. The tiles of T values that a block does not reach belong to others in y of the grid.
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

  // How many values are loaded and stored together; whether this thread has any, and where in a row its value i is.
  static constexpr int PART = vector_alignment<T* static_cast<int>(sizeof(V))>() / static_cast<int>(sizeof(V));
  using Part = typename VectorOf<V, PART>::type;
  static constexpr int TILES = K / T;
  static __device__ __forceinline__ int beside() {
    const int left = TILES - static_cast<int>(blockIdx.y) * LANES;
    return TILES % LANES == 0 || left > LANES ? LANES : left;
  }
  static __device__ __forceinline__ bool inside() {
    return TILES % LANES == 0 || static_cast<int>(threadIdx.x) < beside();
  }
  static __device__ __forceinline__ int at(int i) {
    if (K == T) return i;
    const int first = TILES > LANES ? blockIdx.y * LANES * T : 0;
    if (LANES == 1) return first + i;
    const int lane = inside() ? threadIdx.x : 0;
    return first + (i / PART * beside() + lane) * PART + i % PART;
  }
};

#define MULTI template <typename V, int T, int K, int LANES>
#define OF_MULTI Multi<V, T, K, LANES>

MULTI __device__ __forceinline__ OF_MULTI __ldg(const OF_MULTI* p) {
  using Part = typename OF_MULTI::Part;
  OF_MULTI found;
#pragma unroll
  for (int i = 0; i < T; i += OF_MULTI::PART) {
    const Part part = __ldg(reinterpret_cast<const Part*>(p->v + OF_MULTI::at(i)));
#pragma unroll
    for (int j = 0; j < OF_MULTI::PART; ++j) found.v[i + j] = reinterpret_cast<const V*>(&part)[j];
  }
  return found;
}
MULTI __device__ __forceinline__ OF_MULTI __ldcs(const OF_MULTI* p) { return *p; }
MULTI __device__ __forceinline__ OF_MULTI load_x(const OF_MULTI* __restrict__ x, int column) {
  return __ldg(x + column);
}

// X for the loads of a loop, where this thread's values of the first row are: without it the compiler reads threadIdx
// and computes their address for each load anew, half of a loop's instructions.
template <typename V>
struct OwnX {
  const V* x;
  template <typename Column>
  __device__ __forceinline__ V operator[](Column column) const {
    return __ldg(x + column);
  }
};
MULTI struct OwnX<OF_MULTI> {
  using Row = OF_MULTI;
  using Part = typename Row::Part;
  const Part* first;
  int step;  // from one part of the values to the next

  __device__ __forceinline__ explicit OwnX(const Row* x)
      : first(reinterpret_cast<const Part*>(x->v + Row::at(0))), step(K == T ? 1 : Row::beside()) {
#ifdef __CUDA_ARCH__
    asm volatile("" : "+l"(first));
#endif
  }
  __device__ __forceinline__ Row operator[](long long column) const {
    Row found;
#pragma unroll
    for (int i = 0; i < T; i += Row::PART) {
      const Part part = __ldg(first + column * (K / Row::PART) + i / Row::PART * step);
#pragma unroll
      for (int j = 0; j < Row::PART; ++j) found.v[i + j] = reinterpret_cast<const V*>(&part)[j];
    }
    return found;
  }
};

// sum: in the first T of K values, or of T alone.
template <bool ADD, typename V, int T, int K, int LANES, int HELD, int BESIDE>
__device__ __forceinline__ void put(OF_MULTI* y, Multi<V, T, HELD, BESIDE> sum) {
  if (!OF_MULTI::inside()) return;
  using Part = typename OF_MULTI::Part;
#pragma unroll
  for (int i = 0; i < T; i += OF_MULTI::PART) {
    Part* to = reinterpret_cast<Part*>(y->v + OF_MULTI::at(i));
    Part part;
    if (ADD) part = *to;
    V* each = reinterpret_cast<V*>(&part);
#pragma unroll
    for (int j = 0; j < OF_MULTI::PART; ++j) each[j] = ADD ? each[j] + sum.v[i + j] : sum.v[i + j];
    *to = part;
  }
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
  for (int i = 0; i < T; ++i) found.v[i] = p->v[OF_MULTI::at(i)];
  return found;
}
MULTI __device__ __forceinline__ void atomicAdd(OF_MULTI* y, OF_MULTI sum) {
  if (!OF_MULTI::inside()) return;
#pragma unroll
  for (int i = 0; i < T; ++i) atomicAdd(y->v + OF_MULTI::at(i), sum.v[i]);
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

// A tile of a row of K values, what threads that share it compute, as it lies in shared memory; how many there are where
// the blocks of a grid take one each, in turn, and x or y from one of them on.
template <typename V>
struct RowTile {
  using type = V;
  static constexpr int TURNS = 1;
  static __device__ __forceinline__ V* from(V* p, int) { return p; }
  static __device__ __forceinline__ const V* from(const V* p, int) { return p; }
};
template <typename V, int T, int K, int LANES>
struct RowTile<Multi<V, T, K, LANES>> {
  using type = Multi<V, T * LANES>;
  using Row = Multi<V, T, K, LANES>;
  static constexpr int TURNS = K / (T * LANES);
  static __device__ __forceinline__ Row* from(Row* p, int turn) {
    return reinterpret_cast<Row*>(p->v + turn * (T * LANES));
  }
  static __device__ __forceinline__ const Row* from(const Row* p, int turn) { return from(const_cast<Row*>(p), turn); }
};

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
// The thread of its block, whether or not threads share rows.
template <typename V>
__device__ __forceinline__ int block_thread() {
  return SHARING<V> == 1 ? threadIdx.x : threadIdx.y * SHARING<V> + threadIdx.x;
}
template <typename V>
__device__ __forceinline__ long long global_thread() {
  return static_cast<long long>(blockIdx.x) * row_threads<V>() + row_thread<V>();
}
