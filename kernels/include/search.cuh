// Searches in sorted arrays: which row owns an entry, and where a row's columns begin.
#pragma once
#include "spmv.cuh"

// The first of low .. high after `key` in ascending order; high where none is.
template <typename T, typename I>
__device__ __forceinline__ I first_behind(const T* __restrict__ ascending, I low, I high, T key) {
  while (low < high) {
    const I middle = low + (high - low) / 2;
    if (ascending[middle] <= key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The first of low .. high of which is(at) holds, as for all behind it, or high, by a warp, 32 places at once; every lane
// arrives.
template <typename I, typename Is>
__device__ __forceinline__ I first_of_warp(I low, I high, Is is) {
  while (low < high) {
    const I step = (high - low + (WARP - 1)) / WARP;
    const long long at = static_cast<long long>(low) + (lane_id() + 1) * step - 1;
    const int before = __popc(__ballot_sync(FULL_MASK, at < high && !is(at)));
    const long long end = static_cast<long long>(low) + (before + 1) * step - 1;
    low += before * step;
    high = end < high ? static_cast<I>(end) : high;
  }
  return low;
}

// As `first_behind` by a warp, for one key of all its lanes.
template <typename T, typename I>
__device__ __forceinline__ I first_behind_of_warp(const T* __restrict__ ascending, I low, I high, T key) {
  return first_of_warp(low, high, [=](long long at) { return ascending[at] > key; });
}

// The row that owns `entry`, for entries that ascend: `row` owned one before, and is mostly near.
template <typename I>
__device__ __forceinline__ int row_from(const I* __restrict__ row_ptr, int row, int rows, I entry) {
  int low = row + 1;
  int step = 1;
  while (step <= rows - low && row_ptr[low + step - 1] <= entry) {
    low += step;
    step *= 2;
  }
  return first_behind(row_ptr, low, step <= rows - low ? low + step - 1 : rows, entry) - 1;
}

// The first of the entries begin .. end of a row whose column is not below `column`; end where none is. The entry with
// this rank in the row is tried first: rows are often like their neighbours.
template <typename I>
__device__ __forceinline__ I entry_from(const int* __restrict__ col_idx, I begin, I end, int column, I rank) {
  if (rank <= end - begin) {
    const I at = begin + rank;
    if ((at == begin || col_idx[at - 1] < column) && (at == end || col_idx[at] >= column)) return at;
  }
  while (begin < end) {
    const I middle = begin + (end - begin) / 2;
    if (col_idx[middle] < column) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}
