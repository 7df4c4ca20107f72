// CUDA C++ for a host compiler: the built-ins that SpMV kernels use, with CUDA's own overloads, so that what is
// ambiguous there is ambiguous here. Kernels can test SPMVBENCH_EMULATED; __CUDA_ARCH__ is not defined. Not here:
// PTX, tensor cores, textures, __activemask (it names whichever lanes happen to run together: say which lanes you
// mean).
#pragma once
#include "runtime.hpp"

#define SPMVBENCH_EMULATED 1

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// A block runs on one host thread from its first to its last instruction, so its shared memory is that thread's.
#if __GNUC__ >= 10 && !defined(__clang__)
// GCC guards an array of a class with constructors, in a byte beside it that no thread of a block would have written.
#define __shared__ __constinit thread_local
#else
#define __shared__ thread_local
#endif

// Kernels declare `extern __shared__ __align__(128) unsigned char dynamic_shared[];` and no other name or type.
// `inline`: it exists only in units that use it. Visible: the device asks the loader where it is.
// clang-format off: it breaks the line within __align__
__attribute__((visibility("default"))) inline thread_local __align__(128) unsigned char
    dynamic_shared[emulation::MAX_DYNAMIC_SHARED];
// clang-format on

#define threadIdx (::emulation::this_thread())
#define blockIdx (::emulation::this_block().block_index)
#define blockDim (::emulation::this_block().block_dim)
#define gridDim (::emulation::this_block().grid_dim)
constexpr int warpSize = emulation::WARP_SIZE;

// Vector types: aligned as on the device, where the alignment is what makes one wide load of them.

#define EMULATION_VECTOR(NAME, T, ALIGN2, ALIGN4)                                   \
  struct alignas(ALIGN2) NAME##2 {                                                  \
    T x, y;                                                                         \
  };                                                                                \
  struct alignas(ALIGN4) NAME##4 {                                                  \
    T x, y, z, w;                                                                   \
  };                                                                                \
  inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                        \
  inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATION_VECTOR(char, signed char, 2, 4)
EMULATION_VECTOR(uchar, unsigned char, 2, 4)
EMULATION_VECTOR(short, short, 4, 8)
EMULATION_VECTOR(ushort, unsigned short, 4, 8)
EMULATION_VECTOR(int, int, 8, 16)
EMULATION_VECTOR(uint, unsigned, 8, 16)
EMULATION_VECTOR(longlong, long long, 16, 16)
EMULATION_VECTOR(ulonglong, unsigned long long, 16, 16)
EMULATION_VECTOR(float, float, 8, 16)
EMULATION_VECTOR(double, double, 16, 16)
#undef EMULATION_VECTOR
struct int3 {
  int x, y, z;
};
struct float3 {
  float x, y, z;
};
struct double3 {
  double x, y, z;
};
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline double3 make_double3(double x, double y, double z) { return {x, y, z}; }

// Loads and stores with cache hints. The hints mean nothing here.

namespace emulation {

template <typename T>
__forceinline__ T load(const T* p) {
  if constexpr (CHECKING && __is_class(T)) {
    T value;
    load_whole(&value, p, sizeof(T));
    return value;
  } else {
    return *p;
  }
}

template <typename T>
__forceinline__ void store(T* p, T value) {
  if constexpr (CHECKING && __is_class(T)) {
    store_whole(p, &value, sizeof(T));
  } else {
    *p = value;
  }
}

template <typename T>
struct Same {
  using Type = T;  // in a parameter: the type is deduced elsewhere
};

}  // namespace emulation

#define EMULATION_LOAD(NAME)          \
  template <typename T>               \
  __forceinline__ T NAME(const T* p) { \
    return emulation::load(p);        \
  }
EMULATION_LOAD(__ldg)
EMULATION_LOAD(__ldca)
EMULATION_LOAD(__ldcg)
EMULATION_LOAD(__ldcs)
EMULATION_LOAD(__ldcv)
EMULATION_LOAD(__ldlu)
#undef EMULATION_LOAD

