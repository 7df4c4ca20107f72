// y = A x for a sparse x with both cut into tiles (TileSpMSpV, Ji et al., ICPP 2022); see spmvbench/formats/spmspv/tiles.py.
#include "sparse_vector.cuh"
#include "zero.cuh"

// A word with a bit for each column of a tile as it is stored, and as it is computed with.
template <int NT>
struct MaskOf;
template <>
struct MaskOf<16> {
  using Stored = unsigned short;
  using Word = unsigned;
};
template <>
struct MaskOf<32> {
  using Stored = unsigned;
  using Word = unsigned;
};
template <>
struct MaskOf<64> {
  using Stored = unsigned long long;
  using Word = unsigned long long;
};

__device__ __forceinline__ int bits_in(unsigned word) {
  return __popc(word);
}

__device__ __forceinline__ int bits_in(unsigned long long word) {
  return __popcll(word);
}

// The place of the set bit before which `rank` bits are set.
template <int NT, typename Word>
__device__ __forceinline__ int set_bit(Word word, int rank) {
  int place = 0;
#pragma unroll
  for (int width = NT / 2; width > 0; width /= 2) {
    const int below = bits_in(word & ((Word(1) << width) - 1));
    if (rank >= below) {
      rank -= below;
      word >>= width;
      place += width;
    }
  }
  return place;
}

// The first of index[0 .. k) that is not below `key`, k where none is. The warp looks at 32 places at once: every lane
// arrives and has the answer.
__device__ __forceinline__ int warp_search(const int* __restrict__ index, int k, long long key) {
  int low = 0;
  int high = k;
  while (low < high) {
    const int step = (high - low + WARP - 1) / WARP;
    const int probe = low + (lane_id() + 1) * step - 1;
    const int below = __popc(__ballot_sync(FULL_MASK, probe < high && index[probe] < key));
    low = min(low + below * step, high);
    high = min(high, low + step - 1);
  }
  return low;
}

// x in tiles: a word for each tile with a bit for each entry, and the entries at their places. WHOLE: zeros between them,
// in the tiles that have any. A block takes as many tiles as it has threads. y becomes zero.
template <typename V, int NT, int BLOCK, bool WHOLE>
__global__ void __launch_bounds__(BLOCK)
    tile_x(int k, int rows, int cols, const int* __restrict__ index, const V* __restrict__ value,
           typename MaskOf<NT>::Stored* __restrict__ x_mask, V* __restrict__ x_tile, V* __restrict__ y) {
  using Word = typename MaskOf<NT>::Word;
  __shared__ Word words[BLOCK];
  __shared__ int range[2];
  const int thread = static_cast<int>(threadIdx.x);
  zero_share(y, rows, global_thread(), static_cast<long long>(gridDim.x) * BLOCK);
  const int tile_cols = cols / NT + (cols % NT > 0);
  const int first = blockIdx.x * BLOCK;
  if (first >= tile_cols) return;  // the whole block
  words[thread] = 0;
  if (thread / WARP < 2) {
    const int found = warp_search(index, k, static_cast<long long>(first + thread / WARP * BLOCK) * NT);
    if (lane_id() == 0) range[thread / WARP] = found;
  }
  __syncthreads();
  for (int i = range[0] + thread; i < range[1]; i += BLOCK) {
    const int column = index[i];
    atomicOr(words + (column / NT - first), Word(1) << column % NT);
    x_tile[column] = value[i];
  }
  __syncthreads();
  if (first + thread < tile_cols) x_mask[first + thread] = static_cast<typename MaskOf<NT>::Stored>(words[thread]);
  if (!WHOLE) return;
  for (int i = thread; i < BLOCK * NT; i += BLOCK) {
    const Word word = words[i / NT];
    const long long column = static_cast<long long>(first) * NT + i;
    if (word != 0 && (word >> i % NT & 1) == 0 && column < cols) x_tile[column] = V(0);
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

// TILES tiles, a lane a tile: it finds which columns both the tile and x have. The lists of entries in those columns are
// then dealt to the lanes, 32 at a time, and these go through all their entries in line. y is zero.
template <typename V, typename I, int NT, int TILES>
__device__ __forceinline__ void multiply_tiles(int first_tile, int tiles, const int* __restrict__ tile_row,
                                               const int* __restrict__ tile_col,
                                               const typename MaskOf<NT>::Stored* __restrict__ tile_mask,
                                               const I* __restrict__ tile_list, const I* __restrict__ list_begin,
                                               const unsigned char* __restrict__ local, const V* __restrict__ values,
                                               const typename MaskOf<NT>::Stored* __restrict__ x_mask,
                                               const V* __restrict__ x_tile, V* __restrict__ y) {
  using Word = typename MaskOf<NT>::Word;
  constexpr int MANY = 4;
  const int lane = lane_id();
  const int tile = first_tile + lane;
  Word mask = 0, both = 0;
  int col = 0, row = 0;
  I first_list = 0;
  if (lane < TILES && tile < tiles) {
    col = tile_col[tile];
    mask = tile_mask[tile];
    row = tile_row[tile];
    first_list = tile_list[tile];
    both = mask & x_mask[col];
  }
  const int count = bits_in(both);
  const int end = group_scan<WARP>(count);
  const int lists = __shfl_sync(FULL_MASK, end, WARP - 1);
  for (int round = 0; round < lists; round += WARP) {
    const int number = min(round + lane, lists - 1);
    int owner = 0;  // the first lane whose lists end behind this one
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) {
      if (step < TILES && __shfl_sync(FULL_MASK, end, owner + step - 1) <= number) owner += step;
    }
    const int rank = number - __shfl_sync(FULL_MASK, end - count, owner);
    const Word owner_both = __shfl_sync(FULL_MASK, both, owner);
    const Word owner_mask = __shfl_sync(FULL_MASK, mask, owner);
    const I owner_list = __shfl_sync(FULL_MASK, first_list, owner);
    const int owner_col = __shfl_sync(FULL_MASK, col, owner);
    const int first_row = __shfl_sync(FULL_MASK, row, owner) * NT;
    const int column = set_bit<NT>(owner_both, rank);
    I entry = 0;
    int entries = 0;
    V factor = 0;
    if (round + lane < lists) {
      const I list = owner_list + bits_in(owner_mask & ((Word(1) << column) - 1));
      entry = list_begin[list];
      entries = static_cast<int>(list_begin[list + 1] - entry);
      factor = x_tile[static_cast<long long>(owner_col) * NT + column];
    }
    // Each lane's list begins at its own number of products, for none is empty but those behind the last.
    const int products_end = group_scan<WARP>(entries);
    const int begin = products_end - entries;
    const I shift = entry - begin;
    const int products = __shfl_sync(FULL_MASK, products_end, WARP - 1);
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
        const I e = __shfl_sync(FULL_MASK, shift, list) + window + lane;
        const V x = __shfl_sync(FULL_MASK, factor, list);
        to[u] = __shfl_sync(FULL_MASK, first_row, list);
        if (window + lane < products) {
          to[u] += local[e];
          product[u] = values[e] * x;
        }
      }
#pragma unroll
      for (int u = 0; u < MANY; ++u) {
        if (first + u * WARP + lane < products) atomicAdd(y + to[u], product[u]);
      }
    }
  }
}

