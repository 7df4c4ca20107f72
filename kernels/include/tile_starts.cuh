// Tiles of equally many entries whose first rows every product searches.
#pragma once
#include "spmv.cuh"

// The row of the first entry of each of `tiles` tiles, `rows` behind them; y = 0 in these rows, in empty ones and in the
// last. A thread a row: all row pointers are read once, neighbouring ones by neighbouring threads.
template <typename V, typename I>
__global__ void tile_starts(int rows, int tile, int tiles, const I* __restrict__ row_ptr, int* __restrict__ tile_row,
                            V* __restrict__ y) {
  const long long row = global_thread();
  long long begin = 0, end = 0;  // the tiles whose first entry the row has
  if (row < rows) {
    const I first = row_ptr[row], behind = row_ptr[row + 1];
    begin = (static_cast<long long>(first) + tile - 1) / tile;
    end = (static_cast<long long>(behind) + tile - 1) / tile;
    if (begin < end || first == behind || row == rows - 1) y[row] = V(0);
  }
  if (row == 0) tile_row[tiles] = rows;
  // A long row's tiles are the whole warp's work.
  for (unsigned owners = __ballot_sync(FULL_MASK, begin < end); owners; owners &= owners - 1) {
    const int lane = __ffs(static_cast<int>(owners)) - 1;
    const long long first = __shfl_sync(FULL_MASK, begin, lane);
    const long long behind = __shfl_sync(FULL_MASK, end, lane);
    for (long long t = first + lane_id(); t < behind; t += WARP) tile_row[t] = static_cast<int>(row - lane_id() + lane);
  }
}
