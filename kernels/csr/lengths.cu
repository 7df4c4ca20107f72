// Compressed sparse rows with the lengths of rows in place of where they begin (csr-wang); see
// spmvbench/formats/csr/wang.py.
#include "csr.cuh"

// LANES threads per row. block_ptr: the entries before the rows of each block; where these begin the block finds by a
// sum over their lengths.
template <typename V, typename I, typename L, int LANES, int BLOCK, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    csr_lengths(int rows, I nnz, const I* __restrict__ block_ptr, const L* __restrict__ lengths,
                const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                V* __restrict__ y) {
  constexpr int ROWS = BLOCK / LANES;
  __shared__ I ends[BLOCK];  // entries of the block's rows up to each
  __shared__ I of_warps[BLOCK / WARP];
  const int t = threadIdx.x;
  const long long first = static_cast<long long>(blockIdx.x) * ROWS;
  I end = group_scan<WARP>(t < ROWS && first + t < rows ? static_cast<I>(lengths[first + t]) : I(0));
  if (t % WARP == WARP - 1) of_warps[t / WARP] = end;
  __syncthreads();
  for (int w = 0; w < t / WARP; ++w) end += of_warps[w];
  ends[t] = end;
  __syncthreads();
  const int place = t / LANES;
  const I begin = block_ptr[blockIdx.x], before = place > 0 ? ends[place - 1] : I(0);
  V sum = lane_sum<LANES, 1>(begin + before, begin + ends[place], nnz, t % LANES, col_idx, values, x);
  sum = group_sum<LANES>(sum);
  if (t % LANES == 0 && first + place < rows) y[first + place] = sum;
}
