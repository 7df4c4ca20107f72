// What every SpMV kernel shares: how the matrix, x and y are accessed, and reductions over the lanes of a row.
#pragma once

constexpr unsigned FULL_MASK = 0xffffffffu;
constexpr int WARP = 32;

// Values stored in 16 bits, which every product takes as a float: IEEE's binary16, and bfloat16, the upper half of a
// float. Arithmetic is that of x, y and the sums; nothing is rounded to these types on a device.
struct f16 {
  using Number = unsigned short;
  Number bits;

  f16() = default;
  explicit constexpr __host__ __device__ f16(int zero) : bits(static_cast<Number>(zero)) {}

  __device__ __forceinline__ operator float() const {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const unsigned size = bits & 0x7fffu;
    if (size < 0x0400u) {                                                     // subnormal
      const float value = static_cast<float>(size) * 5.9604644775390625e-8f;  // 2^-24
      return bits & 0x8000u ? -value : value;
    }
    return __uint_as_float((bits & 0x8000u) << 16 | (size + (size < 0x7c00u ? 0x1c000u : 0x38000u)) << 13);
#endif
  }
};

struct bf16 {
  using Number = unsigned short;
  Number bits;

  bf16() = default;
  explicit constexpr __host__ __device__ bf16(int zero) : bits(static_cast<Number>(zero)) {}

  __device__ __forceinline__ operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
};

// Matrix arrays are read once: the streaming hint keeps them from evicting x.
template <typename T>
__device__ __forceinline__ T load_stream(const T* p) {
  return __ldcs(p);
}
__device__ __forceinline__ f16 load_stream(const f16* p) {
  f16 value;
  value.bits = __ldcs(&p->bits);
  return value;
}
__device__ __forceinline__ bf16 load_stream(const bf16* p) {
  bf16 value;
  value.bits = __ldcs(&p->bits);
  return value;
}

// x is read many times, from anywhere: the read-only path.
template <typename V>
__device__ __forceinline__ V load_x(const V* __restrict__ x, int column) {
  return __ldg(x + column);
}

// Two values in one load.
template <typename V>
struct PairOf;
template <>
struct PairOf<double> {
  using type = double2;
};
template <>
struct PairOf<float> {
  using type = float2;
};

template <typename S>
struct alignas(4) HalfPair {
  S x, y;
};
template <>
struct PairOf<f16> {
  using type = HalfPair<f16>;
};
template <>
struct PairOf<bf16> {
  using type = HalfPair<bf16>;
};
template <typename S>
__device__ __forceinline__ HalfPair<S> load_stream(const HalfPair<S>* p) {
  const unsigned bits = __ldcs(reinterpret_cast<const unsigned*>(p));
  HalfPair<S> pair;
  pair.x.bits = static_cast<unsigned short>(bits);
  pair.y.bits = static_cast<unsigned short>(bits >> 16);
  return pair;
}

// A row's sum becomes y, or with ADD is added to it: one thread does either, so nothing is atomic.
template <bool ADD, typename V, typename Sum>
__device__ __forceinline__ void put(V* y, Sum sum) {
  *y = ADD ? *y + sum : V(sum);
}

__device__ __forceinline__ long long global_thread() {
  return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ int lane_id() { return threadIdx.x % WARP; }

// Sum over aligned groups of LANES lanes (a power of two); every lane of the warp must arrive. Lane 0 of a group has
// it.
template <int LANES, typename V>
__device__ __forceinline__ V group_sum(V sum) {
#pragma unroll
  for (int offset = LANES / 2; offset > 0; offset /= 2) {
    sum += __shfl_down_sync(FULL_MASK, sum, offset, LANES);
  }
  return sum;
}

// Inclusive scan over aligned groups of LANES lanes (a power of two); every lane of the warp must arrive.
template <int LANES, typename V>
__device__ __forceinline__ V group_scan(V sum) {
#pragma unroll
  for (int offset = 1; offset < LANES; offset *= 2) {
    const V before = __shfl_up_sync(FULL_MASK, sum, offset, LANES);
    if (lane_id() % LANES >= offset) sum += before;
  }
  return sum;
}

// Inclusive scan over the warp of values that share a key with the lanes before them (equal keys are neighbours).
template <typename V>
__device__ __forceinline__ V warp_segmented_scan(int key, V sum) {
#pragma unroll
  for (int offset = 1; offset < WARP; offset *= 2) {
    const V before = __shfl_up_sync(FULL_MASK, sum, offset);
    const int key_before = __shfl_up_sync(FULL_MASK, key, offset);
    if (lane_id() >= offset && key_before == key) sum += before;
  }
  return sum;
}

#include "multivector.cuh"
