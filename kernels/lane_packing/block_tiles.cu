// AdELL+ with blocks: tiles of steps x 32 slots that hold SIDE x SIDE blocks, a block row a lane; see
// spmvbench/formats/lane_packing/adell_plus.py. Value v of the block in slot s is at 32 * (SIDE * SIDE * (s / 32) + v)
// + s % 32.
#include "lane_tiles.cuh"

// A lane's blocks, and what it has of its rows to y. column(step) is the block column of a slot, -1 in padding.
template <int SIDE, typename V, typename P, typename Column, typename S>
__device__ __forceinline__ void block_tile(long long tile, int rows, int cols, P begin, int steps, int block_row,
                                           unsigned adds, const S* __restrict__ values, const V* __restrict__ x,
                                           V* __restrict__ y, Column column) {
  constexpr int VALUES = SIDE * SIDE;
  V sum[SIDE] = {};
  values += static_cast<long long>(begin) * VALUES + lane_id();
#pragma unroll 2
  for (int step = 0; step < steps; ++step) {
    const int block = column(step);
    S value[VALUES];
    V factor[SIDE];
#pragma unroll
    for (int v = 0; v < VALUES; ++v)
      value[v] = load_stream(values + (static_cast<long long>(step) * VALUES + v) * WARP);
#pragma unroll
    for (int j = 0; j < SIDE; ++j) {
      const long long at = static_cast<long long>(block) * SIDE + j;
      factor[j] = block >= 0 && at < cols ? __ldg(x + at) : V(0);
    }
#pragma unroll
    for (int v = 0; v < VALUES; ++v) sum[v / SIDE] += value[v] * factor[v % SIDE];
  }
#pragma unroll
  for (int i = 0; i < SIDE; ++i) {
    const int row = block_row * SIDE + i;
    store_runs(block_row >= 0 && row < rows ? row : -1, sum[i], adds, y);
  }
}

// A warp per tile, block columns as they are.
template <typename V, typename P, int SIDE, typename S = V>
__global__ void block_lane_tiles(int tiles, int rows, int cols, const P* __restrict__ tile_ptr,
                                 const int* __restrict__ lane_row, const unsigned int* __restrict__ adds,
                                 const int* __restrict__ columns, const S* __restrict__ values, const V* __restrict__ x,
                                 V* __restrict__ y) {
  const long long thread = global_thread(), tile = thread / WARP;
  if (tile >= tiles) return;
  const P begin = tile_ptr[tile];
  const int* column = columns + begin + lane_id();
  block_tile<SIDE>(tile, rows, cols, begin, static_cast<int>((tile_ptr[tile + 1] - begin) / WARP), lane_row[thread],
                   adds[tile], values, x, y,
                   [=](int step) { return load_stream(column + static_cast<long long>(step) * WARP); });
}

// Block columns as differences in 1, 2 or 4 bytes, the same for all of a tile.
template <typename V, typename P, int SIDE, typename S = V>
__global__ void packed_block_tiles(int tiles, int rows, int cols, const P* __restrict__ tile_ptr,
                                   const int* __restrict__ lane_row, const unsigned int* __restrict__ adds,
                                   const int* __restrict__ base, const unsigned char* __restrict__ width,
                                   const long long* __restrict__ byte_ptr, const unsigned char* __restrict__ bytes,
                                   const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long thread = global_thread(), tile = thread / WARP;
  if (tile >= tiles) return;
  const P begin = tile_ptr[tile];
  const int steps = static_cast<int>((tile_ptr[tile + 1] - begin) / WARP);
  const int first = base[thread], row = lane_row[thread];
  bytes += byte_ptr[tile];
  const auto sum = [&](auto difference) {
    block_tile<SIDE>(tile, rows, cols, begin, steps, row, adds[tile], values, x, y, difference);
  };
  if (width[tile] == 1) {
    sum(Differences<unsigned char>{bytes + lane_id(), first});
  } else if (width[tile] == 2) {
    sum(Differences<unsigned short>{reinterpret_cast<const unsigned short*>(bytes) + lane_id(), first});
  } else {
    sum(Differences<int>{reinterpret_cast<const int*>(bytes) + lane_id(), first});
  }
}
