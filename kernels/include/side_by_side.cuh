// Runs of neighbouring entries, one of each lane of a warp, that the warp reads side by side: a lane alone would read one
// entry of a sector at a time, and 32 sectors a load.
#pragma once
#include "spmv.cuh"

constexpr int SIDE = 8;   // entries of a run that are read at once
constexpr int ALONE = 6;  // runs of so many are read by their lanes: neighbouring ones share sectors

// use(i, held, lane, position, entry) for the positions from .. from + SIDE of all lanes' runs, SIDE neighbouring ones by
// neighbouring lanes. begin, length: of the lane's own run. Every lane of the warp arrives.
template <typename I, typename Use>
__device__ __forceinline__ void side_by_side(I begin, int length, int from, Use use) {
  const int position = from + lane_id() % SIDE;
#pragma unroll
  for (int i = 0; i < SIDE; ++i) {
    const int lane = i * (WARP / SIDE) + lane_id() / SIDE;
    const I first = __shfl_sync(FULL_MASK, begin, lane);
    const bool held = position < __shfl_sync(FULL_MASK, length, lane);
    use(i, held, lane, position, first + static_cast<I>(position));
  }
}

// Within `side_by_side`, the column of the entry before, for all but the first of a run.
template <typename I>
__device__ __forceinline__ int column_before(const int* __restrict__ col_idx, int from, bool held, I entry,
                                             int column) {
  const int other = __shfl_up_sync(FULL_MASK, column, 1);
  return lane_id() % SIDE ? other : from && held ? col_idx[entry - 1] : 0;
}

// A warp's columns and values of SIDE positions, in shared memory.
template <typename V>
struct Side {
  int columns[WARP][SIDE + 1];
  V values[WARP][SIDE + 1];

  // The SIDE positions of the lanes' runs from `from` on; column -1 and value 0 beyond a run. Every lane of the warp arrives.
  template <typename I>
  __device__ __forceinline__ void load(I begin, int length, int from, const int* __restrict__ col_idx,
                                       const V* __restrict__ csr_values) {
    int column[SIDE];
    V value[SIDE];
    side_by_side(begin, length, from, [&](int i, bool held, int, int, I entry) {
      column[i] = held ? load_stream(col_idx + entry) : -1;
      value[i] = held ? load_stream(csr_values + entry) : V(0);
    });
    __syncwarp();
#pragma unroll
    for (int i = 0; i < SIDE; ++i) {
      const int lane = i * (WARP / SIDE) + lane_id() / SIDE;
      columns[lane][lane_id() % SIDE] = column[i];
      values[lane][lane_id() % SIDE] = value[i];
    }
    __syncwarp();
  }

  // use(position, held, column, value) for the positions from .. to of the lane's run, as `load` has them. Every lane of
  // the warp arrives, with the same `from` and `to`.
  template <typename I, typename Use>
  __device__ __forceinline__ void each(I begin, int length, int from, int to, const int* __restrict__ col_idx,
                                       const V* __restrict__ csr_values, Use use) {
    if (to <= ALONE) {
      int column[ALONE];
      V value[ALONE];
#pragma unroll
      for (int i = 0; i < ALONE; ++i) {
        const bool held = i >= from && i < to && i < length;
        column[i] = held ? col_idx[begin + static_cast<I>(i)] : -1;
        value[i] = held ? csr_values[begin + static_cast<I>(i)] : V(0);
      }
#pragma unroll
      for (int i = 0; i < ALONE; ++i) {
        if (i >= from && i < to) use(i, i < length, column[i], value[i]);
      }
      return;
    }
    for (int first = from; first < to; first += SIDE) {
      load(begin, length, first, col_idx, csr_values);
#pragma unroll
      for (int i = 0; i < SIDE; ++i) {
        if (first + i < to) use(first + i, first + i < length, columns[lane_id()][i], values[lane_id()][i]);
      }
    }
  }
};

// The entries of a warp's runs, one run a lane, of which each lane takes the next one when it needs it.
template <typename V, typename I>
struct Walk {
  Side<V>& side;
  const int* __restrict__ col_idx;
  const V* __restrict__ values;
  I entry, end;
  int at = 0, read = 0;  // of the entries read, that which comes next

  __device__ __forceinline__ Walk(Side<V>& side, I begin, I end, const int* __restrict__ col_idx,
                                  const V* __restrict__ values)
      : side(side), col_idx(col_idx), values(values), entry(begin), end(end) {}

  // Whether an entry comes next. Every lane of the warp arrives.
  __device__ __forceinline__ bool any() {
    if (__any_sync(FULL_MASK, at == read && entry + static_cast<I>(read) < end)) {
      entry += static_cast<I>(at);
      at = 0;
      read = end - entry < SIDE ? static_cast<int>(end - entry) : SIDE;
      side.load(entry, read, 0, col_idx, values);
    }
    return at < read;
  }

  __device__ __forceinline__ int column() const { return side.columns[lane_id()][at]; }
  __device__ __forceinline__ V value() const { return side.values[lane_id()][at]; }
};
