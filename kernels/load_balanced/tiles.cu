// Blocks that take equal shares of the entries of plain CSR through shared memory: CSR-Stream and CSR-Adaptive
// (Greathouse & Daga, SC'14; Daga & Greathouse, HiPC'15), flat and line-enhance (Chu et al., HPDC'23), and one kernel
// for all of their shares with more loads in flight.
#include "carry.cuh"
#include "shares.cuh"
#include "spmv.cuh"

// Where tiles begin: the row of the first entry of each of `tiles` tiles, `rows` after them; y = 0 in these rows, in
// empty ones and in the last. A thread per row: all row pointers are read once, neighbouring ones by neighbouring
// threads.
template <typename V, typename I>
__global__ void tile_starts(int rows, int tile, int tiles, const I* __restrict__ row_ptr, int* __restrict__ tile_row,
                            V* __restrict__ y) {
  const long long row = global_thread();
  long long begin = 0, end = 0;  // the tiles whose first entry the row has
  if (row < rows) {
    const I first = row_ptr[row], behind = row_ptr[row + 1];
    begin = (static_cast<long long>(first) + tile - 1) / tile;
    end = (static_cast<long long>(behind) + tile - 1) / tile;
    if (begin < end || first == behind || row == rows - 1) y[row] = V(0);
  }
  if (row == 0) tile_row[tiles] = rows;
  // A long row's tiles are the whole warp's work.
  for (unsigned owners = __ballot_sync(FULL_MASK, begin < end); owners; owners &= owners - 1) {
    const int lane = __ffs(static_cast<int>(owners)) - 1;
    const long long first = __shfl_sync(FULL_MASK, begin, lane);
    const long long behind = __shfl_sync(FULL_MASK, end, lane);
    for (long long t = first + lane_id(); t < behind; t += WARP) tile_row[t] = static_cast<int>(row - lane_id() + lane);
  }
}

// Row ends as RowEnds has them, of which a thread has its own row's begin and end in flight before it asks.
template <typename I>
struct EarlyEnds {
  const I* __restrict__ row_ptr;  // of the tile's first row
  long long first;                // the tile's first entry
  int own;
  I own_begin, own_end;

  // `own`: the row of the tile, of `rows`, that the thread takes first; it may be after them.
  __device__ __forceinline__ EarlyEnds(const I* __restrict__ row_ptr, long long first, int own, int rows)
      : row_ptr(row_ptr), first(first), own(own), own_begin(row_ptr[min(own, rows)]),
        own_end(row_ptr[min(own + 1, rows)]) {}

  __device__ __forceinline__ int operator[](int row) const {
    const I end = row == own ? own_end : row + 1 == own ? own_begin : row_ptr[row + 1];
    return static_cast<int>(end - first);
  }
};

// for_products in two steps, so that a block can do something else while its entries are in flight.
template <typename V, int BLOCK, int ITEMS, typename S = V>
struct Entries {
  int columns[ITEMS];
  S values[ITEMS];

  __device__ __forceinline__ void load(long long first, int count, const int* __restrict__ col_idx,
                                       const S* __restrict__ matrix) {
    if (count <= 0) return;
    col_idx += first;
    matrix += first;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int k = min(i * BLOCK + static_cast<int>(threadIdx.x), count - 1);
      columns[i] = load_stream(col_idx + k);
      values[i] = load_stream(matrix + k);
    }
  }

  // products[k] of all BLOCK * ITEMS places; those from `count` on hold the last entry's.
  __device__ __forceinline__ void store(int count, const V* __restrict__ x, V* products) const {
    if (count <= 0) return;
    V gathered[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) gathered[i] = load_x(x, columns[i]);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) products[i * BLOCK + threadIdx.x] = values[i] * gathered[i];
  }
};

// Tiles of BLOCK * ITEMS entries; tile_row and y are as tile_starts leaves them. LANES threads sum per row: one that is
// within a tile is stored, the parts of others are added to y by atomics. Dynamic shared memory: BLOCK * ITEMS values.
template <typename V, typename I, int BLOCK, int ITEMS, int LANES, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    flat(I nnz, const int* __restrict__ tile_row, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
         const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  static_assert(ITEMS % 2 == 0, "whole pairs of entries a thread");
  constexpr int TILE = BLOCK * ITEMS;
  using Loads = EntryPairs<V, BLOCK, ITEMS / 2, S>;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto* pairs = reinterpret_cast<typename Loads::Pair*>(dynamic_shared);
  const long long first = blockIdx.x * static_cast<long long>(TILE);
  const int entries = static_cast<int>(nnz - first < TILE ? nnz - first : TILE);
  const int slots = (entries + 1) / 2;
  const int first_row = blockIdx.x > 0 ? tile_row[blockIdx.x] : 0;  // empty rows in front are the first tile's
  const int last_row = tile_row[blockIdx.x + 1];
  Loads loads(first, slots, nnz, col_idx, values);
  const int rows = last_row - first_row;
  const EarlyEnds<I> row_end(row_ptr + first_row, first, static_cast<int>(threadIdx.x) / LANES, rows);
  loads.store(slots, nnz, col_idx, values, x, pairs, [](int pair) { return pair; });
  __syncthreads();
  const Tile<V, EarlyEnds<I>> tile{rows, entries, reinterpret_cast<const V*>(dynamic_shared), row_end};
  sum_each_row<BLOCK>(tile, __ffs(LANES) - 1, [&](int row, V sum) {
    if (row == rows) {  // what is after the last end
      if ((rows ? row_end[rows - 1] : 0) < entries) atomicAdd(y + last_row, sum);
    } else if (row == 0 && row_end.own_begin < first) {
      atomicAdd(y + first_row, sum);
    } else {
      y[first_row + row] = sum;
    }
  });
}

