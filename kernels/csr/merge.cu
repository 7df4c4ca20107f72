// Merge-based CSR (Merrill & Garland, SC'16): the list of row ends and the list of entries are merged, and every thread
// takes the same number of the merge's steps, each of which takes an entry or finishes a row.
#include "carry.cuh"
#include "shares.cuh"
#include "spmv.cuh"

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

// The ends of a tile's rows, counted from its first entry, to shared memory. They are after the products: together they
// are the tile's steps, so each takes the room that the other leaves.
template <typename I, int BLOCK>
__device__ __forceinline__ int* load_row_ends(int* row_end, const I* __restrict__ row_ptr, int row, int rows,
                                              long long base) {
  for (int i = threadIdx.x; i < rows; i += BLOCK) row_end[i] = static_cast<int>(row_ptr[row + 1 + i] - base);
  return row_end;
}

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

// As sum_rows, without branches in the walk; the sums of the tile's rows then go through shared memory, where its
// products and row ends were, so that neighbouring threads store neighbouring elements of y. shared: BLOCK * ITEMS
// values. Returns, in the last thread, the open sum after the last row. Every thread must call it.
template <int BLOCK, int ITEMS, typename V>
__device__ __forceinline__ V sum_rows_staged(const Tile<V, const int*>& tile, V* shared, V* __restrict__ y) {
  const int steps = tile.rows + tile.entries;
  const int diagonal = min(static_cast<int>(threadIdx.x) * ITEMS, steps);
  const int first_row =
      merge_path_search<int>(diagonal, tile.rows, tile.entries, [&](int i) { return tile.row_end[i]; });
  int row = first_row, entry = diagonal - first_row;
  int end = row < tile.rows ? tile.row_end[row] : steps;
  V ended[ITEMS];
  unsigned ends = 0;
  V open = 0;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const bool inside = diagonal + i < steps;
    const bool takes = inside && entry < end;
    open += takes ? tile.products[entry] : V(0);
    entry += takes;
    ended[i] = open;
    if (inside && !takes) {
      ends |= 1u << i;
      open = 0;
      ++row;
      end = row < tile.rows ? tile.row_end[row] : steps;
    }
  }
  const V carry = open_before<BLOCK>(open, lanes_back(ends != 0));  // with a barrier: all have read their products
  row = first_row;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (ends >> i & 1) {
      shared[row] = row == first_row ? ended[i] + carry : ended[i];
      ++row;
    }
  }
  __syncthreads();
  for (int r = threadIdx.x; r < tile.rows; r += BLOCK) y[r] = shared[r];
  return open;
}

// The paper's second kernel: products to shared memory, a search a thread, the sums; a carry a tile. STAGED: as
// sum_rows_staged. Dynamic shared memory: BLOCK * ITEMS values.
template <typename V, typename I, int BLOCK, int ITEMS, bool STAGED, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    merge_tiles(int rows, I nnz, const int* __restrict__ tile_row, const I* __restrict__ row_ptr,
                const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                V* __restrict__ y, int* __restrict__ carry_row, V* __restrict__ carry_sum) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* products = reinterpret_cast<V*>(dynamic_shared);

  const Share share = share_of_block<BLOCK * ITEMS>(rows, nnz, tile_row);
  const int first_row = share.first_row, last_row = share.last_row, entries = share.entries;
  const long long first = share.first;

  const int* row_end = load_row_ends<I, BLOCK>(reinterpret_cast<int*>(products + entries), row_ptr, first_row,
                                               last_row - first_row, first);
  for_products<BLOCK, ITEMS>(first, entries, col_idx, values, x, [=](int k, V product) {
    if (k < entries) products[k] = product;
  });
  __syncthreads();

  const Tile<V, const int*> tile{last_row - first_row, entries, products, row_end};
  V* tile_y = y + first_row;
  V open;
  if constexpr (STAGED) {
    open = sum_rows_staged<BLOCK, ITEMS>(tile, products, tile_y);
  } else {
    open = sum_rows<BLOCK>(tile, ITEMS, tile_y, [=](int row, V sum) { tile_y[row] = sum; });
  }
  if (threadIdx.x == BLOCK - 1) {
    carry_row[blockIdx.x] = last_row;
    carry_sum[blockIdx.x] = open;
  }
}

// The same sums with more loads in flight. ORDERED, carry: as sum_share has them. col_idx and values are aligned to 16
// bytes. Dynamic shared memory: BLOCK * ITEMS + 2 values.
template <typename V, typename I, int BLOCK, int ITEMS, bool ORDERED, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    merge_pairs(int rows, I nnz, const int* __restrict__ tile_row, const I* __restrict__ row_ptr,
                const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                V* __restrict__ y, V* __restrict__ carry) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  // Of a thread's pairs, the first and the last of the tile may be halves.
  const Share share = share_of_block<BLOCK * ITEMS>(rows, nnz, tile_row);
  sum_share<true, ORDERED, BLOCK, ITEMS, ITEMS / 2 + 1>(share, dynamic_shared, share.last_row - share.first_row, rows,
                                                        nnz, row_ptr, col_idx, values, x, y, carry);
}
