// A number for each of several arrays that changes with any byte of it: the sum of word i times 2 i + 1, modulo 2^64.
#include "spmv.cuh"

// An odd factor has an inverse modulo 2^64, so a change of one word always changes the sum.
template <typename W>
__device__ unsigned long long weighted(const W* words, long long n) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  unsigned long long sum = 0;
#pragma unroll 4
  for (long long i = global_thread(); i < n; i += stride) {
    sum += load_stream(words + i) * (2ull * static_cast<unsigned long long>(i) + 1);
  }
  return sum;
}

// addresses, bytes, sums: one for each array; an array is a row of the grid.
template <int UNUSED>
__global__ void checksum(const unsigned long long* addresses, const unsigned long long* bytes,
                         unsigned long long* sums) {
  const unsigned long long address = addresses[blockIdx.y], n = bytes[blockIdx.y];
  // Words of one byte where it is not whole words of four.
  unsigned long long sum = (address | n) % 4 ? weighted(reinterpret_cast<const unsigned char*>(address), n)
                                             : weighted(reinterpret_cast<const unsigned int*>(address), n / 4);
  sum = group_sum<WARP>(sum);
  if (lane_id() == 0 && sum) atomicAdd(sums + blockIdx.y, sum);
}
