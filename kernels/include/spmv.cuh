// What every SpMV kernel shares: how the matrix, x and y are accessed, and reductions over the lanes of a row.
#pragma once

constexpr unsigned FULL_MASK = 0xffffffffu;
constexpr int WARP = 32;

// Matrix arrays are read once: the streaming hint keeps them from evicting x.
template <typename T>
__device__ __forceinline__ T load_stream(const T* p) {
  return __ldcs(p);
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

// A row's sum becomes y, or with ADD is added to it: one thread does either, so nothing is atomic.
template <bool ADD, typename V>
__device__ __forceinline__ void put(V* y, V sum) {
  *y = ADD ? *y + sum : sum;
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
