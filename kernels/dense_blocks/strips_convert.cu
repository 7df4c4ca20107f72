// Which small blocks a sweep over each block row closes, and what is in them; see
// spmvbench/formats/dense_blocks/strips.py.
#include "strips.cuh"
#include "spmv.cuh"

// Sweeps over the R rows of a block row: a block begins at the first column that is not covered and is `across` columns
// wide. close(column, from, to) takes each, with the entries that it has of every row.
template <int R, typename I, typename Close>
__device__ __forceinline__ void sweep(long long block_row, int rows, int across, const I* __restrict__ row_ptr,
                                      const int* __restrict__ col_idx, Close close) {
  I at[R], from[R], end[R];
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const long long row = block_row * R + i;
    at[i] = row < rows ? row_ptr[row] : 0;
    end[i] = row < rows ? row_ptr[row + 1] : 0;
  }
  while (true) {
    int column = 0x7fffffff;  // no entry has it
#pragma unroll
    for (int i = 0; i < R; ++i) {
      if (at[i] < end[i]) column = min(column, col_idx[at[i]]);
    }
    if (column == 0x7fffffff) return;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      from[i] = at[i];
      while (at[i] < end[i] && col_idx[at[i]] - column < across) ++at[i];
    }
    close(column, from, at);
  }
}

// Of each block row, the blocks with at least `fewest` entries. longest, 0 before: the most entries of a row in others.
// Where MARK is set, held says of each entry whether it is in one of them.
template <typename I, int R, bool MARK>
__global__ void strips_sweep(int block_rows, int rows, int across, int fewest, const I* __restrict__ row_ptr,
                             const int* __restrict__ col_idx, int* __restrict__ kept, int* __restrict__ longest,
                             bool* __restrict__ held) {
  const long long block_row = global_thread();
  if (block_row >= block_rows) return;
  int blocks = 0;
  int left[R] = {};
  sweep<R>(block_row, rows, across, row_ptr, col_idx, [&](int, const I(&from)[R], const I(&to)[R]) {
    int entries = 0;
#pragma unroll
    for (int i = 0; i < R; ++i) entries += static_cast<int>(to[i] - from[i]);
    const bool keep = entries >= fewest;
    blocks += keep;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      if (!keep) left[i] += static_cast<int>(to[i] - from[i]);
      if (MARK) {
        for (I k = from[i]; k < to[i]; ++k) held[k] = keep;
      }
    }
  });
  kept[block_row] = blocks;
#pragma unroll
  for (int i = 0; i < R; ++i) {
    if (left[i] > *static_cast<volatile int*>(longest)) atomicMax(longest, left[i]);
  }
}

// The blocks of strips. block_ptr: (block rows + 1,), first block of each block row. values is 0 before.
template <typename V, typename I, typename B, int R>
__global__ void strips_fill(int block_rows, int rows, int across, const I* __restrict__ row_ptr,
                            const int* __restrict__ col_idx, const V* __restrict__ entries,
                            const B* __restrict__ block_ptr, unsigned char* __restrict__ block_row_of,
                            int* __restrict__ block_col, V* __restrict__ values) {
  const long long block_row = global_thread();
  if (block_row >= block_rows) return;
  const long long strip = block_row * R / STRIP;
  const long long last = (strip + 1) * STRIP / R;
  const long long begin = block_ptr[strip * STRIP / R];
  const long long blocks = block_ptr[last < block_rows ? last : block_rows] - begin;
  long long block = block_ptr[block_row];
  sweep<R>(block_row, rows, across, row_ptr, col_idx, [&](int column, const I(&from)[R], const I(&to)[R]) {
    block_row_of[block] = static_cast<unsigned char>(block_row * R % STRIP);
    block_col[block] = column;
    V* value = values + begin * (R * across) + (block - begin);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      for (I k = from[i]; k < to[i]; ++k) value[(i * across + (col_idx[k] - column)) * blocks] = entries[k];
    }
    ++block;
  });
}
