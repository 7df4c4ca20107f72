// A pass over entries that also needs to know which list owns each.
#pragma once
#include "search.cuh"
#include "spmv.cuh"

constexpr int TAKE_EACH = 8;  // entries of a thread

// each(list, at) for each of `total` entries and the list that owns it. A warp takes neighbouring ones. ptr: first of each
// list, and the end.
template <typename P, typename Each>
__device__ __forceinline__ void take_each(int lists, long long total, const P* __restrict__ ptr, Each each) {
  long long at = global_thread() / WARP * (TAKE_EACH * WARP);
  if (at >= total) return;  // the whole warp
  int list = first_behind_of_warp(ptr, 0, lists + 1, static_cast<P>(at)) - 1;
  at += lane_id();
  for (int i = 0; i < TAKE_EACH && at < total; ++i, at += WARP) {
    list = row_from(ptr, list, lists + 1, static_cast<P>(at));
    each(list, at);
  }
}
