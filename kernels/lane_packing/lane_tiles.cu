// Tiles of a warp: steps of 32 slots, a row a lane, neighbouring lanes may share one; see
// spmvbench/formats/lane_packing/tiles.py. Step i of a tile's lane is at tile_ptr[tile] + 32 * i + lane.
#include "lane_tiles.cuh"

// A warp per tile. LANES neighbouring lanes share a place of lane_row.
template <typename V, typename P, int LANES, int BATCH, typename S = V>
__global__ void lane_tiles(int tiles, const P* __restrict__ tile_ptr, const int* __restrict__ lane_row,
                           const unsigned int* __restrict__ adds, const int* __restrict__ columns,
                           const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
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

template <typename D, int BATCH, typename V, typename S>
__device__ __forceinline__ V packed_sum(const unsigned char* __restrict__ bytes, int first, int steps,
                                        const S* __restrict__ values, const V* __restrict__ x) {
  return lane_sum<BATCH>(steps, values, x, Differences<D>{reinterpret_cast<const D*>(bytes) + lane_id(), first});
}

// CoAdELL: lane_tiles whose columns are differences in 1, 2 or 4 bytes, the same for all of a tile.
template <typename V, typename P, int BATCH, typename S = V>
__global__ void packed_lane_tiles(int tiles, const P* __restrict__ tile_ptr, const int* __restrict__ lane_row,
                                  const unsigned int* __restrict__ adds, const int* __restrict__ base,
                                  const unsigned char* __restrict__ width, const long long* __restrict__ byte_ptr,
                                  const unsigned char* __restrict__ bytes, const S* __restrict__ values,
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
