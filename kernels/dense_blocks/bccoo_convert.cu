// BCCOO's arrays from block CSR, and a matrix's vertical slices one below the other; see
// spmvbench/formats/dense_blocks/bccoo.py.
#include "bccoo.cuh"
#include "search.cuh"
#include "spmv.cuh"

// A thread of the format each, in blocks of a group. ends: (block rows + 1,), the first block of each block row, and
// after the last. Block and values are those of block CSR, filled up. escapes is 0 before.
template <typename V, typename C, typename F, typename I, bool DELTA>
__global__ void bccoo_pack(int h, int w, int steps, int block_rows, long long threads, long long across,
                           const I* __restrict__ ends, const int* __restrict__ block_col, const V* __restrict__ values,
                           V* __restrict__ packed, C* __restrict__ columns, short* __restrict__ delta,
                           F* __restrict__ flags, int* __restrict__ first_row, unsigned char* __restrict__ need_scan,
                           int* __restrict__ escapes) {
  const long long t = global_thread();
  const int size = h * w;
  const long long line = threads * steps * w;
  const long long first = t * steps;
  int row = static_cast<int>(first_behind(ends + 1, 0, block_rows, static_cast<I>(first)));
  first_row[t] = row;
  if (t == threads - 1) first_row[threads] = block_rows;
  unsigned bits = 0;
  int before = -1;
  int escaped = 0;
  bool stops = false;
  for (int j = 0; j < steps; ++j) {
    const long long block = first + j;
    const bool stop = row < block_rows && ends[row + 1] == block + 1;
    if (!stop) bits |= 1u << j;
    row += stop;
    stops |= stop;
    const int column = block_col[block];
    const long long at = (t / across * steps + j) * across + t % across;
    columns[at] = static_cast<C>(column);
    if (DELTA) {
      const bool fits = column >= 0 && before >= 0 && abs(column - before) < -FULL_COLUMN;
      delta[at] = static_cast<short>(fits ? column - before : FULL_COLUMN);
      escaped += !fits && column >= 0 && j > 0;
      before = column;
    }
    for (int e = 0; e < size; ++e) packed[e / w * line + at * w + e % w] = values[block * size + e];
  }
  flags[t] = static_cast<F>(bits);
  if (DELTA) {
    escaped = group_sum<WARP>(escaped);
    if (lane_id() == 0 && escaped) atomicAdd(escapes, escaped);
  }
  const bool some = __syncthreads_or(!stops);
  if (threadIdx.x == 0) need_scan[blockIdx.x] = some;
}

// Of every row, where its part in each vertical slice begins and how many entries that has: (slices, height) each.
// Slices are `width` columns wide, the last takes the rest. counts is 0 before, for the rows that fill a slice up.
template <typename I>
__global__ void slice_rows(int rows, int slices, int width, long long height, const I* __restrict__ row_ptr,
                           const int* __restrict__ col_idx, I* __restrict__ firsts, I* __restrict__ counts) {
  const long long row = global_thread();
  if (row >= rows) return;
  const I end = row_ptr[row + 1];
  I begin = row_ptr[row];
  for (int s = 0; s < slices; ++s) {
    const long long edge = (s + 1) * static_cast<long long>(width);  // may be after the last column of any row
    const I next = s == slices - 1 || edge > 0x7fffffff
                       ? end
                       : entry_from(col_idx, begin, end, static_cast<int>(edge), static_cast<I>(0));
    firsts[s * height + row] = begin;
    counts[s * height + row] = next - begin;
    begin = next;
  }
}

// Every entry to its slice. A warp takes 32 neighbouring entries at a time, `each` times.
template <typename V, typename I>
__global__ void slice_entries(int rows, I nnz, int slices, int width, long long height, int each,
                              const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                              const V* __restrict__ values, const I* __restrict__ firsts,
                              const I* __restrict__ tall_ptr, int* __restrict__ tall_col, V* __restrict__ tall_values) {
  long long k = global_thread() / WARP * (static_cast<long long>(each) * WARP) + lane_id();
  int row = k < nnz ? first_behind(row_ptr, 0, rows, static_cast<I>(k)) - 1 : 0;
  for (int i = 0; i < each && k < nnz; ++i, k += WARP) {
    row = row_from(row_ptr, row, rows, static_cast<I>(k));
    const int column = col_idx[k];
    const int slice = min(column / width, slices - 1);
    const long long part = slice * height + row;
    const long long at = tall_ptr[part] + (k - firsts[part]);
    tall_col[at] = column;
    tall_values[at] = values[k];
  }
}
