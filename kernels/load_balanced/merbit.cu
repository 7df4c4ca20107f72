// The merge of row ends and entries as bits (MERBIT, Zhang et al. 2026): every lane's share of it is a bit field, found
// once; the product searches nothing.
#include "merbit.cuh"
#include "shares.cuh"
#include "spmv.cuh"

// Open sums of lanes are added by atomics in shared memory. sums: of the tile's rows. first: the row of the lane's
// first end, or -1; at: the row that is open after it. Every lane of the warp must call it.
template <typename V>
__device__ __forceinline__ void add_open(V* sums, int first, V first_sum, int at, V open) {
  const int lane = lane_id();
  const unsigned ending = __ballot_sync(FULL_MASK, first >= 0);
  if (first >= 0) atomicAdd(sums + first, first_sum);
  // To a lane's open row belongs what the lanes after it have, up to the first in which a row ends.
  const unsigned behind = lane < WARP - 1 ? ending >> (lane + 1) : 0;
  const int reach = behind ? __ffs(static_cast<int>(behind)) - 1 : WARP - 1 - lane;
#pragma unroll
  for (int offset = 1; offset < WARP; offset *= 2) {
    const V after = __shfl_down_sync(FULL_MASK, open, offset);
    if (offset <= reach) open += after;
  }
  if (lane == 0 || first >= 0) atomicAdd(sums + at, open);
}

// A tile of 32 * SIGMA steps per warp, BATCH entries of a lane in flight; `steps` in all. Rows that end in a block are
// summed in shared memory first. y is zero at the rows that blocks share. Dynamic shared memory: BLOCK * SIGMA + 1
// values, the products of the block's entries and after them its part of y. Registers for 1,024 threads per
// multiprocessor keep all loads of a lane in flight; for more threads the compiler has some wait for others (582 in
// place of 551 GFLOPS on an H200, fem:60:3).
template <typename V, int BLOCK, int SIGMA, int BATCH, typename S = V>
__global__ void __launch_bounds__(BLOCK, 1024 / BLOCK)
    merbit(int rows, long long steps, int tiles, const int* __restrict__ tile_entry,
           const unsigned* __restrict__ tile_row, const typename LaneBits<SIGMA>::Word* __restrict__ lane_bits,
           const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  constexpr int WARPS = BLOCK / WARP;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  const int first_tile = blockIdx.x * WARPS;
  const int last_tile = min(first_tile + WARPS, tiles);
  const int tile = min(first_tile + static_cast<int>(threadIdx.x) / WARP, tiles - 1);
  const bool mine = tile == first_tile + static_cast<int>(threadIdx.x) / WARP;  // after the last tile there is none
  const int lane = lane_id();
  const long long first_step = (static_cast<long long>(tile) * WARP + lane) * SIGMA;
  const LaneBits<SIGMA> bits(first_step < steps ? load_stream(lane_bits + first_step / SIGMA) : 0);
  const int entry = tile_entry[tile];
  const int count = mine ? tile_entry[tile + 1] - entry : 0;
  const unsigned word = tile_row[tile];
  const int block_entry = tile_entry[first_tile];
  const int block_row = tile_row[first_tile] & ~NO_END;
  const int open_row = (tile_row[last_tile] & ~NO_END) - block_row;  // rows before it end in the block
  const int row = static_cast<int>(word & ~NO_END) - block_row;
  V* products = reinterpret_cast<V*>(dynamic_shared);
  V* sums = products + (tile_entry[last_tile] - block_entry);
  for (int i = threadIdx.x; i <= open_row; i += BLOCK) sums[i] = V(0);

  V* own = products + (entry - block_entry);
  V sum = 0;  // of a tile in which no row ends
#pragma unroll 1
  for (int done = 0; done < count; done += WARP * BATCH) {
    const int left = min(count - done, WARP * BATCH);
    for_products<WARP, BATCH>(static_cast<long long>(entry) + done, left, col_idx, values, x, [&](int k, V product) {
      if (word & NO_END) {
        sum += k < left ? product : V(0);
      } else if (k < left) {
        own[done + k] = product;
      }
    });
  }
  __syncthreads();
  if (mine && word & NO_END) {
    sum = group_sum<WARP>(sum);
    if (lane == 0) atomicAdd(sums + row, sum);
  } else if (mine) {
    // The lane's first row may have begun in lanes before; it is stored separately. No branches: lanes end rows at any
    // step.
    const int taken = static_cast<int>(steps - first_step < SIGMA ? steps - first_step : SIGMA);
    int k = bits.entries();
    int at = row + bits.rows();
    V first_sum = 0;
    V open = 0;
    bool any = false;
#pragma unroll
    for (int step = 0; step < SIGMA; ++step) {
      const bool end = bits.ends(step);
      const bool takes = !end && step < taken;
      if (takes) open += own[k];
      if (end && any) sums[at] = open;
      if (end && !any) first_sum = open;
      if (end) open = 0;
      any |= end;
      k += takes;
      at += end;
    }
    const int first = any ? row + bits.rows() : -1;
    add_open(sums, first, first_sum, at, open);
  }
  __syncthreads();
  for (int i = threadIdx.x; i <= open_row && block_row + i < rows; i += BLOCK) {
    if (i == 0 || i == open_row) {
      atomicAdd(y + block_row + i, sums[i]);
    } else {
      y[block_row + i] = sums[i];
    }
  }
}