// ROWS rows per block, their entries in rounds of BLOCK * ITEMS: LANES threads keep a row's sum and add what each round
// has of it, while the next round's entries are in flight. Dynamic shared memory: BLOCK * ITEMS values.
template <typename V, typename I, int BLOCK, int ITEMS, int ROWS, int LANES, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    line_enhance(int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const S* __restrict__ values,
                 const V* __restrict__ x, V* __restrict__ y) {
  static_assert(ROWS * LANES <= BLOCK, "a thread for every lane of every row");
  constexpr int ROUND = BLOCK * ITEMS;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* products = reinterpret_cast<V*>(dynamic_shared);
  const long long first_row = blockIdx.x * static_cast<long long>(ROWS);
  const I begin = row_ptr[first_row];
  const I end = row_ptr[first_row + ROWS < rows ? first_row + ROWS : rows];
  const int group = threadIdx.x / LANES;
  const long long row = first_row + group;
  const bool mine = group < ROWS && row < rows;
  const I row_begin = mine ? row_ptr[row] : end;
  const I row_end = mine ? row_ptr[row + 1] : end;
  const auto count_at = [=](I done) { return static_cast<int>(end - done < ROUND ? end - done : ROUND); };

  Entries<V, BLOCK, ITEMS, S> loads;
  loads.load(begin, count_at(begin), col_idx, values);
  V sum = 0;
  for (I done = begin; done < end; done += ROUND) {
    const int count = count_at(done);
    if (done > begin) __syncthreads();
    loads.store(count, x, products);
    if (end - done > ROUND) loads.load(done + ROUND, count_at(done + ROUND), col_idx, values);
    __syncthreads();
    const int low = row_begin > done ? static_cast<int>(row_begin - done < count ? row_begin - done : count) : 0;
    const int high = row_end > done ? static_cast<int>(row_end - done < count ? row_end - done : count) : 0;
    if (low < high) sum += lane_sum(products, low, high, threadIdx.x % LANES, __ffs(LANES) - 1, group);
  }
  sum = group_sum<LANES>(sum);
  if (mine && threadIdx.x % LANES == 0) y[row] = sum;
}

// Sum of the products of entries begin .. end, in thread 0.
template <int BLOCK, int ITEMS, typename V, typename I, typename S>
__device__ __forceinline__ V range_sum(I begin, I end, const int* __restrict__ col_idx, const S* __restrict__ values,
                                       const V* __restrict__ x) {
  V sum = 0;
  for (; begin < end; begin += BLOCK * ITEMS) {
    const int count = static_cast<int>(end - begin < BLOCK * ITEMS ? end - begin : BLOCK * ITEMS);
    for_products<BLOCK, ITEMS>(begin, count, col_idx, values, x,
                               [&](int k, V product) { sum += k < count ? product : V(0); });
  }
  return block_sum<BLOCK>(sum);
}

// Blocks of whole rows that together have at most BLOCK * ITEMS entries: summed from shared memory, one thread per row.
// A row alone in its block may have more. VECTOR: all threads go through it and add up what they have; else it comes
// through shared memory too, in passes. Dynamic shared memory: BLOCK * ITEMS values.
template <typename V, typename I, int BLOCK, int ITEMS, bool VECTOR, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    adaptive(const int* __restrict__ row_blocks, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
             const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* products = reinterpret_cast<V*>(dynamic_shared);
  const int first_row = row_blocks[blockIdx.x];
  const int rows = row_blocks[blockIdx.x + 1] - first_row;
  const I first = row_ptr[first_row], end = row_ptr[first_row + rows];
  if (VECTOR && rows == 1) {
    const V sum = range_sum<BLOCK, ITEMS>(first, end, col_idx, values, x);
    if (threadIdx.x == 0) y[first_row] = sum;
    return;
  }
  V whole = 0;  // of a row alone, in thread 0
  for (I done = first; done == first || done < end; done += BLOCK * ITEMS) {
    const int count = static_cast<int>(end - done < BLOCK * ITEMS ? end - done : BLOCK * ITEMS);
    if (done > first) __syncthreads();
    for_products<BLOCK, ITEMS>(done, count, col_idx, values, x, [=](int k, V product) { products[k] = product; });
    __syncthreads();
    if (rows == 1) {
      if (threadIdx.x == 0) whole += lane_sum(products, 0, count, 0, 0, 0);
    } else {
      sum_each_row<BLOCK>(Tile<V, RowEnds<I>>{rows, count, products, {row_ptr + first_row, first}}, 0,
                          [=](int row, V sum) {
                            if (row < rows) y[first_row + row] = sum;
                          });
    }
  }
  if (rows == 1 && threadIdx.x == 0) y[first_row] = whole;
}

