// Merge-based CSR (Merrill & Garland, SC'16): the list of row ends and the list of entries are merged, and every thread
// takes the same number of the merge's steps, each of which takes an entry or finishes a row.
#include "carry.cuh"
#include "spmv.cuh"

// How many of `rows` row ends the first `diagonal` steps take; entries are `nnz`. An end comes before the entry of its
// number. end(i) is the end of row i.
template <typename D, typename End>
__device__ __forceinline__ int merge_path_search(D diagonal, int rows, D nnz, End end) {
  int low = diagonal > nnz ? static_cast<int>(diagonal - nnz) : 0;
  int high = diagonal < rows ? static_cast<int>(diagonal) : rows;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (end(middle) < diagonal - middle) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The row in which each tile of `tile` steps begins, for tiles + 1 tiles: the paper's first kernel.
template <typename I>
__global__ void merge_search(int rows, I nnz, int tile, int tiles, const I* __restrict__ row_ptr,
                             int* __restrict__ tile_row) {
  const long long t = global_thread();
  if (t > tiles) return;
  const long long steps = rows + static_cast<long long>(nnz);
  const long long diagonal = t * tile < steps ? t * tile : steps;
  tile_row[t] = merge_path_search<long long>(diagonal, rows, nnz, [=](int i) { return row_ptr[i + 1]; });
}

// The tile of one block: rows that end in it and entries that lie in it, in shared memory. `products` are the tile's
// entries times x, `row_end` counts entries from the tile's first.
template <typename V>
struct Tile {
  int rows, entries;
  const V* products;
  const int* row_end;
};

// Sums a tile's rows. Those that lie within a thread are stored to y[row]; a thread's first row comes with what threads
// before it have of it: first(row, sum). The result, in the block's last thread, is the open sum behind the last row.
// `diagonal` is the thread's first step and `start` its first row. Every thread arrives.
template <typename V, int BLOCK, int ITEMS, typename First>
__device__ __forceinline__ V sum_rows(const Tile<V>& tile, int diagonal, int start, V* __restrict__ y, First first) {
  constexpr int WARPS = BLOCK / WARP;
  __shared__ V warp_open[WARPS];
  __shared__ bool warp_ends[WARPS];

  const int steps = tile.rows + tile.entries;
  int row = start;
  int entry = diagonal - start;
  int end = row < tile.rows ? tile.row_end[row] : steps;
  int first_row = -1;  // the thread's first row may have begun in another thread
  V first_sum = 0;
  V open = 0;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (diagonal + i >= steps) break;
    if (entry < end) {
      open += tile.products[entry++];
    } else {
      if (first_row < 0) {
        first_row = row;
        first_sum = open;
      } else {
        y[row] = open;
      }
      open = 0;
      ++row;
      end = row < tile.rows ? tile.row_end[row] : steps;
    }
  }

  // What is open before each thread: sums back to the last thread that ended a row.
  const int lane = lane_id();
  const int warp = threadIdx.x / WARP;
  const unsigned ends = __ballot_sync(FULL_MASK, first_row >= 0);
  const unsigned ends_here = ends & (FULL_MASK >> (WARP - 1 - lane));  // this lane's and before
  const int head = ends_here ? WARP - 1 - __clz(ends_here) : 0;
#pragma unroll
  for (int offset = 1; offset < WARP; offset *= 2) {
    const V before = __shfl_up_sync(FULL_MASK, open, offset);
    if (lane - offset >= head) open += before;
  }
  V carry = __shfl_up_sync(FULL_MASK, open, 1);
  if (lane == 0) carry = 0;
  if (lane == WARP - 1) {
    warp_open[warp] = open;
    warp_ends[warp] = ends != 0;
  }
  __syncthreads();
  V earlier = 0;  // what the warps before leave open
  for (int w = warp - 1; w >= 0; --w) {
    earlier += warp_open[w];
    if (warp_ends[w]) break;
  }
  if ((ends_here & ~(1u << lane)) == 0) carry += earlier;
  if (first_row >= 0) first(first_row, first_sum + carry);
  return ends ? open : open + earlier;
}

// The ends of a tile's rows, counted from its first entry, to shared memory. They lie behind the products: together they
// are the tile's steps, so each takes the room that the other leaves.
template <typename I, int BLOCK>
__device__ __forceinline__ int* load_row_ends(int* row_end, const I* __restrict__ row_ptr, int row, int rows,
                                              long long base) {
  for (int i = threadIdx.x; i < rows; i += BLOCK) row_end[i] = static_cast<int>(row_ptr[row + 1 + i] - base);
  return row_end;
}