#define EMULATION_STORE(NAME)                                                 \
  template <typename T>                                                       \
  __forceinline__ void NAME(T* p, typename emulation::Same<T>::Type value) {  \
    emulation::store(p, value);                                               \
  }
EMULATION_STORE(__stcg)
EMULATION_STORE(__stcs)
EMULATION_STORE(__stwb)
EMULATION_STORE(__stwt)
#undef EMULATION_STORE

// Barriers and fences

inline void __syncthreads(EMULATION_HERE) { emulation::barrier(emulation::Vote::COUNT, true, {file, line}); }
inline int __syncthreads_count(int predicate, EMULATION_HERE) {
  return emulation::barrier(emulation::Vote::COUNT, predicate, {file, line});
}
inline int __syncthreads_and(int predicate, EMULATION_HERE) {
  return emulation::barrier(emulation::Vote::AND, predicate, {file, line});
}
inline int __syncthreads_or(int predicate, EMULATION_HERE) {
  return emulation::barrier(emulation::Vote::OR, predicate, {file, line});
}
inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATION_HERE) {
  emulation::collective(emulation::Op::SYNC, mask, 0, 0, {file, line});
}
inline void __threadfence() { emulation::fence(); }
inline void __threadfence_block() { emulation::fence(); }
inline void __threadfence_system() { emulation::fence(); }
inline void __nanosleep(unsigned) { emulation::yield(); }
[[noreturn]] inline void __trap() { emulation::fail("the kernel called __trap"); }
unsigned __activemask() = delete;

// Warp shuffles, votes, matches and reductions

namespace emulation {

template <typename T>
__forceinline__ u64 to_bits(T value) {
  u64 bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <typename T>
__forceinline__ T from_bits(u64 bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

inline void check_width(int width) {
  if (width < 1 || width > WARP_SIZE || (width & (width - 1)))
    fail("a shuffle's width is %d, not a power of two", width);
}

template <typename T>
__forceinline__ T shuffle(unsigned mask, T value, int source, int width, Site here) {
  check_width(width);
  return from_bits<T>(collective(Op::SHUFFLE, mask, to_bits(value), source, here));
}

}  // namespace emulation

#define EMULATION_SHUFFLES(T)                                                                                   \
  inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMULATION_HERE) {                    \
    const int lane = emulation::this_lane();                                                                    \
    return emulation::shuffle(mask, value, (lane & -width) | (source & (width - 1)), width, {file, line});              \
  }                                                                                                             \
  inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATION_HERE) {             \
    const int lane = emulation::this_lane();                                                                    \
    const bool inside = delta <= unsigned(lane & (width - 1));                                                  \
    return emulation::shuffle(mask, value, inside ? lane - int(delta) : lane, width, {file, line});                     \
  }                                                                                                             \
  inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATION_HERE) {           \
    const int lane = emulation::this_lane();                                                                    \
    const bool inside = delta < unsigned(width - (lane & (width - 1)));                                         \
    return emulation::shuffle(mask, value, inside ? lane + int(delta) : lane, width, {file, line});                     \
  }                                                                                                             \
  /* Earlier segments may be read, later ones not (CUDA C++ Programming Guide, warp shuffle functions). */      \
  inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, EMULATION_HERE) {                  \
    const int lane = emulation::this_lane();                                                                    \
    const int source = lane ^ bits;                                                                             \
    return emulation::shuffle(mask, value, source < (lane & -width) + width ? source : lane, width, {file, line});      \
  }
EMULATION_SHUFFLES(int)
EMULATION_SHUFFLES(unsigned)
EMULATION_SHUFFLES(long)
EMULATION_SHUFFLES(unsigned long)
EMULATION_SHUFFLES(long long)
EMULATION_SHUFFLES(unsigned long long)
EMULATION_SHUFFLES(float)
EMULATION_SHUFFLES(double)
#undef EMULATION_SHUFFLES

inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATION_HERE) {
  return emulation::collective(emulation::Op::BALLOT, mask, predicate != 0, 0, {file, line});
}
inline int __any_sync(unsigned mask, int predicate, EMULATION_HERE) {
  return emulation::collective(emulation::Op::ANY, mask, predicate != 0, 0, {file, line});
}
inline int __all_sync(unsigned mask, int predicate, EMULATION_HERE) {
  return emulation::collective(emulation::Op::ALL, mask, predicate != 0, 0, {file, line});
}

