// Neighbouring values in one load.
#pragma once
#include "spmv.cuh"

// LOAD values from an address that is a multiple of their bytes.
template <int LOAD>
__device__ __forceinline__ void load_values(const double* p, double* into) {
  if constexpr (LOAD == 2) {
    const double2 found = load_stream(reinterpret_cast<const double2*>(p));
    into[0] = found.x;
    into[1] = found.y;
  } else {
    into[0] = load_stream(p);
  }
}

template <int LOAD>
__device__ __forceinline__ void load_values(const float* p, float* into) {
  if constexpr (LOAD == 4) {
    const float4 found = load_stream(reinterpret_cast<const float4*>(p));
    into[0] = found.x;
    into[1] = found.y;
    into[2] = found.z;
    into[3] = found.w;
  } else if constexpr (LOAD == 2) {
    const float2 found = load_stream(reinterpret_cast<const float2*>(p));
    into[0] = found.x;
    into[1] = found.y;
  } else {
    into[0] = load_stream(p);
  }
}

// Values of 16 bits: up to 4 as one integer each.
template <int LOAD, typename S, typename = typename S::Number>
__device__ __forceinline__ void load_values(const S* p, S* into) {
  if constexpr (LOAD == 8) {
    const uint4 found = load_stream(reinterpret_cast<const uint4*>(p));
    const unsigned words[4] = {found.x, found.y, found.z, found.w};
#pragma unroll
    for (int e = 0; e < 8; ++e) into[e].bits = static_cast<unsigned short>(words[e / 2] >> 16 * (e % 2));
  } else if constexpr (LOAD == 4) {
    const uint2 found = load_stream(reinterpret_cast<const uint2*>(p));
    const unsigned words[2] = {found.x, found.y};
#pragma unroll
    for (int e = 0; e < 4; ++e) into[e].bits = static_cast<unsigned short>(words[e / 2] >> 16 * (e % 2));
  } else if constexpr (LOAD == 2) {
    const auto found = load_stream(reinterpret_cast<const HalfPair<S>*>(p));
    into[0] = found.x;
    into[1] = found.y;
  } else {
    into[0] = load_stream(p);
  }
}

// COUNT values of an array, loaded 16 bytes at a time: COUNT values are a multiple of 16 bytes, or fewer.
template <int COUNT, typename V>
__device__ __forceinline__ void load_all(const V* p, V* into) {
  constexpr int MOST = 16 / static_cast<int>(sizeof(V));
  constexpr int LOAD = COUNT < MOST ? COUNT : MOST;
#pragma unroll
  for (int e = 0; e < COUNT; e += LOAD) load_values<LOAD>(p + e, into + e);
}
template <int COUNT, typename V, int T>
__device__ __forceinline__ void load_all(const Multi<V, T>* p, Multi<V, T>* into) {
#pragma unroll
  for (int e = 0; e < COUNT; ++e) into[e] = load_stream(p + e);
}
