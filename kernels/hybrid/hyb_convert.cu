// What HYB's conversion needs on the device: how long rows are, and what they have beyond the part in ELLPACK.
#include "search.cuh"
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

// One thread an entry. tail_ptr, (rows + 1,): where the tail of each row begins among all.
template <typename V, typename I, typename P>
__global__ void row_tails(int rows, P entries, const P* __restrict__ tail_ptr, const I* __restrict__ row_ptr,
                          const int* __restrict__ col_idx, const V* __restrict__ values, int* __restrict__ tail_row,
                          int* __restrict__ tail_col, V* __restrict__ tail_values) {
  const long long k = global_thread();
  if (k >= entries) return;
  const P entry = static_cast<P>(k);
  const int row = first_behind(tail_ptr, 0, rows, entry) - 1;
  const I from = row_ptr[row + 1] - static_cast<I>(tail_ptr[row + 1] - entry);
  tail_row[k] = row;
  tail_col[k] = load_stream(col_idx + from);
  tail_values[k] = load_stream(values + from);
}
