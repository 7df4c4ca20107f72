// Offsets from counts that lie in memory.
#include "offsets.cuh"

template <typename C, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    offsets(long long n, const C* __restrict__ counts, P* __restrict__ ptr, unsigned long long* __restrict__ state) {
  write_offsets<OFFSETS_EACH>(n, ptr, state,
                              [&](long long at) { return at < n ? static_cast<long long>(counts[at]) : 0ll; });
}
