// What rows are assigned by: how long they are.
#include "spmv.cuh"

// Adds to `counts`, zero before, how many rows have each length; the last of BINS counts those as long and longer.
template <typename I, int BINS>
__global__ void rows_by_length(int rows, const I* __restrict__ row_ptr, int* __restrict__ counts) {
  // Most rows tend to be of one length: a block counts for itself before all meet at one address.
  __shared__ int seen[BINS];
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) seen[bin] = 0;
  __syncthreads();
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long row = global_thread(); row < rows; row += stride) {
    const I length = row_ptr[row + 1] - row_ptr[row];
    atomicAdd(seen + (length < BINS ? static_cast<int>(length) : BINS - 1), 1);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
    if (seen[bin]) atomicAdd(counts + bin, seen[bin]);
  }
}
