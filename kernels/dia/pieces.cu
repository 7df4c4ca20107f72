// Diagonals in pieces: of blocks of unknowns, of exact lengths, between cuts, by patterns that segments share; see
// spmvbench/formats/dia.
#include "dia.cuh"

constexpr int BLOCK = 128;

// CDS (Godwin, Holewinski & Sadayappan 2012): D unknowns a node, D vectors over all rows a block diagonal. A block is
// inside the matrix or outside as a whole. BLOCKS block diagonals are under way at a time.
template <typename V, int D, int BLOCKS, bool ADD>
__global__ void __launch_bounds__(BLOCK, 10)
    cds_spmv(int rows, int block_cols, int diagonals, long long pitch, const int* __restrict__ offset,
             const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const unsigned row = blockIdx.x * BLOCK + threadIdx.x;
  if (row >= rows) return;
  const unsigned node = row / D;
  V sum = 0;
  values += row;
#pragma unroll 1
  for (int k = 0; k < diagonals; k += BLOCKS) {
    V value[BLOCKS][D];
    V factor[BLOCKS][D];
#pragma unroll
    for (int u = 0; u < BLOCKS; ++u) {
#pragma unroll
      for (int j = 0; j < D; ++j) value[u][j] = k + u < diagonals ? load_stream(values + (u * D + j) * pitch) : V(0);
    }
    values += BLOCKS * D * pitch;
#pragma unroll
    for (int u = 0; u < BLOCKS; ++u) {
      const unsigned column = node + (k + u < diagonals ? __ldg(offset + k + u) : 0);
#pragma unroll
      for (int j = 0; j < D; ++j) {
        factor[u][j] = k + u < diagonals && column < block_cols ? __ldg(x + (column * D + j)) : V(0);
      }
    }
#pragma unroll
    for (int u = 0; u < BLOCKS; ++u) {
#pragma unroll
      for (int j = 0; j < D; ++j) sum += value[u][j] * factor[u][j];
    }
  }
  put<ADD>(y + row, sum);
}

// DDD-NAIVE: a diagonal has as many values as it has places, from first[d] on for row 0 (which may lie before it).
template <typename V, bool ADD>
__global__ void __launch_bounds__(BLOCK, 10)
    ddd_naive(int rows, int cols, int diagonals, const int* __restrict__ offset, const long long* __restrict__ first,
              const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  constexpr int BATCH = 4;
  const unsigned row = blockIdx.x * BLOCK + threadIdx.x;
  if (row >= rows) return;
  V sum = 0;
#pragma unroll 1
  for (int d = 0; d < diagonals; d += BATCH) {
    V value[BATCH];
    V factor[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const unsigned column = d + u < diagonals ? row + __ldg(offset + d + u) : cols;
      const bool inside = column < cols;
      value[u] = inside ? load_stream(values + (__ldg(first + d + u) + row)) : V(0);
      factor[u] = inside ? __ldg(x + column) : V(0);
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) sum += value[u] * factor[u];
  }
  put<ADD>(y + row, sum);
}

// DDD-SPLIT: between two cuts the same diagonals are there for all rows, and no test is needed. A block lies between two
// cuts: tiles names its segment and its first row. A thread has two rows, a block's width apart; where the second lies
// behind the cut, it is the last before it once more.
template <typename V, bool ADD>
__global__ void __launch_bounds__(BLOCK, 8)
    ddd_split(const int2* __restrict__ tiles, const int* __restrict__ cut, const long long* __restrict__ value_ptr,
              const int* __restrict__ offset_ptr, const int* __restrict__ offset, const V* __restrict__ values,
              const V* __restrict__ x, V* __restrict__ y) {
  constexpr int BATCH = 4;
  const int2 tile = __ldg(tiles + blockIdx.x);
  const int begin = __ldg(cut + tile.x);
  const int end = __ldg(cut + tile.x + 1);
  const int from = __ldg(offset_ptr + tile.x);
  const int diagonals = __ldg(offset_ptr + tile.x + 1) - from;
  const int row = tile.y + threadIdx.x;
  if (row >= end) return;
  const int apart = min(BLOCK, end - 1 - row);
  const long long stride = end - begin;
  values += __ldg(value_ptr + tile.x) + (row - begin);
  offset += from;
  x += row;
  V sum[2] = {V(0), V(0)};
#pragma unroll 1
  for (int d = 0; d < diagonals; d += BATCH) {
    int at[BATCH];
    V value[BATCH][2];
    V factor[BATCH][2];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const bool inside = d + u < diagonals;
      at[u] = __ldg(offset + (inside ? d + u : d));
      value[u][0] = inside ? load_stream(values + u * stride) : V(0);
      value[u][1] = inside ? load_stream(values + u * stride + apart) : V(0);
    }
    values += BATCH * stride;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const bool inside = d + u < diagonals;
      factor[u][0] = inside ? __ldg(x + at[u]) : V(0);
      factor[u][1] = inside ? __ldg(x + (at[u] + apart)) : V(0);
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      sum[0] += value[u][0] * factor[u][0];
      sum[1] += value[u][1] * factor[u][1];
    }
  }
  put<ADD>(y + row, sum[0]);
  if (apart == BLOCK) put<ADD>(y + row + BLOCK, sum[1]);
}

// CRSD: a block a segment of BLOCK rows, whose diagonals stand in a pattern that segments share.
template <typename V, typename I, bool ADD>
__global__ void __launch_bounds__(BLOCK, 10)
    crsd_spmv(int rows, int cols, const I* __restrict__ segment_ptr, const int* __restrict__ pattern,
              const int* __restrict__ pattern_ptr, const int* __restrict__ offset, const V* __restrict__ values,
              const V* __restrict__ x, V* __restrict__ y) {
  const unsigned row = blockIdx.x * BLOCK + threadIdx.x;
  if (row >= rows) return;
  const I begin = __ldg(segment_ptr + blockIdx.x);
  const int diagonals = static_cast<int>(__ldg(segment_ptr + blockIdx.x + 1) - begin);
  const int* offsets = offset + __ldg(pattern_ptr + __ldg(pattern + blockIdx.x));
  V sum[1] = {V(0)};
  sum_diagonals<1, 4, sizeof(V) == 8>(row, cols, diagonals, BLOCK, offsets,
                                      values + (static_cast<long long>(begin) * BLOCK + threadIdx.x), x, sum);
  put<ADD>(y + row, sum[0]);
}
