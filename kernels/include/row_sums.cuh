// Dot products of 8 rows at a time, 4 slots of a row in each step: by tensor cores where they take the type.
#pragma once
#include "spmv.cuh"

// A fragment is 8 x 4 slots: lane l has slot l % 4 of row l / 4. `add` takes a fragment's values and its x, `row` gives
// the sum of row g, which each lane may choose. All lanes of the warp arrive together.
template <typename V>
struct RowSums {
  V sum = 0;

  __device__ __forceinline__ void add(V value, V factor) { sum += value * factor; }

  __device__ __forceinline__ V row(int g) const {
    V total = sum + __shfl_xor_sync(FULL_MASK, sum, 1);
    total += __shfl_xor_sync(FULL_MASK, total, 2);
    return __shfl_sync(FULL_MASK, total, 4 * g);
  }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// The dot products are the diagonal of the 8 x 4 values times the 4 x 8 x; both operands of a slot are its own lane's.
// Of the 8 x 8 result lane l has columns 2 (l % 4) and the next of row l / 4.
template <>
struct RowSums<double> {
  double even = 0, odd = 0;

  __device__ __forceinline__ void add(double value, double factor) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(even), "+d"(odd)
                 : "d"(value), "d"(factor));
  }

  __device__ __forceinline__ double row(int g) const {
    const int lane = 9 * (g >> 1) + 4 * (g & 1);
    const double of_even = __shfl_sync(FULL_MASK, even, lane);
    const double of_odd = __shfl_sync(FULL_MASK, odd, lane);
    return g & 1 ? of_odd : of_even;
  }
};
#endif
