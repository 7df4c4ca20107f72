// Compressed sparse rows assigned at run time: the first free group takes the next rows from a counter (LightSpMV, Liu
// & Schmidt 2015).
#include "csr.cuh"

// LANES threads per row. BY_WARP: a warp takes a row for each of its groups at once, else every group takes one.
// counter is zero before. The groups of a warp stay together until none has a row: shuffles name all lanes.
template <typename V, typename I, int LANES, bool BY_WARP, typename S = V>
__global__ void csr_dynamic(int rows, I nnz, unsigned* __restrict__ counter, const I* __restrict__ row_ptr,
                            const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                            V* __restrict__ y) {
  constexpr int GROUPS = WARP / LANES;
  const int lane = threadIdx.x % LANES;
  for (;;) {
    unsigned row = 0;
    if (BY_WARP) {
      if (lane_id() == 0) row = atomicAdd(counter, GROUPS);
      row = __shfl_sync(FULL_MASK, row, 0) + lane_id() / LANES;
    } else {
      if (lane == 0) row = atomicAdd(counter, 1);
      row = __shfl_sync(FULL_MASK, row, 0, LANES);
    }
    const bool any = row < rows;
    if (!__any_sync(FULL_MASK, any)) return;
    V sum = 0;
    if (any) sum = lane_sum<LANES, 1>(row_ptr[row], row_ptr[row + 1], nnz, lane, col_idx, values, x);
    sum = group_sum<LANES>(sum);
    if (lane == 0 && any) y[row] = sum;
  }
}
