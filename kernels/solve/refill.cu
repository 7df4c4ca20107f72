// New values for a matrix in a format: each element of a stored array takes that of its entry.
#include "spmv.cuh"

// entry: the number of the entry that each of n elements holds, negative for padding, which stays as it is.
template <typename V, typename I>
__global__ void refill(I n, const I* __restrict__ entry, const V* __restrict__ values, V* __restrict__ stored) {
  const long long i = global_thread();
  if (i >= n) return;
  const I from = load_stream(entry + i);
  if (from >= 0) stored[i] = __ldg(values + from);
}
