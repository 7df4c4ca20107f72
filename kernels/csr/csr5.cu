// CSR5 (Liu & Vinter, ICS'15): tiles of 32 lanes times SIGMA entries, stored step by step, with a descriptor of bits
// that says for each lane where rows begin. The sums of a tile need no row pointers and no branch on how rows look.
#include "carry.cuh"
#include "csr5.cuh"
#include "epilogue.cuh"
#include "spmv.cuh"

// The paper's steps: y is zero; the tiles leave their first row's part to carry_add; the tail comes last.
template <typename V, int SIGMA, typename S = V>
__global__ void csr5_tiles(int tiles, const unsigned* __restrict__ tile_ptr, const unsigned* __restrict__ tile_desc,
                           const int* __restrict__ empty_ptr, const int* __restrict__ empty_offset,
                           const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                           V* __restrict__ y, int* __restrict__ carry_row, V* __restrict__ calibrator) {
  const long long tile = global_thread() / WARP;
  if (tile >= tiles) return;  // the whole warp
  const Tiles<V, int, const S*> a{tile_ptr, tile_desc, empty_ptr, empty_offset, col_idx, values};
  sum_tile<false, false, V, SIGMA, 1>(
      a, static_cast<int>(tile), x, y, [=](int row, V sum) { y[row] = sum; },
      [=](int row, V sum, bool) {
        carry_row[tile] = row;
        calibrator[tile] = sum;
      });
}

template <typename V, typename I, typename S = V>
__global__ void csr5_tail(int rows, int first_row, I tail, const I* __restrict__ row_ptr,
                          const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                          V* __restrict__ y) {
  const long long row = first_row + global_thread() / WARP;
  if (row >= rows) return;  // the whole warp
  const Tiles<V, int, const S*> a{nullptr, nullptr, nullptr, nullptr, col_idx, values};
  const V sum = sum_tail<V, I>(row_ptr, static_cast<int>(row), tail, a, x);
  if (lane_id() > 0) return;
  if (row_ptr[row] < tail) {
    y[row] += sum;  // the rest is in tiles
  } else {
    y[row] = sum;
  }
}

// All of it in one launch: a warp per tile, then a warp per row of the tail. CUT, whole: as csr5_share has them.
template <typename V, typename I, int SIGMA, int BATCH, int CUT, typename S = V, typename Y = V*>
__global__ void csr5_fused(int rows, int tiles, int first_row, const I* __restrict__ row_ptr,
                           const unsigned* __restrict__ tile_ptr, const unsigned* __restrict__ tile_desc,
                           const int* __restrict__ empty_ptr, const int* __restrict__ empty_offset,
                           const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                           V* __restrict__ y, Y whole) {
  const Tiles<V, int, const S*> a{tile_ptr, tile_desc, empty_ptr, empty_offset, col_idx, values};
  csr5_share<CUT, true, SIGMA, BATCH>(global_thread() / WARP, rows, tiles, first_row, row_ptr, a, x, y, whole);
}

// The same without values: all are *value.
template <typename V, typename I, int SIGMA, int BATCH, int CUT, typename S = V, typename Y = V*>
__global__ void csr5_fused_nv(int rows, int tiles, int first_row, const I* __restrict__ row_ptr,
                              const unsigned* __restrict__ tile_ptr, const unsigned* __restrict__ tile_desc,
                              const int* __restrict__ empty_ptr, const int* __restrict__ empty_offset,
                              const int* __restrict__ col_idx, const S* __restrict__ value, const V* __restrict__ x,
                              V* __restrict__ y, Y whole) {
  const Tiles<V, int, Same<S>> a{tile_ptr, tile_desc, empty_ptr, empty_offset, col_idx, {*value}};
  csr5_share<CUT, true, SIGMA, BATCH>(global_thread() / WARP, rows, tiles, first_row, row_ptr, a, x, y, whole);
}

// The same with the numbers of the values among the known ones.
template <typename V, typename I, int SIGMA, int BATCH, int CUT, typename K, typename S = V, typename Y = V*>
__global__ void csr5_fused_coded(int rows, int tiles, int first_row, const I* __restrict__ row_ptr,
                                 const unsigned* __restrict__ tile_ptr, const unsigned* __restrict__ tile_desc,
                                 const int* __restrict__ empty_ptr, const int* __restrict__ empty_offset,
                                 const int* __restrict__ col_idx, const K* __restrict__ number,
                                 const S* __restrict__ known, const V* __restrict__ x, V* __restrict__ y, Y whole) {
  const Tiles<V, int, Coded<S, K>> a{tile_ptr, tile_desc, empty_ptr, empty_offset, col_idx, {known, number}};
  csr5_share<CUT, true, SIGMA, BATCH>(global_thread() / WARP, rows, tiles, first_row, row_ptr, a, x, y, whole);
}
