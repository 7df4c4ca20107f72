// Equal shares of the entries for every warp, 32 neighbouring ones at a time (Anzt et al., TOPC 7(1) 2020): a lane keeps
// its sum for as long as its row stays the same from line to line, and the warp adds sums up only where one does not.
#include "spmv.cuh"

// Adds to y, one atomic a run, the sums of lanes with equal rows, which are neighbours. Every lane arrives.
template <typename V>
__device__ __forceinline__ void add_runs(int row, V sum, V* __restrict__ y) {
  sum = warp_segmented_scan(row, sum);
  const int next = __shfl_down_sync(FULL_MASK, row, 1);
  if (lane_id() == WARP - 1 || next != row) atomicAdd(y + row, sum);
}

// Coordinates, `lines` times 32 of them a warp; places behind the last repeat its row and add nothing. y is zero.
template <typename V, typename I>
__global__ void coo_load_balance(I nnz, int lines, const int* __restrict__ row_idx, const int* __restrict__ col_idx,
                                 const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long first = global_thread() / WARP * WARP * lines;
  if (first >= nnz) return;  // the whole warp
  const auto row_at = [=](long long k) { return load_stream(row_idx + (k < nnz ? k : nnz - 1)); };
  long long k = first + lane_id();
  int row = row_at(k);
  V sum = 0;
  for (int line = 0; line < lines; ++line, k += WARP) {
    const int next = line + 1 < lines ? row_at(k + WARP) : row;
    if (k < nnz) sum += load_stream(values + k) * load_x(x, load_stream(col_idx + k));
    if (__any_sync(FULL_MASK, next != row)) {
      add_runs(row, sum, y);
      sum = 0;
    }
    row = next;
  }
  add_runs(row, sum, y);
}

// Plain CSR: warp w takes the lines from w * lines / warps on, of `lines` in all, and begins in start_row[w]. A lane
// looks at row_ptr where it leaves its row. y is zero.
template <typename V, typename I>
__global__ void csr_load_balance(int rows, I nnz, long long lines, int warps, const int* __restrict__ start_row,
                                 const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                                 const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long warp = global_thread() / WARP;
  if (warp >= warps) return;  // the whole warp
  const int lane = lane_id();
  const long long end = (warp + 1) * lines / warps * WARP;
  long long k = warp * lines / warps * WARP + lane;
  int guess = start_row[warp];  // a row that no later entry of the warp lies before
  int row = guess;
  I row_end = row_ptr[row + 1];
  const auto follow = [&] {  // to the row of entry k; behind the last entry, to the last row
    if (k < row_end || row == rows - 1) return;
    row = max(row, guess);
    row_end = row_ptr[row + 1];
    while (row < rows - 1 && k >= row_end) row_end = row_ptr[++row + 1];
  };
  follow();
  V sum = 0;
  for (int of_sum = row; k - lane < end; k += WARP) {
    follow();
    if (__any_sync(FULL_MASK, row != of_sum)) {
      // The first lane of a run has all of it: it goes on with that, or adds it where its row is over.
#pragma unroll
      for (int offset = 1; offset < WARP; offset *= 2) {
        const V behind = __shfl_down_sync(FULL_MASK, sum, offset);
        const int row_behind = __shfl_down_sync(FULL_MASK, of_sum, offset);
        if (lane + offset < WARP && row_behind == of_sum) sum += behind;
      }
      const int before = __shfl_up_sync(FULL_MASK, of_sum, 1);
      const bool head = lane == 0 || before != of_sum;
      if (head && row != of_sum) atomicAdd(y + of_sum, sum);
      if (!head || row != of_sum) sum = 0;
      of_sum = row;
      guess = __shfl_sync(FULL_MASK, row, WARP - 1);
    }
    if (k < nnz) sum += load_stream(values + k) * load_x(x, load_stream(col_idx + k));
    if (k - lane + WARP >= end) add_runs(of_sum, sum, y);
  }
}
