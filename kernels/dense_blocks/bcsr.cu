// Block CSR and blocked COO: dense tiles one after the other, see spmvbench/formats/dense_blocks/bcsr.py.
#include "spmv.cuh"
#include "together.cuh"

// Sum over the lanes of a group at distances STEP, 2 STEP, ... below COUNT * STEP; `at` is the lane's own number among
// these. Number 0 has it. Every lane of the warp must arrive.
template <int LANES, int COUNT, int STEP, typename V>
__device__ __forceinline__ V sum_apart(int at, V sum) {
  constexpr int HALF = COUNT > 16 ? 16 : COUNT > 8 ? 8 : COUNT > 4 ? 4 : COUNT > 2 ? 2 : COUNT > 1 ? 1 : 0;
#pragma unroll
  for (int offset = HALF; offset > 0; offset /= 2) {
    const V other = __shfl_down_sync(FULL_MASK, sum, offset * STEP, LANES);
    if (at + offset < COUNT) sum += other;
  }
  return sum;
}

// How LANES lanes read tiles of R x C: a lane reads every PASSES-th value of a tile, WIDTH lanes read a tile, and TILES
// tiles are read at a time.
template <int R, int C, int LANES>
struct Lanes {
  static constexpr int AT_ONCE = LANES / C;  // lines of a tile that the lanes hold
  static constexpr int PASSES = (R + AT_ONCE - 1) / AT_ONCE;
  static constexpr int LINES = (R + PASSES - 1) / PASSES;
  static constexpr int WIDTH = LINES * C;
  static constexpr int TILES = PASSES > 1 ? 1 : LANES / WIDTH;
};

// A block row is taken by WORKERS groups of LANES lanes, which read its tiles as one stream, a value per lane; LOADS
// tiles of each lane are in flight at a time. Sums are combined by shuffles, those of several groups in shared memory.
// A thread block takes ROWS block rows.
template <typename V, typename I, int R, int C, int LANES, int WORKERS, int ROWS, bool SORTED, int LOADS,
          typename S = V>
__global__ void __launch_bounds__(LANES * WORKERS * ROWS)
    bcsr_spmv(int block_rows, int rows, int cols, const I* __restrict__ block_ptr, const int* __restrict__ block_col,
              const S* __restrict__ values, const int* __restrict__ perm, const V* __restrict__ x, V* __restrict__ y) {
  using Group = Lanes<R, C, LANES>;
  constexpr int STEP = WORKERS * Group::TILES;
  const int lane = threadIdx.x % LANES;
  const int worker = threadIdx.x / LANES % WORKERS;
  const int row_here = threadIdx.x / (LANES * WORKERS);
  const long long place = static_cast<long long>(blockIdx.x) * ROWS + row_here;
  const int tile = lane / Group::WIDTH;
  const int value = lane % Group::WIDTH;  // the lane's first in a tile
  const int q = value % C;

  V sum[Group::PASSES] = {};
  if (place < block_rows && tile < Group::TILES) {
    const I end = block_ptr[place + 1];
    for (long long first = block_ptr[place] + worker * Group::TILES + tile; first < end; first += LOADS * STEP) {
      int column[LOADS];
      S loaded[LOADS][Group::PASSES];
#pragma unroll
      for (int u = 0; u < LOADS; ++u) {
        const long long at = first + u * STEP;
        const bool inside = at < end;
        column[u] = inside ? load_stream(block_col + at) : -1;
#pragma unroll
        for (int p = 0; p < Group::PASSES; ++p) {
          const int e = p * Group::WIDTH + value;
          loaded[u][p] = inside && e < R * C ? load_stream(values + at * (R * C) + e) : S(0);
        }
      }
#pragma unroll
      for (int u = 0; u < LOADS; ++u) {
        if (column[u] < 0) continue;
        const int at = column[u] * C + q;
        // The last tile of a row may reach over the edge; its values there are zeros.
        const V factor = load_x(x, C == 1 || at < cols ? at : cols - 1);
#pragma unroll
        for (int p = 0; p < Group::PASSES; ++p) sum[p] += loaded[u][p] * factor;
      }
    }
  }

#pragma unroll
  for (int p = 0; p < Group::PASSES; ++p) {
    sum[p] = sum_apart<LANES, Group::TILES, Group::WIDTH>(tile, sum[p]);
    sum[p] = sum_apart<LANES, C, 1>(q, sum[p]);
  }
  const bool has_sums = tile == 0 && q == 0;
  if constexpr (WORKERS > 1) {
    __shared__ V partial[ROWS][WORKERS][Group::PASSES * Group::LINES];
    if (has_sums) {
#pragma unroll
      for (int p = 0; p < Group::PASSES; ++p) partial[row_here][worker][p * Group::LINES + value / C] = sum[p];
    }
    __syncthreads();
    if (has_sums && worker == 0) {
#pragma unroll
      for (int p = 0; p < Group::PASSES; ++p) {
        for (int w = 1; w < WORKERS; ++w) sum[p] += partial[row_here][w][p * Group::LINES + value / C];
      }
    }
  }
  if (!has_sums || worker > 0 || place >= block_rows) return;
  const int top = (SORTED ? perm[place] : static_cast<int>(place)) * R;
#pragma unroll
  for (int p = 0; p < Group::PASSES; ++p) {
    const int line = p * Group::LINES + value / C;
    if (line < R && top + line < rows) y[top + line] = sum[p];
  }
}

