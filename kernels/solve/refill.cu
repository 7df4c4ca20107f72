// New values for a matrix in a format: elements of a stored array take those of their entries. See
// spmvbench/formats/refilling.py.
#include "spmv.cuh"

constexpr int REFILL_ITEMS = 8;  // values that a thread has in flight

// A block for each chunk of `chunk` entries, which writes the sectors of WIDTH elements from start[block] on, of an array
// of `size` elements. entry: of each element of a sector, counted from the chunk's first entry; E(-1) is padding, which is
// 0. Neighbouring threads write neighbouring elements.
template <typename V, typename P, typename E, int WIDTH>
__global__ void refill(int chunk, P size, const P* __restrict__ start, const P* __restrict__ sector,
                       const E* __restrict__ entry, const V* __restrict__ values, V* __restrict__ stored) {
  const long long begin = start[blockIdx.x];
  const int count = static_cast<int>(start[blockIdx.x + 1] - begin) * WIDTH;
  values += static_cast<long long>(blockIdx.x) * chunk;
  sector += begin, entry += begin * WIDTH;
  for (int first = threadIdx.x; first < count; first += REFILL_ITEMS * blockDim.x) {
    V value[REFILL_ITEMS];
    P to[REFILL_ITEMS];
#pragma unroll
    for (int i = 0; i < REFILL_ITEMS; ++i) {
      const int at = min(first + i * static_cast<int>(blockDim.x), count - 1);
      const E from = load_stream(entry + at);
      to[i] = __ldg(sector + at / WIDTH) * WIDTH + at % WIDTH;
      value[i] = from == static_cast<E>(-1) ? V(0) : __ldg(values + from);
    }
#pragma unroll
    for (int i = 0; i < REFILL_ITEMS; ++i) {
      if (first + i * static_cast<int>(blockDim.x) < count && to[i] < size) stored[to[i]] = value[i];
    }
  }
}

// The same where entry i is element i.
template <typename V>
__global__ void refill_all(long long n, const V* __restrict__ values, V* __restrict__ stored) {
  const long long i = global_thread();
  if (i < n) stored[i] = load_stream(values + i);
}