// The same with as many threads per row as there are for the block's rows, and rows longer than a chunk in several
// blocks: each adds its part to y, which is zero there. block_entry: the first entry of each block. Dynamic shared
// memory: BLOCK * ITEMS values. Registers for 1,024 threads per multiprocessor keep all loads of a thread in flight;
// without that bound the compiler has some wait for others (571 in place of 624 GFLOPS on an H200, fem:60:3).
template <typename V, typename I, int BLOCK, int ITEMS, typename S = V>
__global__ void __launch_bounds__(BLOCK, 1024 / BLOCK)
    adaptive_long(const int* __restrict__ row_blocks, const I* __restrict__ block_entry, const I* __restrict__ row_ptr,
                  const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                  V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* products = reinterpret_cast<V*>(dynamic_shared);
  const int first_row = row_blocks[blockIdx.x];
  const int rows = row_blocks[blockIdx.x + 1] - first_row;  // 0: a row that goes on in the next block
  const I first = block_entry[blockIdx.x], end = block_entry[blockIdx.x + 1];
  if (rows <= 1) {
    const V sum = range_sum<BLOCK, ITEMS>(first, end, col_idx, values, x);
    if (threadIdx.x > 0) return;
    wait_for_previous();
    if (rows == 1 && row_ptr[first_row] == first) {
      y[first_row] = sum;
    } else {
      atomicAdd(y + first_row, sum);
    }
    return;
  }
  const int entries = static_cast<int>(end - first);
  Entries<V, BLOCK, ITEMS, S> loads;
  loads.load(first, entries, col_idx, values);
  // BLOCK / 2^(bits of rows - 1) threads per row, at least one.
  const int log = max(__clz(rows - 1) + __ffs(BLOCK) - 1 - WARP, 0);
  const EarlyEnds<I> row_end(row_ptr + first_row, first, static_cast<int>(threadIdx.x) >> log, rows);
  loads.store(entries, x, products);
  __syncthreads();
  wait_for_previous();
  if (log <= 5) {
    return sum_each_row<BLOCK>(Tile<V, EarlyEnds<I>>{rows, entries, products, row_end}, log, [=](int row, V sum) {
      if (row < rows) y[first_row + row] = sum;
    });
  }
  // Several warps per row.
  __shared__ V warp_sum[BLOCK / WARP];
  const int row = threadIdx.x >> log;
  const int lane = threadIdx.x & ((1 << log) - 1);
  V sum = 0;
  if (row < rows) sum = lane_sum(products, row > 0 ? row_end[row - 1] : 0, row_end[row], lane, log, row);
  sum = group_sum<WARP>(sum);
  if (lane_id() == 0) warp_sum[threadIdx.x / WARP] = sum;
  __syncthreads();
  if (lane > 0 || row >= rows) return;
  for (int w = 1; w < 1 << (log - 5); ++w) sum += warp_sum[threadIdx.x / WARP + w];
  y[first_row + row] = sum;
}

// Any tiles of at most BLOCK * ITEMS entries, one less where they can begin at an odd one: equal ones (EQUAL), or from
// tile_entry on. y is zero at the rows that tiles share, unless ORDERED, as sum_share has it. Dynamic shared memory: BLOCK * ITEMS values and half as
// many ints.
template <typename V, typename I, int BLOCK, int ITEMS, bool EQUAL, bool ORDERED, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    sum_tiles(int rows, I nnz, const int* __restrict__ tile_row, const I* __restrict__ tile_entry,
              const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const S* __restrict__ values,
              const V* __restrict__ x, V* __restrict__ y, V* __restrict__ carry) {
  static_assert(ITEMS % 2 == 0, "whole pairs of entries a thread");
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  const long long begin = EQUAL ? blockIdx.x * static_cast<long long>(BLOCK * ITEMS) : tile_entry[blockIdx.x];
  long long end = EQUAL ? begin + BLOCK * ITEMS : tile_entry[blockIdx.x + 1];
  if (EQUAL && end > nnz) end = nnz;
  const Share share{tile_row[blockIdx.x], tile_row[blockIdx.x + 1], begin, static_cast<int>(end - begin)};
  const int room = BLOCK * ITEMS / 2;
  sum_share<false, ORDERED, BLOCK, ITEMS, ITEMS / 2>(share, dynamic_shared, room, rows, nnz, row_ptr, col_idx, values,
                                                     x, y, carry);
}
