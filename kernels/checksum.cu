// 64 bits for each of several arrays that change with any byte of it: the sum of its words, each mixed with its place.
#include "spmv.cuh"

// SplitMix64 (Steele, Lea & Flood 2014). Every step has an inverse, so a change of one word always changes the sum;
// that of two arrays is equal by chance alone, were they but two orders of the same words.
__device__ inline unsigned long long mixed(unsigned long long word, unsigned long long place) {
  word += place * 0x9e3779b97f4a7c15ull;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
  return word ^ (word >> 31);
}

template <typename W>
__device__ unsigned long long mixed_sum(const W* words, long long n) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  unsigned long long sum = 0;
#pragma unroll 4
  for (long long i = global_thread(); i < n; i += stride) sum += mixed(load_stream(words + i), i + 1);
  return sum;
}

// addresses, bytes, sums: one for each array; an array is a row of the grid.
template <int UNUSED>
__global__ void checksum(const unsigned long long* addresses, const unsigned long long* bytes,
                         unsigned long long* sums) {
  const unsigned long long address = addresses[blockIdx.y], n = bytes[blockIdx.y];
  // Words of one byte where it is not whole words of four.
  unsigned long long sum = (address | n) % 4 ? mixed_sum(reinterpret_cast<const unsigned char*>(address), n)
                                             : mixed_sum(reinterpret_cast<const unsigned int*>(address), n / 4);
  sum = group_sum<WARP>(sum);
  if (lane_id() == 0 && sum) atomicAdd(sums + blockIdx.y, sum);
}
