// Shares of a matrix's entries through shared memory: the products of a range of entries go there, rows and parts of
// rows are summed from there, and the caller handles each sum.
#pragma once
#include "overlap.cuh"
#include "spmv.cuh"

// PAIRS pairs of neighbouring entries of each of BLOCK threads a block's width apart, in flight. All
// are loaded before the first is used: the matrix's part by the constructor, x by store(). Places after the last pair
// load that once more: with tests in their place the compiler lets some loads wait for others.
template <typename V, int BLOCK, int PAIRS, typename S = V>
struct EntryPairs {
  using Pair = typename PairOf<V>::type;
  using StoredPair = typename PairOf<S>::type;
  int count;  // of pairs that are within the matrix
  int2 columns[PAIRS];
  StoredPair values[PAIRS];

  // `slots` pairs from entry `base` on, which is even; the matrix's last entry may be alone after them. The arrays
  // are aligned to 16 bytes.
  template <typename I>
  __device__ __forceinline__ EntryPairs(long long base, int slots, I nnz, const int* __restrict__ col_idx,
                                        const S* __restrict__ matrix)
      : count(base + 2 * slots > nnz ? slots - 1 : slots) {
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
      if (count == 0) break;
      const int pair = min(i * BLOCK + static_cast<int>(threadIdx.x), count - 1);
      columns[i] = load_stream(reinterpret_cast<const int2*>(col_idx + base) + pair);
      values[i] = load_stream(reinterpret_cast<const StoredPair*>(matrix + base) + pair);
    }
  }

  // x at the columns. Not multiplied in place: the compiler would load the values only then.
  __device__ __forceinline__ void gather(const V* __restrict__ x, Pair (&gathered)[PAIRS]) const {
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
      if (count == 0) break;
      gathered[i].x = load_x(x, columns[i].x);
      gathered[i].y = load_x(x, columns[i].y);
    }
  }

  // The products to products[at(pair)], and the matrix's last entry where it is alone.
  template <typename I, typename At>
  __device__ __forceinline__ void store(int slots, I nnz, const int* __restrict__ col_idx, const S* __restrict__ matrix,
                                        const V* __restrict__ x, Pair* products, At at) {
    Pair gathered[PAIRS];
    gather(x, gathered);
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
      const int pair = i * BLOCK + threadIdx.x;
      if (pair < count) products[at(pair)] = {values[i].x * gathered[i].x, values[i].y * gathered[i].y};
    }
    if (count < slots && threadIdx.x == 0) products[at(count)] = {matrix[nnz - 1] * load_x(x, col_idx[nnz - 1]), V(0)};
  }

  // The thread's part of the sum of `entries` products, from the second of the first pair on where `odd` is 1.
  template <typename I>
  __device__ __forceinline__ V sum(int odd, int entries, int slots, I nnz, const int* __restrict__ col_idx,
                                   const S* __restrict__ matrix, const V* __restrict__ x) {
    Pair gathered[PAIRS];
    gather(x, gathered);
    V sum = 0;
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
      const int pair = i * BLOCK + threadIdx.x;
      if (pair >= count) continue;
      if (pair > 0 || !odd) sum += values[i].x * gathered[i].x;
      if (2 * pair + 1 < odd + entries) sum += values[i].y * gathered[i].y;
    }
    if (count < slots && threadIdx.x == 0) sum += matrix[nnz - 1] * load_x(x, col_idx[nnz - 1]);
    return sum;
  }
};

// The products of `count` entries from `first` on, at most ITEMS of each of THREADS threads: neighbouring threads load
// neighbouring entries, all of a thread's before the first is used. use(k, product) takes the k-th of them; places from
// `count` on come too, with the last entry's product. With a test for each place, of which there are more than
// predicates, the compiler lets some entries wait for their x before it loads the others.
template <int THREADS, int ITEMS, typename V, typename Use, typename S>
__device__ __forceinline__ void for_products(long long first, int count, const int* __restrict__ col_idx,
                                             const S* __restrict__ values, const V* __restrict__ x, Use use) {
  if (count <= 0) return;
  const int thread = threadIdx.x % THREADS;
  int columns[ITEMS];
  S loaded[ITEMS];
  V gathered[ITEMS];
  col_idx += first;
  values += first;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int k = min(i * THREADS + thread, count - 1);
    columns[i] = load_stream(col_idx + k);
    loaded[i] = load_stream(values + k);
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) gathered[i] = load_x(x, columns[i]);
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) use(i * THREADS + thread, loaded[i] * gathered[i]);
}

