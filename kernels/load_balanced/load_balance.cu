// Equal shares of the entries for every warp, 32 neighbouring ones at a time (Anzt et al., TOPC 7(1) 2020): a lane
// keeps its sum for as long as its row stays the same from line to line, and the warp adds sums up only where one does
// not.
#include "carry.cuh"
#include "spmv.cuh"

// Adds to y, one atomic a run, the sums of lanes with equal rows, which are neighbours. Every lane arrives.
template <typename V>
__device__ __forceinline__ void add_runs(int row, V sum, V* __restrict__ y) {
  sum = warp_segmented_scan(row, sum);
  const int next = __shfl_down_sync(FULL_MASK, row, 1);
  if (lane_id() == WARP - 1 || next != row) atomicAdd(y + row, sum);
}

// Coordinates, `lines` times 32 of them a warp; places after the last repeat its row and add nothing. y is zero.
template <typename V, typename I, typename S = V>
__global__ void coo_load_balance(I nnz, int lines, const int* __restrict__ row_idx, const int* __restrict__ col_idx,
                                 const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long first = global_thread() / WARP * WARP * lines;
  if (first >= nnz) return;  // the whole warp
  const auto row_at = [=](long long k) { return load_stream(row_idx + (k < nnz ? k : nnz - 1)); };
  long long k = first + lane_id();
  int row = row_at(k);
  V sum = 0;
  wait_for_previous();
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

// Plain CSR: every warp takes `each` lines, the first `longer` warps one more, and warp w begins in start_row[w]. BATCH
// lines at a time, whose loads are all in flight before the first is used. The lanes look at neighbouring rows' ends
// together: a bit each says where lines are scanned, and the lane that looked at an end takes the row's sum. Rows in
// which warps begin are added to y, which is zero there; the others are stored.
template <typename V, typename I, int BLOCK, int BATCH, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    csr_load_balance(int rows, I nnz, long long each, int longer, int warps, const int* __restrict__ start_row,
                     const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const S* __restrict__ values,
                     const V* __restrict__ x, V* __restrict__ y) {
  __shared__ V block_sums[BLOCK / WARP][BATCH * WARP];
  __shared__ unsigned block_ends[BLOCK / WARP][BATCH];
  const long long warp = global_thread() / WARP;
  if (warp >= warps) return;  // the whole warp
  const int lane = lane_id();
  V* sums = block_sums[threadIdx.x / WARP];
  unsigned* ends = block_ends[threadIdx.x / WARP];
  const int start = start_row[warp];
  const long long begin = (warp * each + min(warp, static_cast<long long>(longer))) * WARP;
  const long long share = (each + (warp < longer)) * WARP;
  const int entries = static_cast<int>(begin + share > nnz ? nnz - begin : share);
  col_idx += begin;
  values += begin;
  int row = warp > 0 ? start : 0;  // the first whose end has not been met: there may be empty ones before entry 0
  V carry = 0;                     // what is known of it, the same in every lane
  V run = 0;                       // and each lane's sum of lines in which no row ended
#pragma unroll 1
  for (int done = 0; done < entries; done += BATCH * WARP) {
    const int count = min(entries - done, BATCH * WARP);
    int columns[BATCH];
    V products[BATCH];
    V gathered[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int k = done + min(i * WARP + lane, count - 1);
      columns[i] = load_stream(col_idx + k);
      products[i] = load_stream(values + k);
    }
    // The end of the lane's row of those from r on, counted in the batch; beyond `count` where it is after it.
    const auto end_of = [=](int r) {
      const I end = row_ptr[min(r + lane, rows - 1) + 1];
      return r + lane < rows ? static_cast<int>(min(end - static_cast<I>(begin + done), static_cast<I>(count + 1)))
                             : count + 1;
    };
    int row_end = end_of(row);
#pragma unroll
    for (int i = 0; i < BATCH; ++i) gathered[i] = load_x(x, columns[i]);
    if (lane < BATCH) ends[lane] = 0;
    __syncwarp();
    if (done == 0) wait_for_previous();  // entries are in flight; rows are stored from here on
    // Whether the lane's row has entries; `before` is the end of the row before lane 0's.
    const auto has_any = [=](int row_end, int before) {
      const int end_before = __shfl_up_sync(FULL_MASK, row_end, 1);
      return row_end > (lane > 0 ? end_before : before);
    };
    int ended = 0;  // rows that end in the batch
    for (int before = 0, here = WARP; here == WARP; ended += here) {
      if (ended > 0) row_end = end_of(row + ended);
      if (has_any(row_end, before) && row_end <= count)
        atomicOr(ends + (row_end - 1) / WARP, 1u << (row_end - 1) % WARP);
      before = __shfl_sync(FULL_MASK, row_end, WARP - 1);
      here = __popc(__ballot_sync(FULL_MASK, row_end <= count));
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i) products[i] = i * WARP + lane < count ? products[i] * gathered[i] : V(0);
    if (ended == 0) {
#pragma unroll
      for (int i = 0; i < BATCH; ++i) run += products[i];
      continue;
    }
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) run += __shfl_xor_sync(FULL_MASK, run, offset);
    carry += run;
    run = 0;
    __syncwarp();
    const unsigned before_lane = (1u << lane) - 1;
    unsigned line_ends[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      line_ends[i] = ends[i];
      const int reach = lane - (WARP - __clz(static_cast<int>(line_ends[i] & before_lane)));
#pragma unroll
      for (int offset = 1; offset < WARP; offset *= 2) {
        const V earlier = __shfl_up_sync(FULL_MASK, products[i], offset);
        if (offset <= reach) products[i] += earlier;
      }
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      if (line_ends[i] >> lane & 1) sums[i * WARP + lane] = products[i] + (line_ends[i] & before_lane ? V(0) : carry);
      const V open = __shfl_sync(FULL_MASK, products[i], WARP - 1);
      carry = (line_ends[i] ? V(0) : carry) + (line_ends[i] >> (WARP - 1) ? V(0) : open);
    }
    __syncwarp();
    for (int passed = 0, before = 0; passed < ended; passed += WARP) {
      if (ended >= WARP) row_end = end_of(row + passed);
      const bool any = has_any(row_end, before);
      before = __shfl_sync(FULL_MASK, row_end, WARP - 1);
      if (passed + lane >= ended) continue;
      const int r = row + passed + lane;
      const V sum = any ? sums[row_end - 1] : V(0);
      if (r != start) {
        y[r] = sum;
      } else if (any) {
        atomicAdd(y + r, sum);
      }
    }
    row += ended;
    __syncwarp();
  }
  run = group_sum<WARP>(run);
  if (lane == 0 && row < rows && row_ptr[row] < begin + entries) atomicAdd(y + row, carry + run);
}
