// A pass over entries that also needs to know which list owns each.
#pragma once
#include "search.cuh"
#include "spmv.cuh"

constexpr int TAKE_EACH = 8;  // entries of a thread

// each(list, at) for each of `total` entries and the list that owns it. A warp takes neighbouring ones. ptr: first of each
// list, and the end.
template <typename P, typename Each>
__device__ __forceinline__ void take_each(int lists, long long total, const P* __restrict__ ptr, Each each) {
  long long at = global_thread() / WARP * (TAKE_EACH * WARP) + lane_id();
  int list = -1;
  for (int i = 0; i < TAKE_EACH && at < total; ++i, at += WARP) {
    list = list < 0 ? first_behind(ptr, 0, lists + 1, static_cast<P>(at)) - 1
                    : row_from(ptr, list, lists + 1, static_cast<P>(at));
    each(list, at);
  }
}
