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

constexpr int SORT_PLACES = 1024;  // that a block sorts; a window of rows has `padded` of them, a power of two
constexpr int SORT_BLOCK = SORT_PLACES / 2;

// The rows of each window of `sigma`, longest first, equal ones in order: bitonic sorts of lengths and places.
template <typename I>
__global__ void __launch_bounds__(SORT_BLOCK)
    sort_windows(int rows, int sigma, int padded, const I* __restrict__ row_ptr, int* __restrict__ perm) {
  __shared__ long long keys[SORT_PLACES];
  const long long first = static_cast<long long>(blockIdx.x) * (SORT_PLACES / padded) * sigma;
  bool disorder = false;
  for (int t = threadIdx.x; t < SORT_PLACES; t += SORT_BLOCK) {
    const int inside = t % padded;
    const long long row = first + static_cast<long long>(t / padded) * sigma + inside;
    const bool any = inside < sigma && row < rows;
    const long long length = any ? static_cast<long long>(row_ptr[row + 1] - row_ptr[row]) : 0;
    keys[t] = any ? length * SORT_PLACES + (SORT_PLACES - 1 - inside) : -1;
    if (any && inside) disorder |= length > static_cast<long long>(row_ptr[row] - row_ptr[row - 1]);
  }
  if (__syncthreads_or(disorder)) {
    for (int size = 2; size <= padded; size *= 2) {
      for (int apart = size / 2; apart > 0; apart /= 2) {
        const int low = 2 * threadIdx.x - (threadIdx.x & (apart - 1));
        const bool falling = size == padded || !(low & size);
        const long long a = keys[low], b = keys[low + apart];
        if ((a < b) == falling) {
          keys[low] = b;
          keys[low + apart] = a;
        }
        __syncthreads();
      }
    }
  }
  for (int t = threadIdx.x; t < SORT_PLACES; t += SORT_BLOCK) {
    const long long window = first + static_cast<long long>(t / padded) * sigma;
    const long long place = window + t % padded;
    if (keys[t] < 0) continue;
    perm[place] = static_cast<int>(window) + SORT_PLACES - 1 - static_cast<int>(keys[t] % SORT_PLACES);
  }
}
