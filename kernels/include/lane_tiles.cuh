// What warps do with tiles of steps x 32 slots in which every lane has one row: the sum of a lane, the sums of rows that
// lanes share, and columns as differences; see spmvbench/formats/lane_packing.
#pragma once
#include "sell.cuh"

// BATCH slots of a lane are loaded before the first is used; 0: as many as the tile has steps for, up to 8.
template <int BATCH, typename V, typename Column, typename S>
__device__ __forceinline__ V lane_sum(int steps, const S* __restrict__ values, const V* __restrict__ x, Column column) {
  const auto at = [](int step) { return static_cast<long long>(step) * WARP; };
  if (BATCH > 0) return slot_sum<1, BATCH ? BATCH : 1>(0, steps, values, x, at, column);
  if (steps >= 8) return slot_sum<1, 8>(0, steps, values, x, at, column);
  if (steps >= 4) return slot_sum<1, 4>(0, steps, values, x, at, column);
  if (steps >= 2) return slot_sum<1, 2>(0, steps, values, x, at, column);
  return slot_sum<1, 1>(0, steps, values, x, at, column);
}

// What the lanes of a tile have of their rows, to y. `row` is a lane's, or -1 if it has none. Bit l of `adds` says
// that the row of the run that ends at lane l has other runs too: each is added to y.
template <typename V>
__device__ __forceinline__ void store_runs(int row, V sum, unsigned int adds, V* __restrict__ y) {
  const int lane = lane_id();
  // A run is what neighbouring lanes have of a row. A row may have several in a tile, so rows are no keys of a scan.
  const int before = __shfl_up_sync(FULL_MASK, row, 1);
  const unsigned int starts = __ballot_sync(FULL_MASK, lane == 0 || row < 0 || row != before);
  if (starts != FULL_MASK) {
    const int in_run = lane - (WARP - 1 - __clz(static_cast<int>(starts & ((2u << lane) - 1))));
    for (int offset = 1; offset < WARP; offset *= 2) {
      const V sum_before = __shfl_up_sync(FULL_MASK, sum, offset);
      if (in_run >= offset) sum += sum_before;
    }
  }
  if (row < 0 || (lane < WARP - 1 && !(starts >> (lane + 1) & 1))) return;
  if (adds >> lane & 1) {
    atomicAdd(y + row, sum);
  } else {
    y[row] = sum;
  }
}

// A lane's columns: the first as it is, the others as differences of type D to the one before. 0 is padding.
template <typename D>
struct Differences {
  const D* __restrict__ differences;  // of the lane's second step, 32 apart
  int column;

  __device__ __forceinline__ int operator()(int step) {
    if (step == 0) return column;
    const int further = static_cast<int>(__ldcs(differences + static_cast<long long>(step - 1) * WARP));
    column += further;
    return further ? column : -1;
  }
};
