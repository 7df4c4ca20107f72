// FastLoad (Hu et al. 2024): blocks of up to 32 neighbouring columns, sorted by length, that all have block_height more
// entries. A lane has one column of a block, so that entries and x are read in order; products go to y by atomics.
#include "spmv.cuh"

// What a lane has of one block: its entries begin at `at`, one every `length`, and `height` is 0 outside of the block.
template <typename V, typename I>
struct Column {
  I at;
  int length;
  int height;
  V factor;
};

// The lane's column of a block; none (height 0) in blocks from `blocks` on, of which there is at least one. FLAT: every
// block is one entry high. No load waits for a branch, or for another but those of the table.
template <typename V, typename I, bool FLAT>
__device__ __forceinline__ Column<V, I> column_of(long long block, int blocks, const I* __restrict__ block_ptr,
                                                  const int* __restrict__ block_col,
                                                  const int* __restrict__ block_length,
                                                  const int* __restrict__ block_height, const V* __restrict__ x) {
  const int lane = lane_id();
  const int read = static_cast<int>(block < blocks ? block : blocks - 1);
  const int length = block_length[read];
  const int height = FLAT ? 1 : block_height[read];
  const bool mine = block < blocks && lane < length;
  const V factor = load_x(x, block_col[read] + (mine ? lane : 0));
  return {block_ptr[read] + lane, length, mine ? height : 0, factor};
}

// A warp takes BATCH blocks at a time and STEPS entries of each column. KEEP: products stay at their entries' places in
// `out`, (nnz,), and rows are not read; else they are added to `out`, y.
template <typename V, typename I, int BATCH, int STEPS, bool FLAT, bool KEEP, typename S = V>
__global__ void fastload(int blocks, const I* __restrict__ block_ptr, const int* __restrict__ block_col,
                         const int* __restrict__ block_length, const int* __restrict__ block_height,
                         const int* __restrict__ row_idx, const S* __restrict__ values, const V* __restrict__ x,
                         V* __restrict__ out) {
  const long long first = global_thread() / WARP * BATCH;
  Column<V, I> column[BATCH];
  int highest = 0;
#pragma unroll
  for (int u = 0; u < BATCH; ++u) {
    column[u] = column_of<V, I, FLAT>(first + u, blocks, block_ptr, block_col, block_length, block_height, x);
    if (column[u].height > highest) highest = column[u].height;
  }
  if (FLAT) highest = 1;
  for (int done = 0; done < highest; done += STEPS) {
    int rows[BATCH][STEPS];
    V products[BATCH][STEPS];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
#pragma unroll
      for (int s = 0; s < STEPS; ++s) {
        if (done + s < column[u].height) {
          const I at = column[u].at + static_cast<I>(done + s) * column[u].length;
          if (!KEEP) rows[u][s] = load_stream(row_idx + at);
          products[u][s] = load_stream(values + at) * column[u].factor;
        }
      }
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
#pragma unroll
      for (int s = 0; s < STEPS; ++s) {
        if (done + s >= column[u].height) continue;
        if (KEEP) {
          out[column[u].at + static_cast<I>(done + s) * column[u].length] = products[u][s];
        } else {
          atomicAdd(out + rows[u][s], products[u][s]);
        }
      }
    }
  }
}

// Blocks of height 1, by what block_format says of the rows in them: 0 is a short block, whose products are added one
// by one; 1 has one row, which gets one sum; 2 has runs of equal rows, which get a sum each.
template <typename V, typename I, int BATCH, typename S = V>
__global__ void fastload_optimized(int blocks, const I* __restrict__ block_ptr, const int* __restrict__ block_col,
                                   const int* __restrict__ block_length, const int* __restrict__ block_height,
                                   const unsigned char* __restrict__ block_format, const int* __restrict__ row_idx,
                                   const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long first = global_thread() / WARP * BATCH;
  const int lane = lane_id();
  int rows[BATCH];
  V products[BATCH];
  int formats[BATCH];
#pragma unroll
  for (int u = 0; u < BATCH; ++u) {
    const auto column = column_of<V, I, true>(first + u, blocks, block_ptr, block_col, block_length, block_height, x);
    formats[u] = first + u < blocks ? block_format[first + u] : 0;
    rows[u] = -1;
    products[u] = 0;
    if (column.height) {
      rows[u] = load_stream(row_idx + column.at);
      products[u] = load_stream(values + column.at) * column.factor;
    }
  }
#pragma unroll
  for (int u = 0; u < BATCH; ++u) {
    bool head = rows[u] >= 0;
    if (formats[u] == 1) {
      products[u] = group_sum<WARP>(products[u]);
      head = lane == 0;
    } else if (formats[u] == 2) {
      const int before = __shfl_up_sync(FULL_MASK, rows[u], 1);
      head = lane == 0 || before != rows[u];
      // A head takes the lanes up to the next one.
      const unsigned behind = __ballot_sync(FULL_MASK, head) >> lane >> 1;
      const int reach = behind ? __ffs(static_cast<int>(behind)) - 1 : WARP - 1 - lane;
      for (int offset = 1; __any_sync(FULL_MASK, offset <= reach); offset *= 2) {
        const V next = __shfl_down_sync(FULL_MASK, products[u], offset);
        if (offset <= reach) products[u] += next;
      }
    }
    if (head) atomicAdd(y + rows[u], products[u]);
  }
}

// The sums of a second phase, in which the "columns" are rows: a lane adds up its row's products in the block.
template <typename V, typename I, int STEPS>
__global__ void fastload_sums(int blocks, const I* __restrict__ block_ptr, const int* __restrict__ block_row,
                              const int* __restrict__ block_length, const int* __restrict__ block_height,
                              const int* __restrict__ row_order, const V* __restrict__ products, V* __restrict__ y) {
  const long long block = global_thread() / WARP;
  const int lane = lane_id();
  if (block >= blocks || lane >= block_length[block]) return;
  const int length = block_length[block];
  const int height = block_height[block];
  const V* product = products + block_ptr[block] + lane;
  V sum = 0;
#pragma unroll STEPS
  for (int step = 0; step < height; ++step) sum += load_stream(product + static_cast<long long>(step) * length);
  atomicAdd(y + row_order[block_row[block] + lane], sum);
}