// A block's share of the merge: the row that it begins in, the one behind its last end, its first entry, its entries.
struct Share {
  int first_row, last_row;
  long long first;
  int entries;
};

template <int STEPS, typename I>
__device__ __forceinline__ Share share_of_block(int rows, I nnz, const int* __restrict__ tile_row) {
  const long long steps = rows + static_cast<long long>(nnz);
  const long long begin = blockIdx.x * static_cast<long long>(STEPS);
  const long long end = begin + STEPS < steps ? begin + STEPS : steps;
  const int first_row = tile_row[blockIdx.x];
  const int last_row = tile_row[blockIdx.x + 1];
  const long long first = begin - first_row;
  return {first_row, last_row, first, static_cast<int>(end - last_row - first)};
}

// The paper's second kernel: products to shared memory, a search a thread, the sums; a carry a tile. Dynamic shared
// memory: BLOCK * ITEMS values.
template <typename V, typename I, int BLOCK, int ITEMS>
__global__ void __launch_bounds__(BLOCK)
    merge_tiles(int rows, I nnz, const int* __restrict__ tile_row, const I* __restrict__ row_ptr,
                const int* __restrict__ col_idx, const V* __restrict__ values, const V* __restrict__ x,
                V* __restrict__ y, int* __restrict__ carry_row, V* __restrict__ carry_sum) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* products = reinterpret_cast<V*>(dynamic_shared);

  const Share share = share_of_block<BLOCK * ITEMS>(rows, nnz, tile_row);
  const int first_row = share.first_row, last_row = share.last_row, entries = share.entries;
  const long long first = share.first;

  const int* row_end = load_row_ends<I, BLOCK>(reinterpret_cast<int*>(products + entries), row_ptr, first_row,
                                               last_row - first_row, first);
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int k = i * BLOCK + threadIdx.x;
    if (k < entries) products[k] = values[first + k] * load_x(x, col_idx[first + k]);
  }
  __syncthreads();

  const Tile<V> tile{last_row - first_row, entries, products, row_end};
  const int diagonal = min(static_cast<int>(threadIdx.x) * ITEMS, tile.rows + tile.entries);
  const int start = merge_path_search<int>(diagonal, tile.rows, tile.entries, [=](int i) { return row_end[i]; });
  V* tile_y = y + first_row;
  const V open = sum_rows<V, BLOCK, ITEMS>(tile, diagonal, start, tile_y, [=](int row, V sum) { tile_y[row] = sum; });
  if (threadIdx.x == BLOCK - 1) {
    carry_row[blockIdx.x] = last_row;
    carry_sum[blockIdx.x] = open;
  }
}

