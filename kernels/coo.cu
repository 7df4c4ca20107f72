// Coordinates: one thread an entry with an atomic, or warps that sum runs of equal rows (Bell & Garland 2008, "flat").
#include "carry.cuh"
#include "spmv.cuh"

// I: type of entry numbers. y holds what the products are added to.
template <typename V, typename I>
__global__ void coo_atomic(I nnz, const int* __restrict__ row_idx, const int* __restrict__ col_idx,
                           const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long k = global_thread();
  if (k >= nnz) return;
  atomicAdd(y + load_stream(row_idx + k), load_stream(values + k) * load_x(x, load_stream(col_idx + k)));
}

// Each warp walks `interval` entries (a multiple of 32), 32 at a time. A row that ends inside the interval is added to
// y without an atomic: only one warp sees its end. What is open at the interval's end is the warp's carry.
template <typename V, typename I>
__global__ void coo_flat(I nnz, int interval, const int* __restrict__ row_idx, const int* __restrict__ col_idx,
                         const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y,
                         int* __restrict__ carry_row, V* __restrict__ carry_sum) {
  const long long warp = global_thread() / WARP;
  const int lane = lane_id();
  const long long begin = warp * interval;
  if (begin >= nnz) return;  // the whole warp
  const long long end = begin + interval < nnz ? begin + interval : nnz;

  int open_row = row_idx[begin];
  V open_sum = 0;
  for (long long batch = begin; batch < end; batch += WARP) {
    // Lanes past the end repeat the last row with nothing to add.
    const long long k = batch + lane;
    const bool inside = k < end;
    const int row = inside ? load_stream(row_idx + k) : row_idx[end - 1];
    V sum = inside ? load_stream(values + k) * load_x(x, load_stream(col_idx + k)) : V(0);
    if (lane == 0) {
      if (row == open_row) {
        sum += open_sum;
      } else {
        y[open_row] += open_sum;
      }
    }
    sum = warp_segmented_scan(row, sum);
    const int next_row = __shfl_down_sync(FULL_MASK, row, 1);
    if (lane < WARP - 1 && row != next_row) y[row] += sum;
    open_row = __shfl_sync(FULL_MASK, row, WARP - 1);
    open_sum = __shfl_sync(FULL_MASK, sum, WARP - 1);
  }
  if (lane == 0) {
    carry_row[warp] = open_row;
    carry_sum[warp] = open_sum;
  }
}
