// Blocks that take equal shares of the entries of plain CSR through shared memory: CSR-Stream and CSR-Adaptive
// (Greathouse & Daga, SC'14; Daga & Greathouse, HiPC'15), flat and line-enhance (Chu et al., HPDC'23), and one kernel for
// all of their shares with more loads in flight.
#include "carry.cuh"
#include "search.cuh"
#include "shares.cuh"
#include "spmv.cuh"

// Where tiles begin: the row that owns each `tile`-th entry, 0 for the first, `rows` behind the last; tiles + 1 of them.
template <typename I>
__global__ void tile_rows(int rows, I nnz, int tile, int tiles, const I* __restrict__ row_ptr,
                          int* __restrict__ tile_row) {
  const long long t = global_thread();
  if (t > tiles) return;
  const long long entry = t * tile;
  tile_row[t] = t == 0 ? 0 : t == tiles ? rows : first_behind(row_ptr, 0, rows, static_cast<I>(entry)) - 1;
}

// Tiles of BLOCK * ITEMS entries. LANES threads sum a row, or what the tile has of it, and add it to y by an atomic.
// Dynamic shared memory: BLOCK * ITEMS values.
template <typename V, typename I, int BLOCK, int ITEMS, int LANES>
__global__ void __launch_bounds__(BLOCK)
    flat(int rows, I nnz, const int* __restrict__ tile_row, const I* __restrict__ row_ptr,
         const int* __restrict__ col_idx, const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* products = reinterpret_cast<V*>(dynamic_shared);
  const long long first = blockIdx.x * static_cast<long long>(BLOCK * ITEMS);
  const int entries = static_cast<int>(nnz - first < BLOCK * ITEMS ? nnz - first : BLOCK * ITEMS);
  const int first_row = tile_row[blockIdx.x], last_row = tile_row[blockIdx.x + 1];
  for_products<BLOCK, ITEMS>(first, entries, col_idx, values, x, [=](int k, V product) { products[k] = product; });
  __syncthreads();
  // The row behind the last end counts only where it begins here.
  const int count = last_row < rows && row_ptr[last_row] < first + entries ? last_row - first_row + 1
                                                                            : last_row - first_row;
  sum_each_row<BLOCK>(Tile<V, RowEnds<I>>{last_row - first_row, entries, products, {row_ptr + first_row, first}},
                      __ffs(LANES) - 1, [=](int row, V sum) {
                        if (row < count) atomicAdd(y + first_row + row, sum);
                      });
}

// ROWS rows a block, their entries in rounds of BLOCK * ITEMS: LANES threads keep a row's sum and add what each round has
// of it. Dynamic shared memory: BLOCK * ITEMS values.
template <typename V, typename I, int BLOCK, int ITEMS, int ROWS, int LANES>
__global__ void __launch_bounds__(BLOCK)
    line_enhance(int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                 const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  static_assert(ROWS * LANES <= BLOCK, "a thread for every lane of every row");
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

  V sum = 0;
  for (I done = begin; done < end; done += BLOCK * ITEMS) {
    const int count = static_cast<int>(end - done < BLOCK * ITEMS ? end - done : BLOCK * ITEMS);
    if (done > begin) __syncthreads();
    for_products<BLOCK, ITEMS>(done, count, col_idx, values, x, [=](int k, V product) { products[k] = product; });
    __syncthreads();
    const int low = row_begin > done ? static_cast<int>(row_begin - done < count ? row_begin - done : count) : 0;
    const int high = row_end > done ? static_cast<int>(row_end - done < count ? row_end - done : count) : 0;
    if (low < high) sum += lane_sum(products, low, high, threadIdx.x % LANES, __ffs(LANES) - 1, group);
  }
  sum = group_sum<LANES>(sum);
  if (mine && threadIdx.x % LANES == 0) y[row] = sum;
}