// A warp for so many tiles in the first `tile_blocks` blocks; then LANES threads for an entry of x, which push the
// extracted entries of its column.
template <typename V, typename I, int NT, int TILES, int LANES, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    tile_spmspv(int k, int tile_blocks, int tiles, const int* __restrict__ index, const V* __restrict__ value,
                const int* __restrict__ tile_row, const int* __restrict__ tile_col,
                const typename MaskOf<NT>::Stored* __restrict__ tile_mask, const I* __restrict__ tile_list,
                const I* __restrict__ list_begin, const unsigned char* __restrict__ local,
                const V* __restrict__ values, const I* __restrict__ extracted_ptr,
                const int* __restrict__ extracted_row, const V* __restrict__ extracted_values,
                const typename MaskOf<NT>::Stored* __restrict__ x_mask, const V* __restrict__ x_tile,
                V* __restrict__ y) {
  const int block = static_cast<int>(blockIdx.x) - tile_blocks;
  if (block < 0) {
    const int warp = static_cast<int>(global_thread() / WARP);
    multiply_tiles<V, I, NT, TILES>(warp * TILES, tiles, tile_row, tile_col, tile_mask, tile_list, list_begin, local,
                                    values, x_mask, x_tile, y);
  } else {
    push_block<LANES, BLOCK>(block, k, index, value, extracted_ptr, extracted_row, extracted_values,
                             [=](int row, V product) { atomicAdd(y + row, product); });
  }
}

// ---- As Algorithm 4 of the paper has it: a warp a row of tiles, or a chunk of one.

// Tile by tile, with two lanes a row where NT is 16, two rows a lane where it is 64: every entry of a tile that meets an
// entry of x is multiplied. Lists are rows, `local` is the column. Behind the chunks a thread an extracted entry. y is zero.
template <typename V, typename I, int NT>
__global__ void tile_rows(int chunks, long long extracted, const int* __restrict__ chunk_ptr,
                          const int* __restrict__ tile_row, const int* __restrict__ tile_col,
                          const typename MaskOf<NT>::Stored* __restrict__ tile_mask, const I* __restrict__ tile_list,
                          const I* __restrict__ list_begin, const unsigned char* __restrict__ local,
                          const V* __restrict__ values, const int* __restrict__ extracted_row,
                          const int* __restrict__ extracted_col, const V* __restrict__ extracted_values,
                          const typename MaskOf<NT>::Stored* __restrict__ x_mask, const V* __restrict__ x_tile,
                          V* __restrict__ y) {
  using Word = typename MaskOf<NT>::Word;
  constexpr int LANES = NT < WARP ? WARP / NT : 1;
  constexpr int ROWS = NT > WARP ? NT / WARP : 1;
  const long long chunk = global_thread() / WARP;
  const int lane = lane_id();
  if (chunk >= chunks) {
    const long long e = global_thread() - static_cast<long long>(chunks) * WARP;
    if (e >= extracted) return;
    const int column = extracted_col[e];
    const Word word = x_mask[column / NT];
    if (word >> column % NT & 1) atomicAdd(y + extracted_row[e], extracted_values[e] * x_tile[column]);
    return;
  }
  V sum[ROWS] = {};
  const int first = chunk_ptr[chunk];
  for (int t = first; t < chunk_ptr[chunk + 1]; ++t) {
    const int col = tile_col[t];
    if (x_mask[col] == 0) continue;
    const Word mask = tile_mask[t];
    const V* x = x_tile + static_cast<long long>(col) * NT;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const int row = lane / LANES + r * WARP;
      if ((mask >> row & 1) == 0) continue;
      const I* list = list_begin + (tile_list[t] + bits_in(mask & ((Word(1) << row) - 1)));
      for (I e = list[0] + lane % LANES; e < list[1]; e += LANES) sum[r] += x[local[e]] * values[e];
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const V whole = group_sum<LANES>(sum[r]);
    if (lane % LANES == 0 && whole != V(0)) {
      atomicAdd(y + static_cast<long long>(tile_row[first]) * NT + r * WARP + lane / LANES, whole);
    }
  }
}
