// Conversion to column-sweep on the device, in place of a few dozen array operations; see
// spmvbench/formats/caching/column_sweep.py.
#include "search.cuh"
#include "spmv.cuh"

// The key of each entry: row block, column, and in the low `digits` bits its number. entry: first of each block.
__global__ void sweep_keys(long long nnz, int blocks, int digits, long long cols, const long long* __restrict__ entry,
                           const int* __restrict__ col_idx, long long* __restrict__ keys) {
  const long long i = global_thread();
  if (i >= nnz) return;
  const long long block = first_behind(entry, 0, blocks, i) - 1;
  keys[i] = (block * cols + load_stream(col_idx + i)) << digits | i;
}

// Entries in the order of their keys to their places; a stretch is what a block has of a panel of 65,536 columns.
template <typename V>
__global__ void sweep_places(long long nnz, int digits, long long cols, int panels, const long long* __restrict__ keys,
                             const long long* __restrict__ stretch_begin, const int* __restrict__ chunk_begin,
                             const long long* __restrict__ first_row, const int* __restrict__ row_idx,
                             const V* __restrict__ from, unsigned* __restrict__ places, V* __restrict__ values) {
  const long long i = global_thread();
  if (i >= nnz) return;
  const long long key = load_stream(keys + i);
  const long long entry = key & ((1LL << digits) - 1);
  const long long block = (key >> digits) / cols;
  const unsigned column = static_cast<unsigned>((key >> digits) - block * cols);
  const long long stretch = block * panels + (column >> 16);
  const long long slot = static_cast<long long>(chunk_begin[stretch]) * WARP + i - stretch_begin[stretch];
  const unsigned row = static_cast<unsigned>(__ldg(row_idx + entry) - first_row[block]);
  places[slot] = row << 16 | (column & 0xffffu);
  values[slot] = __ldg(from + entry);
}