// Sum over the block, in thread 0. Every thread must call it.
template <int BLOCK, typename V>
__device__ __forceinline__ V block_sum(V sum) {
  __shared__ V warp_sum[BLOCK / WARP];
  sum = group_sum<WARP>(sum);
  if (lane_id() == 0) warp_sum[threadIdx.x / WARP] = sum;
  __syncthreads();
  for (int w = 1; w < BLOCK / WARP && threadIdx.x == 0; ++w) sum += warp_sum[w];
  return sum;
}

// How many lanes back the warp's last lane is, this one or one before it, in which `ends` is true; if there is none,
// one more than there are. Every lane must call it.
__device__ __forceinline__ int lanes_back(bool ends) {
  const unsigned ending = __ballot_sync(FULL_MASK, ends) & (FULL_MASK >> (WARP - 1 - lane_id()));
  return ending ? lane_id() - (WARP - 1 - __clz(ending)) : lane_id() + 1;
}

// What is open before each thread of the warp or the block of THREADS: the sum of `open` of the threads before it, back
// to the last in which a row ends, that one included. reach: threads back to that row, counted from this thread's own
// (0 if it has one); more than the lane's number where it is in a warp before. `open` becomes what is open after the
// thread. Every thread must call it.
template <int THREADS, typename V>
__device__ __forceinline__ V open_before(V& open, int reach) {
  constexpr int WARPS = THREADS / WARP;
  __shared__ V warp_open[WARPS];
  __shared__ bool warp_ends[WARPS];
  const int lane = lane_id();
  const int warp = threadIdx.x / WARP;
#pragma unroll
  for (int offset = 1; offset < WARP; offset *= 2) {
    const V before = __shfl_up_sync(FULL_MASK, open, offset);
    if (offset <= min(reach, lane)) open += before;
  }
  V carry = __shfl_up_sync(FULL_MASK, open, 1);
  const int reach_before = __shfl_up_sync(FULL_MASK, reach, 1);
  if (lane == 0) carry = 0;
  if (WARPS == 1) return carry;
  if (lane == WARP - 1) {
    warp_open[warp] = open;
    warp_ends[warp] = reach < WARP;
  }
  __syncthreads();
  V earlier = 0;  // what the warps before leave open
  for (int w = warp - 1; w >= 0; --w) {
    earlier += warp_open[w];
    if (warp_ends[w]) break;
  }
  if (lane == 0 || reach_before >= lane) carry += earlier;
  if (reach > lane) open += earlier;
  return carry;
}

// The tile of one block: rows that end in it and entries that are in it. `products` are the tile's entries times x,
// row_end[i] counts entries from the tile's first.
template <typename V, typename Ends>
struct Tile {
  int rows, entries;
  const V* products;
  Ends row_end;
};

// Row ends from the row pointers as they are in memory.
template <typename I>
struct RowEnds {
  const I* __restrict__ row_ptr;  // of the tile's first row
  long long first;                // the tile's first entry

  __device__ __forceinline__ int operator[](int row) const { return static_cast<int>(row_ptr[row + 1] - first); }
};

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