// Sum of the products of entries begin .. end, in thread 0.
template <int BLOCK, int ITEMS, typename V, typename I>
__device__ __forceinline__ V range_sum(I begin, I end, const int* __restrict__ col_idx, const V* __restrict__ values,
                                       const V* __restrict__ x) {
  V sum = 0;
  for (; begin < end; begin += BLOCK * ITEMS) {
    const int count = static_cast<int>(end - begin < BLOCK * ITEMS ? end - begin : BLOCK * ITEMS);
    for_products<BLOCK, ITEMS>(begin, count, col_idx, values, x,
                               [&](int k, V product) { sum += k < count ? product : V(0); });
  }
  return block_sum<BLOCK>(sum);
}

// Blocks of whole rows that together have at most BLOCK * ITEMS entries: summed from shared memory, one thread a row. A
// row alone in its block may have more. VECTOR: all threads go through it and add up what they have; else it comes
// through shared memory too, in passes. Dynamic shared memory: BLOCK * ITEMS values.
template <typename V, typename I, int BLOCK, int ITEMS, bool VECTOR>
__global__ void __launch_bounds__(BLOCK)
    adaptive(const int* __restrict__ row_blocks, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
             const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
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

// The same with as many threads a row as there are for the block's rows, and rows longer than a chunk in several blocks:
// each adds its part to y, which is zero there. block_entry: the first entry of each block. Dynamic shared memory:
// BLOCK * ITEMS values.
template <typename V, typename I, int BLOCK, int ITEMS>
__global__ void __launch_bounds__(BLOCK)
    adaptive_long(const int* __restrict__ row_blocks, const I* __restrict__ block_entry, const I* __restrict__ row_ptr,
                  const int* __restrict__ col_idx, const V* __restrict__ values, const V* __restrict__ x,
                  V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* products = reinterpret_cast<V*>(dynamic_shared);
  const int first_row = row_blocks[blockIdx.x];
  const int rows = row_blocks[blockIdx.x + 1] - first_row;  // 0: a row that goes on in the next block
  const I first = block_entry[blockIdx.x], end = block_entry[blockIdx.x + 1];
  if (rows <= 1) {
    const V sum = range_sum<BLOCK, ITEMS>(first, end, col_idx, values, x);
    if (threadIdx.x > 0) return;
    if (rows == 1 && row_ptr[first_row] == first) {
      y[first_row] = sum;
    } else {
      atomicAdd(y + first_row, sum);
    }
    return;
  }
  const int entries = static_cast<int>(end - first);
  for_products<BLOCK, ITEMS>(first, entries, col_idx, values, x, [=](int k, V product) { products[k] = product; });
  __syncthreads();
  // BLOCK / 2^(bits of rows - 1) threads a row, at least one.
  const int log = max(__clz(rows - 1) + __ffs(BLOCK) - 1 - WARP, 0);
  const RowEnds<I> row_end{row_ptr + first_row, first};
  if (log <= 5) {
    return sum_each_row<BLOCK>(Tile<V, RowEnds<I>>{rows, entries, products, row_end}, log, [=](int row, V sum) {
      if (row < rows) y[first_row + row] = sum;
    });
  }
  // Several warps a row.
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
// tile_entry on. y is zero at the rows that tiles share. Dynamic shared memory: BLOCK * ITEMS values and half as
// many ints.
template <typename V, typename I, int BLOCK, int ITEMS, bool EQUAL>
__global__ void __launch_bounds__(BLOCK)
    sum_tiles(int rows, I nnz, const int* __restrict__ tile_row, const I* __restrict__ tile_entry,
              const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const V* __restrict__ values,
              const V* __restrict__ x, V* __restrict__ y) {
  static_assert(ITEMS % 2 == 0, "whole pairs of entries a thread");
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  const long long begin = EQUAL ? blockIdx.x * static_cast<long long>(BLOCK * ITEMS) : tile_entry[blockIdx.x];
  long long end = EQUAL ? begin + BLOCK * ITEMS : tile_entry[blockIdx.x + 1];
  if (EQUAL && end > nnz) end = nnz;
  const Share share{tile_row[blockIdx.x], tile_row[blockIdx.x + 1], begin, static_cast<int>(end - begin)};
  const int room = BLOCK * ITEMS / 2;
  sum_share<false, BLOCK, ITEMS, ITEMS / 2>(share, dynamic_shared, room, rows, nnz, row_ptr, col_idx, values, x, y);
}
