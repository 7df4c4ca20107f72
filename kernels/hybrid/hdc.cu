// HDC (Yang et al., IJHPCA 2014): dense diagonals and the compressed rows of all other entries in one launch; see
// spmvbench/formats/hybrid/diagonals.py.
#include "csr.cuh"
#include "dia.cuh"

constexpr int BLOCK = 128;

// A block has as many rows as threads. Each thread sums the diagonals of a row, then LANES threads share the other
// entries of a row, where the block has any. pitch: values of a diagonal. rest: entries on no stored diagonal.
template <typename V, typename I, int LANES, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    hdc_spmv(int rows, int cols, int diagonals, long long pitch, const int* __restrict__ offset,
             const S* __restrict__ values, I nnz, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
             const S* __restrict__ rest, const V* __restrict__ x, V* __restrict__ y) {
  __shared__ V sums[BLOCK];
  const int first = blockIdx.x * BLOCK;
  const int here = min(BLOCK, rows - first);  // rows of the block
  const int row = first + static_cast<int>(threadIdx.x);
  V sum[1] = {V(0)};
  if (row < rows) sum_diagonals<1, 4, sizeof(V) == 8>(row, cols, diagonals, pitch, offset, values + row, x, sum);
  if (row_ptr[first] == row_ptr[first + here]) {
    if (row < rows) y[row] = sum[0];
    return;
  }
  if constexpr (LANES == 1) {
    if (row < rows) {
      y[row] = sum[0] + lane_sum<1, 1>(row_ptr[row], row_ptr[row + 1], nnz, 0, col_idx, rest, x);
    }
  } else {
    sums[threadIdx.x] = sum[0];
    __syncthreads();
    const int lane = threadIdx.x % LANES;
    for (int group = threadIdx.x / LANES; group < BLOCK; group += BLOCK / LANES) {
      V added = 0;
      if (group < here) {
        const int at = first + group;
        added = lane_sum<LANES, 1>(row_ptr[at], row_ptr[at + 1], nnz, lane, col_idx, rest, x);
      }
      added = group_sum<LANES>(added);
      if (lane == 0 && group < here) y[first + group] = sums[group] + added;
    }
  }
}
