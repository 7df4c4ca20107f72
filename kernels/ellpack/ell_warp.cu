// ELL-WARP's second kernel (Wong, Kuhl & Darve 2015): lanes[warp] neighbouring lanes of a warp share a row.
// Step i of a warp's lane is at warp_ptr[warp] + 32 * i + lane.
#include "sell.cuh"

template <typename V, typename P, typename S = V>
__global__ void ell_warp_k2(int warps, int places, const P* __restrict__ warp_ptr, const int* __restrict__ first_place,
                            const unsigned char* __restrict__ lanes, const int* __restrict__ perm,
                            const int* __restrict__ columns, const S* __restrict__ values, const V* __restrict__ x,
                            V* __restrict__ y) {
  const long long warp = global_thread() / WARP;
  if (warp >= warps) return;
  const P begin = warp_ptr[warp];
  const int steps = static_cast<int>((warp_ptr[warp + 1] - begin) / WARP);
  const long long slot = static_cast<long long>(begin) + lane_id();
  const int shared = lanes[warp];  // by the lanes of a row
  const auto at = [](int step) { return static_cast<long long>(step) * WARP; };
  V sum = slot_sum<1>(0, steps, values + slot, x, at, [=](int step) { return load_stream(columns + slot + at(step)); });
  for (int offset = shared / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(FULL_MASK, sum, offset, shared);
  const int place = first_place[warp] + lane_id() / shared;
  if (lane_id() % shared == 0 && place < places) y[perm[place]] = sum;
}