// A thread per block row of SIDE x SIDE tiles; tiles, x and y are loaded and stored as vectors. range: where the tiles
// of a block row begin and end.
template <typename V, typename I, int SIDE, typename S = V>
__global__ void bcsr_thread(int block_rows, int rows, int cols, const I* __restrict__ range,
                            const int* __restrict__ block_col, const S* __restrict__ values, const V* __restrict__ x,
                            V* __restrict__ y) {
  const long long row = global_thread();
  if (row >= block_rows) return;
  const I end = range[2 * row + 1];
  V sum[SIDE] = {};
  for (long long k = range[2 * row]; k < end; ++k) {
    S tile[SIDE * SIDE];
    load_all<SIDE * SIDE>(values + k * (SIDE * SIDE), tile);
    const int first = load_stream(block_col + k) * SIDE;
    V factor[SIDE];
    if (first + SIDE <= cols) {
      load_all<SIDE>(x + first, factor);
    } else {
      // After the last column the tile's values are zeros.
#pragma unroll
      for (int q = 0; q < SIDE; ++q) factor[q] = load_x(x, first + q < cols ? first + q : cols - 1);
    }
#pragma unroll
    for (int e = 0; e < SIDE * SIDE; ++e) sum[e / SIDE] += tile[e] * factor[e % SIDE];
  }
#pragma unroll
  for (int p = 0; p < SIDE; ++p) {
    if (row * SIDE + p < rows) y[row * SIDE + p] = sum[p];
  }
}

// Blocked COO: a warp takes WARP / R tiles at a time, ROUNDS times; lane i * (WARP / R) + j the line i of tile j, so
// that lanes of one row are neighbours. A run of them is added to y by one atomic. y is zero before.
template <typename V, typename I, int R, int C, int ROUNDS, typename S = V>
__global__ void bcoo_spmv(I tiles, int rows, int cols, const int* __restrict__ block_row,
                          const int* __restrict__ block_col, const S* __restrict__ values, const V* __restrict__ x,
                          V* __restrict__ y) {
  constexpr int AT_ONCE = WARP / R;
  const int line = lane_id() / AT_ONCE;
  const long long first = global_thread() / WARP * (AT_ONCE * ROUNDS) + lane_id() % AT_ONCE;
#pragma unroll
  for (int round = 0; round < ROUNDS; ++round) {
    const long long at = first + round * AT_ONCE;
    int row = -1;
    V sum = 0;
    if (line < R && at < tiles) {
      row = load_stream(block_row + at) * R + line;
      const int column = load_stream(block_col + at) * C;
#pragma unroll
      for (int q = 0; q < C; ++q) {
        const V factor = load_x(x, C == 1 || column + q < cols ? column + q : cols - 1);
        sum += load_stream(values + at * (R * C) + line * C + q) * factor;
      }
    }
    sum = warp_segmented_scan(row, sum);
    const int next_row = __shfl_down_sync(FULL_MASK, row, 1);
    if (row >= 0 && row < rows && (lane_id() == WARP - 1 || next_row != row)) atomicAdd(y + row, sum);
  }
}
