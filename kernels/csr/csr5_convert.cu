// CSR to CSR5 on the device, a warp per tile: what spmvbench/formats/csr/csr5.py computes by arrays on the host, in one
// pass.
#include "csr5.cuh"
#include "search.cuh"
#include "spmv.cuh"

constexpr int CONVERT_BLOCK = 64;

// The entries of one lane, and the rows that begin there.
template <typename I, int SIGMA>
struct Lane {
  const I* __restrict__ row_ptr;
  int rows;
  I begin, end;
  int behind;   // the first row that begins after the lane's first entry; the row before owns that entry
  bool begins;  // whether that entry is its row's first

  __device__ __forceinline__ Lane(const I* __restrict__ row_ptr, int rows, I nnz, int tile)
      : row_ptr(row_ptr), rows(rows) {
    const long long first = (static_cast<long long>(tile) * WARP + lane_id()) * SIGMA;
    begin = static_cast<I>(first < nnz ? first : nnz);
    end = static_cast<I>(first + SIGMA < nnz ? first + SIGMA : nnz);
    const long long of_warp = static_cast<long long>(tile) * WARP * SIGMA;
    behind = first_behind_of_warp(row_ptr, 0, rows, static_cast<I>(of_warp < nnz ? of_warp : nnz));
    behind = row_from(row_ptr, behind - 1, rows, begin) + 1;
    begins = begin < end && row_ptr[behind - 1] == begin;
  }

  // visit(row, step) for every row with entries that begins after the lane's first entry, in order.
  template <typename Visit>
  __device__ __forceinline__ void visit_rows(Visit visit) const {
    for (int row = behind; row < rows && row_ptr[row] < end; ++row) {
      const I entry = row_ptr[row];
      // Empty rows come before the one that holds the entry.
      if (row_ptr[row + 1] == entry) row = row_from(row_ptr, row, rows, entry);
      visit(row, static_cast<int>(entry - begin));
    }
  }
};

