// A number that changes with any word of an array, and with their order: the sum of word i times 2 i + 1, modulo 2^64.
#include "spmv.cuh"

// An odd factor has an inverse modulo 2^64, so a change of one word always changes the sum.
template <int UNUSED>
__global__ void checksum(const unsigned int* __restrict__ words, long long n, unsigned long long* sum) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  unsigned long long mine = 0;
#pragma unroll 4
  for (long long i = global_thread(); i < n; i += stride) {
    mine += load_stream(words + i) * (2ull * static_cast<unsigned long long>(i) + 1);
  }
  mine = group_sum<WARP>(mine);
  if (lane_id() == 0) atomicAdd(sum, mine);
}
