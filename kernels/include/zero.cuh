// Vectors set to zero by kernels that have something else to do as well.
#pragma once
#include "spmv.cuh"

// Sets y, of n values, to zero, 16 bytes at a time: `thread` of `threads` takes its share.
template <typename V>
__device__ __forceinline__ void zero_share(V* __restrict__ y, long long n, long long thread, long long threads) {
  constexpr int EACH = 16 / sizeof(V);
  const int ahead = static_cast<int>(-(reinterpret_cast<unsigned long long>(y) / sizeof(V)) & (EACH - 1));
  const long long first = ahead < n ? ahead : n;
  const long long wide = (n - first) / EACH;
  float4* into = reinterpret_cast<float4*>(y + first);
  for (long long i = thread; i < wide; i += threads) into[i] = make_float4(0, 0, 0, 0);
  for (long long i = thread; i < first; i += threads) y[i] = V(0);
  for (long long i = first + wide * EACH + thread; i < n; i += threads) y[i] = V(0);
}