#define EMULATION_MATCH(T)                                                                                 \
  inline unsigned __match_any_sync(unsigned mask, T value, EMULATION_HERE) {                               \
    return emulation::collective(emulation::Op::MATCH, mask, emulation::to_bits(value), 0, {file, line});          \
  }
EMULATION_MATCH(int)
EMULATION_MATCH(unsigned)
EMULATION_MATCH(long)
EMULATION_MATCH(unsigned long)
EMULATION_MATCH(long long)
EMULATION_MATCH(unsigned long long)
EMULATION_MATCH(float)
EMULATION_MATCH(double)
#undef EMULATION_MATCH

#define EMULATION_REDUCE(NAME, T, OP)                                                   \
  inline T __reduce_##NAME##_sync(unsigned mask, T value, EMULATION_HERE) {             \
    return T(emulation::collective(emulation::Op::OP, mask, u32_of(value), 0, {file, line}));   \
  }
#define u32_of(value) static_cast<unsigned>(value)
EMULATION_REDUCE(add, int, ADD)
EMULATION_REDUCE(add, unsigned, ADD)
EMULATION_REDUCE(min, int, MIN)
EMULATION_REDUCE(min, unsigned, MIN_UNSIGNED)
EMULATION_REDUCE(max, int, MAX)
EMULATION_REDUCE(max, unsigned, MAX_UNSIGNED)
EMULATION_REDUCE(and, unsigned, AND)
EMULATION_REDUCE(or, unsigned, OR)
EMULATION_REDUCE(xor, unsigned, XOR)
#undef u32_of
#undef EMULATION_REDUCE

// Atomics (defined in runtime.cpp); each returns what was there before.

#define EMULATION_ATOMICS(T)         \
  T atomicAdd(T* p, T value);        \
  T atomicMin(T* p, T value);        \
  T atomicMax(T* p, T value);        \
  T atomicExch(T* p, T value);       \
  T atomicAnd(T* p, T value);        \
  T atomicOr(T* p, T value);         \
  T atomicXor(T* p, T value);        \
  T atomicCAS(T* p, T expected, T value);
EMULATION_ATOMICS(int)
EMULATION_ATOMICS(unsigned)
EMULATION_ATOMICS(unsigned long long)
#undef EMULATION_ATOMICS
int atomicSub(int* p, int value);
unsigned atomicSub(unsigned* p, unsigned value);
long long atomicMin(long long* p, long long value);
long long atomicMax(long long* p, long long value);
float atomicAdd(float* p, float value);
double atomicAdd(double* p, double value);
float atomicExch(float* p, float value);

// Integers

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline int __clz(int v) { return v ? __builtin_clz(v) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll(v) : 64; }
inline unsigned __brev(unsigned v) {
  v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
  v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
  v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(v);
}
inline unsigned long long __brevll(unsigned long long v) {
  return static_cast<unsigned long long>(__brev(unsigned(v))) << 32 | __brev(unsigned(v >> 32));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return ((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31)) >> 32;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31);
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned select = selector >> 4 * i;
    unsigned byte = bytes >> 8 * (select & 7) & 0xff;
    if (select & 8) byte = byte & 0x80 ? 0xff : 0;  // replicates the sign
    result |= byte << 8 * i;
  }
  return result;
}
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline int __mulhi(int a, int b) { return static_cast<long long>(a) * b >> 32; }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned long long>(a) * b >> 32; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned __int128>(a) * b >> 64;
}

#define EMULATION_MIN_MAX(R, A, B)                                                  \
  constexpr R min(A a, B b) { return static_cast<R>(b) < static_cast<R>(a) ? static_cast<R>(b) : static_cast<R>(a); } \
  constexpr R max(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(b) : static_cast<R>(a); }