// Sums a tile's rows one by one, 2^log lanes to each: for rows of much the same length a fraction of the merge's
// instructions. finish(i, sum) takes row i; row tile.rows is what lies open behind the last end. Every thread arrives.
template <typename V, int BLOCK, typename Finish>
__device__ __forceinline__ void sum_each_row(const Tile<V>& tile, int log, Finish finish) {
  const int lanes = 1 << log;
  const int lane = threadIdx.x & (lanes - 1);
  const int group = threadIdx.x >> log;
#pragma unroll 1
  for (int round = 0; round <= tile.rows >> (__ffs(BLOCK) - 1 - log); ++round) {  // whole warps go through it
    const int row = round * (BLOCK >> log) + group;
    V sum = 0;
    if (row <= tile.rows) {
      const int row_begin = row > 0 ? tile.row_end[row - 1] : 0;
      const int end = row < tile.rows ? tile.row_end[row] : tile.entries;
      const int begin = row_begin + lane;
      const int count = (end - begin + lanes - 1) >> log;
      // Rows of 4, 8, 12, ... entries begin in few banks of shared memory: groups start in different places of them.
      const int skip = (end - row_begin) % 4 == 0 ? max(min(group / 2 % 8, count - 1), 0) : 0;
      int k = begin + (skip << log);
#pragma unroll 4
      for (int i = 0; i < count; ++i) {
        sum += tile.products[k];
        k = k + lanes < end ? k + lanes : begin;
      }
    }
    for (int offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(FULL_MASK, sum, offset, lanes);
    if (lane == 0 && row <= tile.rows) finish(row, sum);
  }
}

// The same sums with more loads in flight: pairs of entries as in csr.cuh, all of a thread's before the first is used.
// The merge is walked only where some row is long beside the tile's others. Rows that other tiles share are added to y
// by atomics: y is zero there. col_idx and values are aligned to 16 bytes. Dynamic shared memory: BLOCK * ITEMS + 2
// values.
template <typename V, typename I, int BLOCK, int ITEMS>
__global__ void __launch_bounds__(BLOCK)
    merge_pairs(int rows, I nnz, const int* __restrict__ tile_row, const I* __restrict__ row_ptr,
                const int* __restrict__ col_idx, const V* __restrict__ values, const V* __restrict__ x,
                V* __restrict__ y) {
  using Pair = typename PairOf<V>::type;
  constexpr int PAIRS = ITEMS / 2 + 1;  // a thread's; the first and the last of the tile may be halves
  constexpr int LONGEST = 4 * ITEMS;    // entries of a lane, where rows are summed one by one: alike, they have half
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  Pair* pairs = reinterpret_cast<Pair*>(dynamic_shared);

  const Share share = share_of_block<BLOCK * ITEMS>(rows, nnz, tile_row);
  const int first_row = share.first_row, last_row = share.last_row, entries = share.entries;
  const long long first = share.first;
  const int odd = static_cast<int>(first & 1);
  const long long base = first - odd;
  const int slots = (odd + entries + 1) / 2;
  const int count = base + 2 * slots > nnz ? slots - 1 : slots;  // the matrix's last entry may stand alone

  int2 columns[PAIRS];
  Pair products[PAIRS];
#pragma unroll
  for (int i = 0; i < PAIRS; ++i) {
    const int pair = i * BLOCK + threadIdx.x;
    if (pair < count) {
      columns[i] = load_stream(reinterpret_cast<const int2*>(col_idx + base) + pair);
      products[i] = load_stream(reinterpret_cast<const Pair*>(values + base) + pair);
    }
  }

  // Row ends as in load_row_ends. The row that goes on behind the tile counts too, with what lies here.
  int* row_end = reinterpret_cast<int*>(pairs + slots);
  const int tile_rows = last_row - first_row;
  // 2^log lanes a row: as many, up to a warp, as leave some for each row.
  const int log = max(min(__clz(tile_rows) + __ffs(BLOCK) - 1 - WARP, 5), 0);
  bool uneven = false;
#pragma unroll 1
  for (int i = threadIdx.x; i <= tile_rows; i += BLOCK) {
    const int row_begin = max(static_cast<int>(row_ptr[first_row + i] - first), 0);
    int ends = entries;
    if (i < tile_rows) row_end[i] = ends = static_cast<int>(row_ptr[first_row + i + 1] - first);
    uneven |= ends - row_begin > LONGEST << log;
  }

  Pair gathered[PAIRS];
#pragma unroll
  for (int i = 0; i < PAIRS; ++i) {
    if (i * BLOCK + static_cast<int>(threadIdx.x) < count) {
      gathered[i].x = load_x(x, columns[i].x);
      gathered[i].y = load_x(x, columns[i].y);
    }
  }
#pragma unroll
  for (int i = 0; i < PAIRS; ++i) {
    const int pair = i * BLOCK + threadIdx.x;
    if (pair < count) pairs[pair] = {products[i].x * gathered[i].x, products[i].y * gathered[i].y};
  }
  if (count < slots && threadIdx.x == 0) pairs[count].x = values[nnz - 1] * load_x(x, col_idx[nnz - 1]);
  uneven = __syncthreads_or(uneven);

  const Tile<V> tile{tile_rows, entries, reinterpret_cast<const V*>(pairs) + odd, row_end};
  V* tile_y = y + first_row;
  // A row that goes on in the next tile may have nothing here; then its zero stays.
  const bool goes_on = last_row < rows && entries > (tile_rows ? row_end[tile_rows - 1] : 0);
  const auto finish = [=](int row, V sum) {
    if (row == tile_rows ? goes_on : row == 0 && row_ptr[first_row] < first) {
      atomicAdd(tile_y + row, sum);
    } else if (row < tile_rows) {
      tile_y[row] = sum;
    }
  };
  if (!uneven) return sum_each_row<V, BLOCK>(tile, log, finish);
  const int diagonal = min(static_cast<int>(threadIdx.x) * ITEMS, tile.rows + tile.entries);
  const int start = merge_path_search<int>(diagonal, tile.rows, tile.entries, [=](int i) { return row_end[i]; });
  const V open = sum_rows<V, BLOCK, ITEMS>(tile, diagonal, start, tile_y, finish);
  if (threadIdx.x == BLOCK - 1) finish(tile_rows, open);
}
