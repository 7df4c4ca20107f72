// BiELL and BiJAD (Zheng et al. 2014): strips of 32 sorted rows, whose lanes are distributed again whenever half are
// done.
#include "sell.cuh"

constexpr int GROUPS = 6;  // of a strip's steps: in group g 2^g lanes share each of the 32 >> g longest rows

// A warp per strip. Step i of group g is at 32 * (group_ptr[6 * strip + g] + i); lane l has a slot of row l % (32 >>
// g).
template <typename V, typename I, typename S = V>
__global__ void biell(int rows, const I* __restrict__ group_ptr, const int* __restrict__ perm,
                      const int* __restrict__ columns, const S* __restrict__ values, const V* __restrict__ x,
                      V* __restrict__ y) {
  const long long strip = global_thread() / WARP, place = global_thread();
  if (strip * WARP >= rows) return;
  const int lane = lane_id();
  const auto at = [](int step) { return static_cast<long long>(step) * WARP; };
  V total = 0;
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const I begin = group_ptr[GROUPS * strip + g], end = group_ptr[GROUPS * strip + g + 1];
    if (begin == end) continue;
    const long long slot = static_cast<long long>(begin) * WARP + lane;
    V sum = slot_sum<1>(0, static_cast<int>(end - begin), values + slot, x, at,
                        [=](int step) { return load_stream(columns + slot + at(step)); });
    for (int live = WARP >> g; live < WARP; live *= 2) sum += __shfl_xor_sync(FULL_MASK, sum, live);
    if (lane < WARP >> g) total += sum;
  }
  if (place < rows) y[perm[place]] = total;
}
