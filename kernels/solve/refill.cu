// New values for a matrix in a format: elements of a stored array take those of their entries. See
// spmvbench/formats/refilling.py.
#include "spmv.cuh"

constexpr int REFILL_ITEMS = 8;  // values that a thread has in flight

// A block for each chunk of `chunk` entries, of which the array holds those from start[block] on: entry[i] counts from
// the chunk's first, place[i] is its element. What is padding stays as it is.
template <typename V, typename P>
__global__ void refill(int chunk, const P* __restrict__ start, const P* __restrict__ place,
                       const unsigned short* __restrict__ entry, const V* __restrict__ values, V* __restrict__ stored) {
  const P begin = start[blockIdx.x];
  const int count = static_cast<int>(start[blockIdx.x + 1] - begin);
  values += static_cast<long long>(blockIdx.x) * chunk;
  place += begin, entry += begin;
  for (int first = threadIdx.x; first < count; first += REFILL_ITEMS * blockDim.x) {
    V value[REFILL_ITEMS];
    P to[REFILL_ITEMS];
#pragma unroll
    for (int i = 0; i < REFILL_ITEMS; ++i) {
      const int at = min(first + i * static_cast<int>(blockDim.x), count - 1);
      to[i] = load_stream(place + at);
      value[i] = __ldg(values + load_stream(entry + at));
    }
#pragma unroll
    for (int i = 0; i < REFILL_ITEMS; ++i) {
      if (first + i * static_cast<int>(blockDim.x) < count) stored[to[i]] = value[i];
    }
  }
}

// The same where entry i is element i.
template <typename V>
__global__ void refill_all(long long n, const V* __restrict__ values, V* __restrict__ stored) {
  const long long i = global_thread();
  if (i < n) stored[i] = load_stream(values + i);
}