// Sums a tile's rows by the merge of its row ends with its entries, `items` steps per thread. Rows that are within a
// thread are stored to y[row]; a thread's first row comes with what threads before it have of it: first(row, sum). The
// result, in the block's last thread, is the open sum after the last row. Every thread must call it.
template <int BLOCK, typename V, typename Ends, typename First>
__device__ __forceinline__ V sum_rows(const Tile<V, Ends>& tile, int items, V* __restrict__ y, First first) {
  const int steps = tile.rows + tile.entries;
  const int diagonal = min(static_cast<int>(threadIdx.x) * items, steps);
  int row = merge_path_search<int>(diagonal, tile.rows, tile.entries, [&](int i) { return tile.row_end[i]; });
  int entry = diagonal - row;
  int end = row < tile.rows ? tile.row_end[row] : steps;
  int first_row = -1;  // the thread's first row may have begun in another thread
  V first_sum = 0;
  V open = 0;
#pragma unroll
  for (int i = 0; i < items; ++i) {
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
  const V carry = open_before<BLOCK>(open, lanes_back(first_row >= 0));
  if (first_row >= 0) first(first_row, first_sum + carry);
  return open;
}

// Sums runs of the block's products, ITEMS neighbouring ones per thread. Bit i of `ends`: a run ends with the thread's
// product i; reach: as `open_before` has it. finish(i, sum) takes every run that ends in the thread, its first with
// what threads before have of it. The result, in the block's last thread, is the sum after the last end.
template <int BLOCK, int ITEMS, typename V, typename Finish>
__device__ __forceinline__ V sum_runs(const V (&products)[ITEMS], unsigned ends, int reach, Finish finish) {
  V open = 0;
  V first_sum = 0;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    open += products[i];
    if (ends >> i & 1) {
      if (ends & ((1u << i) - 1)) {
        finish(i, open);
      } else {
        first_sum = open;
      }
      open = 0;
    }
  }
  const V carry = open_before<BLOCK>(open, reach);
  if (ends) finish(__ffs(static_cast<int>(ends)) - 1, first_sum + carry);
  return open;
}

// A lane's part of a sum over products[begin .. end): every 2^log-th, from `lane` on. Rows of 4, 8, 12, ... entries
// begin in few banks of shared memory: groups of threads start in different places of them.
template <typename V>
__device__ __forceinline__ V lane_sum(const V* products, int begin, int end, int lane, int log, int group) {
  const int lanes = 1 << log;
  const int count = (end - begin - lane + lanes - 1) >> log;
  const int skip = (end - begin) % 4 == 0 ? max(min(group / 2 % 8, count - 1), 0) : 0;
  int k = begin + lane + (skip << log);
  V sum = 0;
#pragma unroll 4
  for (int i = 0; i < count; ++i) {
    sum += products[k];
    k = k + lanes < end ? k + lanes : begin + lane;
  }
  return sum;
}