#define EMULATION_MIN_MAX_INTEGER(S)                 \
  EMULATION_MIN_MAX(S, S, S)                         \
  EMULATION_MIN_MAX(unsigned S, unsigned S, unsigned S) \
  EMULATION_MIN_MAX(unsigned S, S, unsigned S)       \
  EMULATION_MIN_MAX(unsigned S, unsigned S, S)
EMULATION_MIN_MAX_INTEGER(int)
EMULATION_MIN_MAX_INTEGER(long)
EMULATION_MIN_MAX_INTEGER(long long)
#undef EMULATION_MIN_MAX_INTEGER
#undef EMULATION_MIN_MAX

// Floating point

#define EMULATION_UNARY(NAME)                                          \
  extern "C" double NAME(double) noexcept;                             \
  extern "C" float NAME##f(float) noexcept;                            \
  inline float NAME(float v) { return __builtin_##NAME##f(v); }
EMULATION_UNARY(fabs)
EMULATION_UNARY(sqrt)
EMULATION_UNARY(floor)
EMULATION_UNARY(ceil)
EMULATION_UNARY(trunc)
EMULATION_UNARY(rint)
EMULATION_UNARY(exp)
EMULATION_UNARY(log)
#undef EMULATION_UNARY
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double fmin(double, double) noexcept;
extern "C" double fmax(double, double) noexcept;
extern "C" float fminf(float, float) noexcept;
extern "C" float fmaxf(float, float) noexcept;
extern "C" void* memcpy(void*, const void*, size_t) noexcept;
extern "C" void* memset(void*, int, size_t) noexcept;
extern "C" int abs(int) noexcept;
extern "C" long long llabs(long long) noexcept;
inline long long abs(long long v) { return v < 0 ? -v : v; }
inline float abs(float v) { return __builtin_fabsf(v); }
inline double abs(double v) { return __builtin_fabs(v); }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float fmin(float a, float b) { return __builtin_fminf(a, b); }
inline float fmax(float a, float b) { return __builtin_fmaxf(a, b); }
// As in CUDA, min and max of floating-point numbers return the one that is no NaN.
inline float min(float a, float b) { return __builtin_fminf(a, b); }
inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
inline double min(double a, double b) { return __builtin_fmin(a, b); }
inline double max(double a, double b) { return __builtin_fmax(a, b); }
inline double min(float a, double b) { return __builtin_fmin(a, b); }
inline double max(float a, double b) { return __builtin_fmax(a, b); }
inline double min(double a, float b) { return __builtin_fmin(a, b); }
inline double max(double a, float b) { return __builtin_fmax(a, b); }
template <typename T>
inline bool isnan(T v) {
  return __builtin_isnan(v);
}
template <typename T>
inline bool isinf(T v) {
  return __builtin_isinf(v);
}
template <typename T>
inline bool isfinite(T v) {
  return __builtin_isfinite(v);
}

// The units are compiled without contraction of a * b + c, so the plain operators are the rounded ones.
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }

inline long long __double_as_longlong(double v) { return emulation::from_bits<long long>(emulation::to_bits(v)); }
inline double __longlong_as_double(long long v) { return emulation::from_bits<double>(emulation::to_bits(v)); }
inline int __float_as_int(float v) { return emulation::from_bits<int>(emulation::to_bits(v)); }
inline unsigned __float_as_uint(float v) { return emulation::from_bits<unsigned>(emulation::to_bits(v)); }
inline float __int_as_float(int v) { return emulation::from_bits<float>(emulation::to_bits(v)); }
inline float __uint_as_float(unsigned v) { return emulation::from_bits<float>(emulation::to_bits(v)); }
inline int __double2hiint(double v) { return static_cast<int>(emulation::to_bits(v) >> 32); }
inline int __double2loint(double v) { return static_cast<int>(emulation::to_bits(v)); }
inline double __hiloint2double(int high, int low) {
  return emulation::from_bits<double>(static_cast<unsigned long long>(unsigned(high)) << 32 | unsigned(low));
}

inline long long clock64() {
#if defined(__x86_64__)
  return static_cast<long long>(__builtin_ia32_rdtsc());
#else
  long long ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}
inline int clock() { return static_cast<int>(clock64()); }
