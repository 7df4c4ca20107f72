// A sparse x, whose entries are sorted by their places, and the columns that they meet.
#pragma once
#include "spmv.cuh"

// The first of index[0 .. k) that is not below `key`, k where none is. The warp looks at 32 places at once: every lane
// arrives and has the answer.
__device__ __forceinline__ int warp_search(const int* __restrict__ index, int k, long long key) {
  int low = 0;
  int high = k;
  while (low < high) {
    const int step = (high - low + WARP - 1) / WARP;
    const int probe = low + (lane_id() + 1) * step - 1;
    const int below = __popc(__ballot_sync(FULL_MASK, probe < high && index[probe] < key));
    low = min(low + below * step, high);
    high = min(high, low + step - 1);
  }
  return low;
}

// Entries begin .. end of a column times its factor, by STEP lanes, several entries of each under way: add(row, product).
template <int STEP, typename V, typename I, typename Add>
__device__ __forceinline__ void push_entries(I begin, I end, V factor, const int* __restrict__ row_idx,
                                             const V* __restrict__ values, Add add) {
  constexpr int MANY = 4;
  for (I e = begin + threadIdx.x % STEP; e < end; e += MANY * STEP) {
    int row[MANY];
    V product[MANY];
#pragma unroll
    for (int u = 0; u < MANY; ++u) {
      if (e + u * STEP < end) {
        row[u] = row_idx[e + u * STEP];
        product[u] = values[e + u * STEP] * factor;
      }
    }
#pragma unroll
    for (int u = 0; u < MANY; ++u) {
      if (e + u * STEP < end) add(row[u], product[u]);
    }
  }
}
