// CSR to blocks of sorted columns on the device, a warp per block: what spmvbench/formats/cache_blocking/fastload.py
// computes by arrays on the host.
#include "spmv.cuh"

// levels: (5, count), where blocks begin, first column, entries above, height, place of the first entry. order: places
// of entries in CSR by column; not ORDERED: columns are there in order. source: (nnz,), of each entry of the blocks.
template <typename I, bool ORDERED>
__global__ void fastload_blocks(int blocks, int count, int cols, int limit, const long long* __restrict__ levels,
                                const I* __restrict__ col_ptr, const int* __restrict__ col_order,
                                const long long* __restrict__ order, I* __restrict__ block_ptr,
                                int* __restrict__ block_col, int* __restrict__ block_length,
                                int* __restrict__ block_height, I* __restrict__ source) {
  const long long block = global_thread() / WARP;
  if (block >= blocks) return;  // the whole warp
  int level = 0;                // the last that begins at or before the block
  for (int high = count; high - level > 1;) {
    const int middle = (level + high) / 2;
    if (levels[middle] <= block) {
      level = middle;
    } else {
      high = middle;
    }
  }
  const long long of_level = block - levels[level];
  const long long first = levels[count + level];
  const long long above = levels[2 * count + level];
  const long long level_height = levels[3 * count + level];
  const long long pieces = (level_height + limit - 1) / limit;
  const long long strip = of_level / pieces;
  const long long done = of_level % pieces * limit;
  const int col = static_cast<int>(first + strip * WARP);
  const int length = cols - col < WARP ? cols - col : WARP;
  const int height = static_cast<int>(level_height - done < limit ? level_height - done : limit);
  const long long begin = levels[4 * count + level] + strip * WARP * level_height + done * length;
  const int lane = lane_id();
  if (lane == 0) {
    block_ptr[block] = static_cast<I>(begin);
    block_col[block] = col;
    block_length[block] = length;
    block_height[block] = height;
    if (block == blocks - 1) block_ptr[blocks] = static_cast<I>(begin + static_cast<long long>(length) * height);
  }
  if (lane >= length) return;
  const long long from = col_ptr[col_order[col + lane]] + above + done;
  for (int step = 0; step < height; ++step) {
    source[begin + static_cast<long long>(step) * length + lane] =
        static_cast<I>(ORDERED ? order[from + step] : from + step);
  }
}

// What the rows of each block of height 1 are: 0 fewer than 32, 1 all the same, 2 any other.
template <typename I>
__global__ void fastload_formats(int blocks, const I* __restrict__ block_ptr, const int* __restrict__ row_idx,
                                 unsigned char* __restrict__ block_format) {
  const long long block = global_thread() / WARP;
  if (block >= blocks) return;  // the whole warp
  const I begin = block_ptr[block];
  const bool full = block_ptr[block + 1] - begin == WARP;
  const int row = full ? row_idx[begin + lane_id()] : 0;
  const bool same = __all_sync(FULL_MASK, row == __shfl_sync(FULL_MASK, row, 0));
  if (lane_id() == 0) block_format[block] = !full ? 0 : same ? 1 : 2;
}
