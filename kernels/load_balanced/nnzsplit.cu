// CSR in equal shares of entries whose rows are found by search. See spmvbench/formats/load_balanced/nnzsplit.py.
#include "shares.cuh"

constexpr int SPLIT_BLOCK = 256;  // threads

// Block b has the entries from b * ITEMS * SPLIT_BLOCK on, whose rows are start_row[b] to start_row[b + 1]; a warp's are
// neighbours, a lane's 32 apart. y holds what is added to.
template <typename V, typename I, int ITEMS, typename S = V>
__global__ void __launch_bounds__(SPLIT_BLOCK)
    nnzsplit(I nnz, const int* __restrict__ start_row, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
             const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long first = (static_cast<long long>(blockIdx.x) * SPLIT_BLOCK + threadIdx.x / WARP * WARP) * ITEMS;
  const int lane = lane_id();
  const int first_row = start_row[blockIdx.x], last_row = start_row[blockIdx.x + 1];
  V products[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const long long k = first + i * WARP + lane;
    products[i] = k < nnz ? load_stream(values + k) * load_x(x, load_stream(col_idx + k)) : V(0);
  }
  if (first_row == last_row) {
    V sum = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) sum += products[i];
    sum = block_sum<SPLIT_BLOCK>(sum);
    if (threadIdx.x == 0) atomicAdd(y + first_row, sum);
    return;
  }
  int low = first_row;
  int open_row = -1;  // of the sums in registers, the same in all lanes
  V open = 0;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const long long k = first + i * WARP + lane;
    int high = last_row;  // the row is in low .. high
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (row_ptr[middle + 1] <= k) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const int row = low;
    const bool alike = __all_sync(FULL_MASK, row == __shfl_sync(FULL_MASK, row, 0));
    if (alike && row == open_row) {
      open += products[i];
      continue;
    }
    if (open_row >= 0) {
      open = group_sum<WARP>(open);
      if (lane == 0) atomicAdd(y + open_row, open);
    }
    open_row = alike ? row : -1;
    open = products[i];
    if (alike) continue;
    const V sum = warp_segmented_scan(row, products[i]);
    const int next_row = __shfl_down_sync(FULL_MASK, row, 1);
    if (lane == WARP - 1 || next_row != row) atomicAdd(y + row, sum);
  }
  if (open_row < 0) return;
  open = group_sum<WARP>(open);
  if (lane == 0) atomicAdd(y + open_row, open);
}
