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

constexpr int PIECE = 1024;  // columns: no block that is chosen by its bytes crosses a multiple of it
constexpr int WIDEST = 4;    // columns of a block

// Of each block row, the blocks that a dynamic program takes: those of all choices with which blocks, of block_bytes
// each, and entries in none, of entry_bytes each, take the fewest bytes. From the last column to the first it finds
// whether a block should begin there if the column is not covered (takes, (nnz,)), then walks from the first on.
// kept, longest, held: as strips_sweep has them.
template <typename I, int R, bool MARK>
__global__ void strips_program(int block_rows, int rows, int across, int entry_bytes, int block_bytes,
                               const I* __restrict__ row_ptr, const int* __restrict__ col_idx, bool* __restrict__ takes,
                               int* __restrict__ kept, int* __restrict__ longest, bool* __restrict__ held) {
  const long long block_row = global_thread();
  if (block_row >= block_rows) return;
  I begin[R], at[R], end[R];
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const long long row = block_row * R + i;
    begin[i] = row < rows ? row_ptr[row] : 0;
    at[i] = end[i] = row < rows ? row_ptr[row + 1] : 0;
  }
  // The nearest columns with entries on the right, in the same piece, and the bytes from each on; -1 where there is
  // none.
  int column_of[WIDEST], bytes_of[WIDEST];
  int piece = -1;
  while (true) {
    int column = -1;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      if (at[i] > begin[i]) column = max(column, col_idx[at[i] - 1]);
    }
    if (column < 0) break;
    if (column / PIECE != piece) {
      piece = column / PIECE;
#pragma unroll
      for (int u = 0; u < WIDEST; ++u) column_of[u] = -1, bytes_of[u] = 0;
    }
    I before[R];
    int entries = 0;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      before[i] = at[i];
      if (at[i] > begin[i] && col_idx[at[i] - 1] == column) --at[i], ++entries;
    }
    int after = 0;  // bytes from the first column on that a block here does not cover
#pragma unroll
    for (int u = WIDEST - 1; u >= 0; --u) {
      if (column_of[u] >= 0 && column_of[u] - column >= across) after = bytes_of[u];
    }
    const int without = entries * entry_bytes + bytes_of[0], with = block_bytes + after;
    const bool take = column % PIECE + across <= PIECE && with <= without;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      if (at[i] < before[i]) takes[at[i]] = take;
    }
#pragma unroll
    for (int u = WIDEST - 1; u > 0; --u) column_of[u] = column_of[u - 1], bytes_of[u] = bytes_of[u - 1];
    column_of[0] = column;
    bytes_of[0] = take ? with : without;
  }
  int blocks = 0;
  int left[R] = {};
  while (true) {  // at is where begin was
    int column = 0x7fffffff;
    bool take = false;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      if (at[i] < end[i] && col_idx[at[i]] < column) column = col_idx[at[i]], take = takes[at[i]];
    }
    if (column == 0x7fffffff) break;
    blocks += take;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      while (at[i] < end[i] && col_idx[at[i]] - column < (take ? across : 1)) {
        if (MARK) held[at[i]] = take;
        left[i] += !take;
        ++at[i];
      }
    }
  }
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
