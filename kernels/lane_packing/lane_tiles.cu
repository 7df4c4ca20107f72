// Tiles of a warp: steps of 32 slots, a row a lane, neighbouring lanes may share one; see
// spmvbench/formats/lane_packing/tiles.py. Step i of a tile's lane is at tile_ptr[tile] + 32 * i + lane.
#include "carry.cuh"
#include "sell.cuh"

// BATCH slots of a lane are loaded before the first is used; 0: as many as the tile has steps for, up to 8.
template <int BATCH, typename V, typename Column>
__device__ __forceinline__ V lane_sum(int steps, const V* __restrict__ values, const V* __restrict__ x, Column column) {
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

// A warp per tile. LANES neighbouring lanes share a place of lane_row.
template <typename V, typename P, int LANES, int BATCH>
__global__ void lane_tiles(int tiles, const P* __restrict__ tile_ptr, const int* __restrict__ lane_row,
                           const unsigned int* __restrict__ adds, const int* __restrict__ columns,
                           const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long thread = global_thread(), tile = thread / WARP;
  if (tile >= tiles) return;
  const int lane = lane_id();
  const P begin = tile_ptr[tile];
  const int steps = static_cast<int>((tile_ptr[tile + 1] - begin) / WARP);
  const int row = load_stream(lane_row + thread / LANES);
  const int* column = columns + begin + lane;
  const V sum = lane_sum<BATCH>(steps, values + begin + lane, x,
                                [=](int step) { return load_stream(column + static_cast<long long>(step) * WARP); });
  store_runs(row, sum, adds[tile], y);
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

template <typename D, int BATCH, typename V>
__device__ __forceinline__ V packed_sum(const unsigned char* __restrict__ bytes, int first, int steps,
                                        const V* __restrict__ values, const V* __restrict__ x) {
  return lane_sum<BATCH>(steps, values, x, Differences<D>{reinterpret_cast<const D*>(bytes) + lane_id(), first});
}

// CoAdELL: lane_tiles whose columns are differences in 1, 2 or 4 bytes, the same for all of a tile.
template <typename V, typename P, int BATCH>
__global__ void packed_lane_tiles(int tiles, const P* __restrict__ tile_ptr, const int* __restrict__ lane_row,
                                  const unsigned int* __restrict__ adds, const int* __restrict__ base,
                                  const unsigned char* __restrict__ width, const long long* __restrict__ byte_ptr,
                                  const unsigned char* __restrict__ bytes, const V* __restrict__ values,
                                  const V* __restrict__ x, V* __restrict__ y) {
  const long long thread = global_thread(), tile = thread / WARP;
  if (tile >= tiles) return;
  const P begin = tile_ptr[tile];
  const int steps = static_cast<int>((tile_ptr[tile + 1] - begin) / WARP);
  const int row = load_stream(lane_row + thread);
  const int first = load_stream(base + thread);
  values += begin + lane_id();
  bytes += byte_ptr[tile];
  V sum;
  if (width[tile] == 1) {
    sum = packed_sum<unsigned char, BATCH>(bytes, first, steps, values, x);
  } else if (width[tile] == 2) {
    sum = packed_sum<unsigned short, BATCH>(bytes, first, steps, values, x);
  } else {
    sum = packed_sum<int, BATCH>(bytes, first, steps, values, x);
  }
  store_runs(row, sum, adds[tile], y);
}
