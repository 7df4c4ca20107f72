// The order of columns by hubs on the device; see spmvbench/formats/cache_blocking/hub.py.
#include "spmv.cuh"

constexpr int LAST = 0x7fffffff;

// Entries of each column, zero before: lanes with one column add once.
__global__ void hub_count(long long nnz, const int* __restrict__ col_idx, int* __restrict__ counts) {
  const long long k = global_thread();
  const int column = k < nnz ? load_stream(col_idx + k) : -1;
  const unsigned peers = __match_any_sync(FULL_MASK, column);
  if (column >= 0 && !(peers & ((1u << lane_id()) - 1))) atomicAdd(counts + column, __popc(peers));
}

// used, zero before: columns that have entries.
__global__ void hub_used(int cols, const int* __restrict__ counts, unsigned* __restrict__ used) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  int found = 0;
  for (long long column = global_thread(); column < cols; column += stride) found += counts[column] > 0;
  found = group_sum<WARP>(found);
  if (lane_id() == 0 && found) atomicAdd(used, static_cast<unsigned>(found));
}

// What to sort columns by: hubs, of more than `least` entries, by falling number, the others as they are, empty ones
// last.
__global__ void hub_keys(int cols, double least, const int* __restrict__ counts, long long* __restrict__ keys) {
  const long long column = global_thread();
  if (column >= cols) return;
  const int entries = counts[column];
  const long long rank = entries > least ? LAST - entries : LAST;
  keys[column] = entries ? rank << 32 | column : 0x7fffffffffffffffLL;
}

// The columns in order, and the place of each.
__global__ void hub_places(int used, const long long* __restrict__ keys, int* __restrict__ order,
                           int* __restrict__ places) {
  const long long place = global_thread();
  if (place >= used) return;
  const int column = static_cast<int>(keys[place] & LAST);
  order[place] = column;
  places[column] = static_cast<int>(place);
}