// All but empty_offset; tile `tiles` is the tail, which is copied. slots: (tiles + 1,), of empty_offset, a dirty tile's
// after its number. counts, zero before: row of the tail's first entry, empty rows, slots.
template <typename V, typename I, int SIGMA>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    csr5_convert(int rows, I nnz, int tiles, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                 const V* __restrict__ values, unsigned* __restrict__ tile_ptr, unsigned* __restrict__ tile_desc,
                 int* __restrict__ slots, int* __restrict__ counts, int* __restrict__ tile_col_idx,
                 V* __restrict__ tile_values) {
  using Layout = Descriptor<SIGMA>;
  constexpr int SIZE = WARP * SIGMA;
  constexpr int STRIDE = SIGMA | 1;  // of lanes in shared memory: odd, so that they meet in no bank
  __shared__ V staged_values[CONVERT_BLOCK / WARP][WARP * STRIDE];
  __shared__ int staged_columns[CONVERT_BLOCK / WARP][WARP * STRIDE];

  const long long warp = global_thread() / WARP;
  if (warp > tiles) return;  // the whole warp
  const int tile = static_cast<int>(warp);
  const int lane = lane_id();
  const long long at = warp * SIZE;

  // The loads first: the descriptor's searches take as long as they do.
  V* values_here = staged_values[threadIdx.x / WARP];
  int* columns_here = staged_columns[threadIdx.x / WARP];
  if (tile < tiles) {
#pragma unroll
    for (int step = 0; step < SIGMA; ++step) {
      const int k = step * WARP + lane;
      const int slot = k / SIGMA * STRIDE + k % SIGMA;
      values_here[slot] = load_stream(values + at + k);
      columns_here[slot] = load_stream(col_idx + at + k);
    }
  } else {
    for (long long k = at + lane; k < nnz; k += WARP) {
      tile_values[k] = values[k];
      tile_col_idx[k] = col_idx[k];
    }
  }

  const Lane<I, SIGMA> part(row_ptr, rows, nnz, tile);
  unsigned flags = part.begins ? 0x80000000u : 0;
  part.visit_rows([&](int, int step) { flags |= 0x80000000u >> step; });
  const unsigned forced = lane == 0 ? flags | 0x80000000u : flags;  // the tile's first entry opens a segment
  const unsigned flagged = __ballot_sync(FULL_MASK, forced != 0);
  const int segments = group_scan<WARP>(__popc(forced));  // of the lanes so far
  const int total = __shfl_sync(FULL_MASK, segments, WARP - 1);
  const int owner = __shfl_sync(FULL_MASK, part.behind, 0) - 1;
  const int last_behind = __shfl_sync(FULL_MASK, part.behind, WARP - 1);

  // Rows from the owner to the next tile's, or to the end, less those that hold entries.
  int next_owner = rows;
  bool next_begins = true;
  if (tile < tiles) {
    const I next = static_cast<I>(at + SIZE);
    next_owner = row_from(row_ptr, last_behind - 1, rows, next);
    next_begins = row_ptr[next_owner] == next;
  }
  const int empty = next_owner - owner - (total - 1) - next_begins;
  if (lane == 0) {
    tile_ptr[tile] = owner | (empty ? DIRTY : 0u);
    const int all_empty = empty + (tile == 0 ? owner : 0);
    if (all_empty) atomicAdd(counts + 1, all_empty);
    if (tile == 0) slots[0] = 0;
    if (tile < tiles) {
      slots[tile + 1] = empty ? total : 0;
      if (empty) atomicAdd(counts + 2, total);
    } else {
      tile_ptr[tiles + 1] = rows;
      counts[0] = owner;
    }
  }
  if (tile == tiles) return;

  const unsigned behind = lane < WARP - 1 ? flagged >> (lane + 1) : 0;
  const unsigned y_offset = lane == 0 ? 0 : segments - __popc(forced) - 1;
  const unsigned seg_offset = !forced ? 0 : behind ? __ffs(static_cast<int>(behind)) - 1 : WARP - 1 - lane;
  unsigned* packet = tile_desc + static_cast<long long>(tile) * (Layout::PACKETS * WARP) + lane;
  const unsigned head = y_offset << (32 - Layout::OFFSET_BITS) | seg_offset << (32 - Layout::HEAD_BITS);
  packet[0] = head | flags >> Layout::HEAD_BITS;
  if (Layout::PACKETS == 2) packet[WARP] = flags << (32 - Layout::HEAD_BITS);

  __syncwarp();
#pragma unroll
  for (int step = 0; step < SIGMA; ++step) {
    tile_values[at + step * WARP + lane] = values_here[lane * STRIDE + step];
    tile_col_idx[at + step * WARP + lane] = columns_here[lane * STRIDE + step];
  }
}

// empty_offset, zero before, of the dirty tiles.
template <typename I, int SIGMA>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    csr5_empty_offsets(int rows, I nnz, int tiles, const I* __restrict__ row_ptr, const unsigned* __restrict__ tile_ptr,
                       const unsigned* __restrict__ tile_desc, const int* __restrict__ empty_ptr,
                       int* __restrict__ empty_offset) {
  using Layout = Descriptor<SIGMA>;
  const long long warp = global_thread() / WARP;
  if (warp >= tiles || !(tile_ptr[warp] & DIRTY)) return;  // the whole warp
  const int tile = static_cast<int>(warp);
  const int owner = tile_ptr[tile] & ~DIRTY;
  const unsigned head = tile_desc[warp * (Layout::PACKETS * WARP) + lane_id()];
  int* slot = empty_offset + empty_ptr[tile] + (head >> (32 - Layout::OFFSET_BITS));

  const Lane<I, SIGMA> part(row_ptr, rows, nnz, tile);
  if (part.begins && lane_id() > 0) *slot++ = part.behind - 1 - owner - 1;
  part.visit_rows([&](int row, int) { *slot++ = row - owner - 1; });
}