// Sums a tile's rows one by one, 2^log lanes to each: for rows of much the same length a fraction of the merge's
// instructions. finish(i, sum) takes row i; row tile.rows is what is open after the last end. Every thread must call
// it.
template <int BLOCK, typename V, typename Ends, typename Finish>
__device__ __forceinline__ void sum_each_row(const Tile<V, Ends>& tile, int log, Finish finish) {
  const int lanes = 1 << log;
  const int lane = threadIdx.x & (lanes - 1);
  const int group = threadIdx.x >> log;
#pragma unroll 1
  for (int round = 0; round <= tile.rows >> (__ffs(BLOCK) - 1 - log); ++round) {  // whole warps go through it
    const int row = round * (BLOCK >> log) + group;
    V sum = 0;
    if (row <= tile.rows) {
      const int begin = row > 0 ? tile.row_end[row - 1] : 0;
      const int end = row < tile.rows ? tile.row_end[row] : tile.entries;
      sum = lane_sum(tile.products, begin, end, lane, log, group);
    }
    for (int offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(FULL_MASK, sum, offset, lanes);
    if (lane == 0 && row <= tile.rows) finish(row, sum);
  }
}

// What a block takes: the row that it begins in, the one after its last row end, its first entry, its entries.
struct Share {
  int first_row, last_row;
  long long first;
  int entries;
};

// A block's share with as many loads in flight as it has: pairs of entries, all of a thread's before the first is used.
// The merge is walked only where some row is long compared with the share's others. Every row end stores its row; rows
// that other shares have parts of are added to y by atomics: y is zero there. ORDERED: a row end stores those too, and
// carry[block] is what is open after the last one, for carry_ordered. `shared` holds the share's entries and
// two more, and after them `room` row ends; where a share has more, they are read from row_ptr. MERGED: entries and row
// ends together are no more than BLOCK * ITEMS. What sets y to zero may still run when this kernel starts.
template <bool MERGED, bool ORDERED, int BLOCK, int ITEMS, int PAIRS, typename V, typename I, typename S>
__device__ __forceinline__ void sum_share(const Share& share, unsigned char* shared, int room, int rows, I nnz,
                                          const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                                          const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y,
                                          V* __restrict__ carry) {
  constexpr int LONGEST = 4 * ITEMS;  // entries of a lane, where rows are summed one by one: alike, they have half
  using Loads = EntryPairs<V, BLOCK, PAIRS, S>;
  auto* pairs = reinterpret_cast<typename Loads::Pair*>(shared);
  const int first_row = share.first_row, last_row = share.last_row, entries = share.entries;
  const long long first = share.first;
  const int odd = static_cast<int>(first & 1);
  const int slots = (odd + entries + 1) / 2;
  Loads loads(first - odd, slots, nnz, col_idx, values);

  const int tile_rows = last_row - first_row;
  const auto came_on = [=]() { return row_ptr[first_row] < first; };
  if constexpr (!MERGED) {  // merge tiles of one row are rare: none waits for row pointers before it has loaded all
    const bool alone = tile_rows == 0 || (tile_rows == 1 && row_ptr[last_row] == first + entries);
    if (alone) {  // all that there is belongs to one row, which may end here
      if (entries == 0 && tile_rows == 0 && !ORDERED) return;
      const V sum = block_sum<BLOCK>(loads.sum(odd, entries, slots, nnz, col_idx, values, x));
      if (threadIdx.x > 0) return;
      wait_for_previous();
      if constexpr (ORDERED) {
        carry[blockIdx.x] = tile_rows ? V(0) : sum;
        if (tile_rows) y[first_row] = sum;
      } else if (tile_rows == 0 || came_on()) {
        atomicAdd(y + first_row, sum);
      } else {
        y[first_row] = sum;
      }
      return;
    }
  }

  // Row ends counted from the share's first entry. The row that goes on after it counts too, with what is here.
  int* staged = reinterpret_cast<int*>(pairs + slots);
  // 2^log threads per row: as many, up to a warp, as leave some for each row.
  const int log = max(min(__clz(tile_rows) + __ffs(BLOCK) - 1 - WARP, 5), 0);
  bool uneven = false;
  const bool fits = MERGED || tile_rows <= room;
#pragma unroll 1
  for (int i = threadIdx.x; i <= tile_rows; i += BLOCK) {
    const int row_begin = max(static_cast<int>(row_ptr[first_row + i] - first), 0);
    int ends = entries;
    if (i < tile_rows) {
      ends = static_cast<int>(row_ptr[first_row + i + 1] - first);
      if (fits) staged[i] = ends;
    }
    uneven |= ends - row_begin > LONGEST << log;
  }
  loads.store(slots, nnz, col_idx, values, x, pairs, [](int pair) { return pair; });
  uneven = __syncthreads_or(uneven);
  wait_for_previous();

  const V* products = reinterpret_cast<const V*>(pairs) + odd;
  V* tile_y = y + first_row;
  const auto sum_tile = [&](const auto& tile) {
    // A row that goes on after the share may have nothing here; then its zero stays.
    const bool goes_on = last_row < rows && entries > (tile_rows ? tile.row_end[tile_rows - 1] : 0);
    const auto finish = [=](int row, V sum) {
      if constexpr (ORDERED) {
        (row == tile_rows ? carry[blockIdx.x] : tile_y[row]) = sum;
      } else if (row == tile_rows ? goes_on : row == 0 && came_on()) {
        atomicAdd(tile_y + row, sum);
      } else if (row < tile_rows) {
        tile_y[row] = sum;
      }
    };
    if (!uneven) return sum_each_row<BLOCK>(tile, log, finish);
    const int items = MERGED ? ITEMS : (tile.rows + tile.entries + BLOCK - 1) / BLOCK | 1;  // odd: banks
    const V open = sum_rows<BLOCK>(tile, items, tile_y, finish);
    if (threadIdx.x == BLOCK - 1) finish(tile_rows, open);
  };
  if (fits) {
    sum_tile(Tile<V, const int*>{tile_rows, entries, products, staged});
  } else {
    sum_tile(Tile<V, RowEnds<I>>{tile_rows, entries, products, {row_ptr + first_row, first}});
  }
}
