// y = A x for a sparse x with both cut into tiles (TileSpMSpV, Ji et al., ICPP 2022); see
// spmvbench/formats/spmspv/tiles.py.
#include "sparse_vector.cuh"
#include "tile_mask.cuh"
#include "zero.cuh"

// x in tiles: a word for each tile with a bit for each entry, and the entries at their places. LANES threads per entry:
// the first of a tile makes its word, and that of empty tiles before it. y becomes zero.
template <typename V, int NT, int LANES>
__global__ void tile_x(int k, int rows, int cols, const int* __restrict__ index, const V* __restrict__ value,
                       typename MaskOf<NT>::Stored* __restrict__ x_mask, V* __restrict__ x_tile, V* __restrict__ y) {
  using Word = typename MaskOf<NT>::Word;
  const long long i = global_thread() / LANES;
  const int lane = threadIdx.x % LANES;
  const int tile_cols = cols / NT + (cols % NT > 0);
  const int column = i < k ? index[i] : cols;
  const int before = i > 0 && i < k ? index[i - 1] : -1;
  set_zero(y, rows);
  if (i > k) return;
  const int tile = i < k ? column / NT : tile_cols;  // after the last entry: empty tiles alone
  const int tile_before = i == 0 ? -1 : (i < k ? before : index[k - 1]) / NT;
  for (int t = tile_before + 1 + lane; t < tile; t += LANES) x_mask[t] = 0;
  if (i == k || lane > 0) return;
  x_tile[column] = value[i];
  if (tile != tile_before) {
    Word word = 0;
    for (long long j = i; j < k && index[j] / NT == tile; ++j) word |= Word(1) << index[j] % NT;
    x_mask[tile] = static_cast<typename MaskOf<NT>::Stored>(word);
  }
}

// All lanes' words in one.
__device__ __forceinline__ unsigned any_bits(unsigned word) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) word |= __shfl_xor_sync(FULL_MASK, word, offset);
  return word;
#else
  return __reduce_or_sync(FULL_MASK, word);
#endif
}

// Lists of entries that a warp multiplies as if they were one.
template <typename V, typename I>
struct Lists {
  I shift[WARP];  // from a product's number to its entry
  int first_row[WARP];
  V factor[WARP];
};

// WARP / TILES lanes per tile: they find which columns both the tile and x have and take them in turn. All lanes then
// go through the entries in those columns in line. y is zero.
template <typename V, typename I, int NT, int TILES>
__device__ __forceinline__ void multiply_tiles(int first_tile, int tiles, const int* __restrict__ tile_row,
                                               const int* __restrict__ tile_col,
                                               const typename MaskOf<NT>::Stored* __restrict__ tile_mask,
                                               const I* __restrict__ tile_list, const I* __restrict__ list_begin,
                                               const unsigned char* __restrict__ local, const V* __restrict__ values,
                                               const typename MaskOf<NT>::Stored* __restrict__ x_mask,
                                               const V* __restrict__ x_tile, Lists<V, I>& lists, V* __restrict__ y) {
  using Word = typename MaskOf<NT>::Word;
  constexpr int SHARE = WARP / TILES;
  constexpr int MANY = 2;
  const int lane = lane_id();
  const int tile = first_tile + lane / SHARE;
  Word mask = 0, left = 0;
  const V* x = x_tile;
  int first_row = 0;
  I first_list = 0;
  if (tile < tiles) {
    const int col = __ldg(tile_col + tile);
    mask = __ldg(tile_mask + tile);
    first_row = __ldg(tile_row + tile) * NT;
    first_list = __ldg(tile_list + tile);
    x += static_cast<long long>(col) * NT;
    left = mask & x_mask[col];
  }
  for (int turn = 0; turn < lane % SHARE; ++turn) left &= left - 1;
  while (true) {
    const unsigned having = __ballot_sync(FULL_MASK, left != 0);
    if (having == 0) break;
    I entry = 0;
    int entries = 0;
    V factor = 0;
    if (left != 0) {
      const Word below = (left & (~left + 1)) - 1;  // bits before the lowest that is set
      const I list = first_list + bits_in(mask & below);
      factor = x[bits_in(below)];
      entry = __ldg(list_begin + list);
      entries = static_cast<int>(__ldg(list_begin + list + 1) - entry);
#pragma unroll
      for (int turn = 0; turn < SHARE; ++turn) left &= left - 1;
    }
    const int end = group_scan<WARP>(entries);
    const int begin = end - entries;
    const int products = __shfl_sync(FULL_MASK, end, WARP - 1);
    if (entries > 0) {
      const int place = __popc(having & ((1u << lane) - 1));
      lists.shift[place] = entry - begin;
      lists.first_row[place] = first_row;
      lists.factor[place] = factor;
    }
    __syncwarp();
    for (int first = 0; first < products; first += MANY * WARP) {
      int to[MANY];
      V product[MANY];
#pragma unroll
      for (int u = 0; u < MANY; ++u) {
        const int window = first + u * WARP;
        const unsigned ahead = static_cast<unsigned>(begin - window);
        const unsigned begins = any_bits(entries > 0 && ahead < WARP ? 1u << ahead : 0u);
        const int before = __popc(__ballot_sync(FULL_MASK, entries > 0 && begin < window));
        const int list = before + __popc(begins & (FULL_MASK >> (WARP - 1 - lane))) - 1;
        if (window + lane < products) {
          const I e = lists.shift[list] + window + lane;
          to[u] = lists.first_row[list] + __ldg(local + e);
          product[u] = __ldg(values + e) * lists.factor[list];
        }
      }
#pragma unroll
      for (int u = 0; u < MANY; ++u) {
        if (first + u * WARP + lane < products) atomicAdd(y + to[u], product[u]);
      }
    }
    __syncwarp();
  }
}

// The tiles of a matrix. tile_list: the first list of each tile; list_begin: the first entry of each list.
template <typename V, typename I, typename Mask>
struct TiledMatrix {
  const int* tile_row;
  const int* tile_col;
  const Mask* tile_mask;
  const I* tile_list;
  const I* list_begin;
  const unsigned char* local;
  const V* values;
};

// A warp for so many tiles in the first `tile_blocks` blocks; then LANES threads for an entry of x, which push the
// extracted entries of its column.
template <typename V, typename I, int NT, int TILES, int LANES, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    tile_spmspv(int k, int tile_blocks, int tiles, const int* __restrict__ index, const V* __restrict__ value,
                const TiledMatrix<V, I, typename MaskOf<NT>::Stored> a, const I* __restrict__ extracted_ptr,
                const int* __restrict__ extracted_row, const V* __restrict__ extracted_values,
                const typename MaskOf<NT>::Stored* __restrict__ x_mask, const V* __restrict__ x_tile,
                V* __restrict__ y) {
  const int block = static_cast<int>(blockIdx.x) - tile_blocks;
  if (block < 0) {
    const int warp = static_cast<int>(global_thread() / WARP);
    __shared__ Lists<V, I> lists[BLOCK / WARP];
    multiply_tiles<V, I, NT, TILES>(warp * TILES, tiles, a.tile_row, a.tile_col, a.tile_mask, a.tile_list, a.list_begin,
                                    a.local, a.values, x_mask, x_tile, lists[threadIdx.x / WARP], y);
  } else {
    push_block<LANES, BLOCK>(block, k, index, value, extracted_ptr, extracted_row, extracted_values, y);
  }
}
