// The tables of CSR+ and of MERBIT on the device: what spmvbench/formats/load_balanced/ computes by arrays on the host.
#include "merbit.cuh"
#include "search.cuh"
#include "shares.cuh"
#include "spmv.cuh"

// A code a thread of tiles of BLOCK * ITEMS entries. row_ptr, rows: of the rows that have entries; limits as stored.
template <typename I, int BLOCK, int ITEMS>
__global__ void __launch_bounds__(BLOCK) mgpu_codes(int rows, I nnz, const I* __restrict__ row_ptr,
                                                    const unsigned* __restrict__ limits, unsigned* __restrict__ codes) {
  __shared__ int warp_end[BLOCK / WARP];  // the last thread of each warp with an end, or -1
  const long long first = global_thread() * ITEMS;
  const long long end = first + ITEMS < nnz ? first + ITEMS : nnz;
  const int limit = limits[blockIdx.x] & 0x7fffffffu;
  unsigned ends = 0;
  int row = limit;
  if (first < end) {
    row = first_behind(row_ptr, limit, rows, static_cast<I>(first)) - 1;
    for (int r = row; r < rows && row_ptr[r + 1] <= end; ++r) ends |= 1u << (row_ptr[r + 1] - 1 - first);
  }
  const int back = lanes_back(ends != 0);
  const int warp = threadIdx.x / WARP;
  if (lane_id() == WARP - 1) warp_end[warp] = back < WARP ? static_cast<int>(threadIdx.x) - back : -1;
  __syncthreads();
  int from = static_cast<int>(threadIdx.x) - back;
  if (back > lane_id()) {
    from = 0;
    for (int w = warp - 1; w >= 0 && from == 0; --w) from = max(warp_end[w], 0);
  }
  // After the last entry the row is that after the last row.
  const int relative = (first < end ? row : rows) - limit;
  codes[global_thread()] = ends | (threadIdx.x - from) << 13 | static_cast<unsigned>(relative) << 20;
}

// A lane's bits each, and a tile's first entry and row by its first lane; (nnz, rows) after the last.
template <typename I, int SIGMA>
__global__ void merbit_fields(int rows, I nnz, int tiles, const I* __restrict__ row_ptr, int* __restrict__ tile_entry,
                              unsigned* __restrict__ tile_row, typename LaneBits<SIGMA>::Word* __restrict__ lane_bits) {
  using Word = typename LaneBits<SIGMA>::Word;
  const long long lane = global_thread();
  const int tile = static_cast<int>(lane / WARP);
  if (tile >= tiles) return;  // the whole warp
  const long long steps = rows + static_cast<long long>(nnz);
  const long long begin = lane * SIGMA < steps ? lane * SIGMA : steps;
  const int first_row = merge_path_search<long long>(begin, rows, nnz, [=](int i) { return row_ptr[i + 1]; });
  const long long first_entry = begin - first_row;
  int row = first_row;
  long long entry = first_entry;
  Word ends = 0;
  for (int step = 0; step < SIGMA && begin + step < steps; ++step) {
    if (entry < row_ptr[row + 1]) {
      ++entry;
    } else {
      ends |= Word(1) << step;
      ++row;
    }
  }
  const int tile_first_row = __shfl_sync(FULL_MASK, first_row, 0);
  const int tile_first_entry = __shfl_sync(FULL_MASK, static_cast<int>(first_entry), 0);
  const bool any = __any_sync(FULL_MASK, ends != 0);
  if (begin < steps) {
    lane_bits[lane] =
        LaneBits<SIGMA>(static_cast<int>(first_entry) - tile_first_entry, first_row - tile_first_row, ends).word;
  }
  if (lane_id() > 0) return;
  tile_entry[tile] = tile_first_entry;
  tile_row[tile] = first_row | (any ? 0u : NO_END);
  if (tile == tiles - 1) {
    tile_entry[tiles] = static_cast<int>(nnz);
    tile_row[tiles] = rows;
  }
}

enum Cut { ENTRIES, OWNERS, MERGE };

// The row in which each share of `tile` steps begins. ENTRIES: the row of its first entry, the first row for the first
// share, and the number of rows in the end. OWNERS: likewise, but the row of the first entry, and the last row. MERGE:
// steps are row ends and entries; the first row that has not ended.
template <int CUT, typename I>
__global__ void cut_rows(int n, int rows, long long nnz, long long tile, const I* __restrict__ row_ptr,
                         int* __restrict__ found) {
  const long long at = global_thread();
  if (at >= n) return;
  const long long all = CUT == MERGE ? rows + nnz : nnz;
  const long long step = at * tile < all ? at * tile : all;
  if (CUT != MERGE) {
    const int row = first_behind(row_ptr, 0, rows + 1, static_cast<I>(step)) - 1;
    if (CUT == ENTRIES) found[at] = at ? row : 0;
    if (CUT == OWNERS) found[at] = at < n - 1 ? row : rows > 1 ? rows - 1 : 0;
    return;
  }
  int low = 0, high = rows;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (static_cast<long long>(row_ptr[middle + 1]) + middle + 1 <= step) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  found[at] = low;
}
