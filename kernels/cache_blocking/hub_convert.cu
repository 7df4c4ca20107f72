// The order of columns by hubs on the device; see spmvbench/formats/cache_blocking/hub.py.
#include "largest.cuh"
#include "private_counts.cuh"

constexpr int SECTOR = 8;  // counts

// Entries of each column, zero before. share: entries of a block.
__global__ void hub_count(long long nnz, int share, const int* __restrict__ col_idx, int* __restrict__ counts) {
  __shared__ PrivateCounts own;
  own.begin();
  const long long begin = static_cast<long long>(blockIdx.x) * share;
  const long long end = begin + share < nnz ? begin + share : nnz;
  // Where a warp's columns are neighbours, its additions to the counts of all blocks take few sectors.
  const long long mine = begin + threadIdx.x;
  const unsigned neighbours = __match_any_sync(FULL_MASK, mine < end ? col_idx[mine] / SECTOR : -1);
  const unsigned firsts = __ballot_sync(FULL_MASK, __ffs(static_cast<int>(neighbours)) == lane_id() + 1);
  int luck = __popc(firsts) > WARP / 2 ? 0 : LEAST_LUCK - 1;
#pragma unroll 4
  for (long long k = begin + threadIdx.x; k < end; k += blockDim.x) own.add(load_stream(col_idx + k), counts, luck);
  own.end(counts);
}

// found, zero before: columns that have entries, and the most entries of one.
__global__ void hub_used(int cols, const int* __restrict__ counts, unsigned long long* __restrict__ found) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  int used = 0, most = 0;
  for (long long column = global_thread(); column < cols; column += stride) {
    const int count = counts[column];
    used += count > 0;
    most = most < count ? count : most;
  }
  add_once(found, used);
  most = warp_max(most);
  if (lane_id() == 0) note_most(found + 1, most);
}

// The place of each entry's column.
__global__ void hub_columns(long long nnz, const int* __restrict__ col_idx, const int* __restrict__ places,
                            int* __restrict__ columns) {
  constexpr int EACH = 4;
  const long long first = global_thread() / WARP * (EACH * WARP) + lane_id();
  int column[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const long long k = first + i * WARP;
    column[i] = k < nnz ? load_stream(col_idx + k) : -1;
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    if (column[i] >= 0) columns[first + i * WARP] = places[column[i]];
  }
}
