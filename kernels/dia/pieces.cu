// Diagonals in pieces: of blocks of unknowns, of exact lengths, between cuts; see spmvbench/formats/dia.
#include "dia.cuh"

constexpr int BLOCK = 128;

// CDS (Godwin, Holewinski & Sadayappan 2012): D unknowns per node, D vectors over all rows per block diagonal. A block
// is inside the matrix or outside as a whole. BLOCKS block diagonals are in flight at a time.
template <typename V, int D, int BLOCKS, bool ADD, typename S = V>
__global__ void __launch_bounds__(BLOCK, blocks<V>(10))
    cds_spmv(int rows, int block_cols, int diagonals, long long pitch, const int* __restrict__ offset,
             const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const unsigned row = global_thread<V>();
  if (row >= rows) return;
  const unsigned node = row / D;
  V sum = 0;
  values += row;
#pragma unroll 1
  for (int k = 0; k < diagonals; k += BLOCKS) {
    S value[BLOCKS][D];
    V factor[BLOCKS][D];
#pragma unroll
    for (int u = 0; u < BLOCKS; ++u) {
#pragma unroll
      for (int j = 0; j < D; ++j) value[u][j] = k + u < diagonals ? load_diagonal(values + (u * D + j) * pitch) : S(0);
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

// DDD-NAIVE: a diagonal has as many values as it has places, from first[d] on for row 0 (which may be before it).
template <typename V, bool ADD, typename S = V>
__global__ void __launch_bounds__(BLOCK, blocks<V>(10))
    ddd_naive(int rows, int cols, int diagonals, const int* __restrict__ offset, const long long* __restrict__ first,
              const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  constexpr int BATCH = 4;
  const unsigned row = global_thread<V>();
  if (row >= rows) return;
  V sum = 0;
#pragma unroll 1
  for (int d = 0; d < diagonals; d += BATCH) {
    S value[BATCH];
    V factor[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const unsigned column = d + u < diagonals ? row + __ldg(offset + d + u) : cols;
      const bool inside = column < cols;
      value[u] = inside ? load_stream(values + (__ldg(first + d + u) + row)) : S(0);
      factor[u] = inside ? __ldg(x + column) : V(0);
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) sum += value[u] * factor[u];
  }
  put<ADD>(y + row, sum);
}

// DDD-SPLIT: between two cuts the same diagonals are there for all rows; after an odd number of rows is one of padding.
// A block has up to ROWS * BLOCK of them, a thread ROWS neighbours. tiles: of each block the first row, how many it
// has, the diagonals, and where their offsets begin; start: where its values begin, and how far apart two diagonals'
// are.
template <typename V, bool ADD, typename S = V>
__global__ void __launch_bounds__(BLOCK, blocks<V>(10))
    ddd_split(int cols, const int4* __restrict__ tiles, const longlong2* __restrict__ start,
              const int* __restrict__ offset, const S* __restrict__ values, const V* __restrict__ x,
              V* __restrict__ y) {
  constexpr int ROWS = 2;
  constexpr int BATCH = 4;
  const int4 tile = __ldg(tiles + blockIdx.x);
  const longlong2 place = __ldg(start + blockIdx.x);
  const int inside = threadIdx.x * ROWS;
  if (inside >= tile.y) return;
  const int row = tile.x + inside;
  V sum[ROWS] = {};
  sum_diagonals<ROWS, BATCH, false>(row, cols, tile.z, place.y, offset + tile.w, values + place.x + inside, x, sum);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (inside + r < tile.y) put<ADD>(y + row + r, sum[r]);
  }
}
