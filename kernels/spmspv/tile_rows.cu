// y = A x for a sparse x, with A, x and y in tiles as TileSpMSpV has them (Ji et al., ICPP 2022, sections 3.2 and 3.3);
// see spmvbench/formats/spmspv/tiles.py.
#include "shares.cuh"
#include "tile_mask.cuh"

// Whether entry i of x is the first of its tile.
template <int NT>
__device__ __forceinline__ bool begins_tile(long long i, int k, const int* __restrict__ index) {
  return i < k && (i == 0 || index[i] / NT != index[i - 1] / NT);
}

// No tile of x holds an entry so far. begun: of each block of entries, how many begin a tile.
template <int NT>
__global__ void empty_tiles(int k, int tiles, const int* __restrict__ index, int* __restrict__ x_ptr,
                            int* __restrict__ begun) {
  const long long i = global_thread();
  if (i < tiles) x_ptr[i] = -1;
  const int count = __syncthreads_count(begins_tile<NT>(i, k, index));
  if (threadIdx.x == 0) begun[blockIdx.x] = count;
}

// x in tiles: those with entries one after the other, zeros between the entries, and the place of each among them.
template <typename V, int NT, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    pack_x(int k, const int* __restrict__ index, const V* __restrict__ value, const int* __restrict__ begun,
           int* __restrict__ x_ptr, V* __restrict__ x_tile) {
  __shared__ int before;
  __shared__ int of_warps[BLOCK / WARP];
  const int t = threadIdx.x, warp = t / WARP;
  const long long i = global_thread();
  int found = 0;
  for (unsigned b = t; b < blockIdx.x; b += BLOCK) found += begun[b];
  found = block_sum<BLOCK>(found);
  if (t == 0) before = found;
  const bool begins = begins_tile<NT>(i, k, index);
  int rank = group_scan<WARP>(begins ? 1 : 0);
  if (lane_id() == WARP - 1) of_warps[warp] = rank;
  __syncthreads();
  if (i >= k) return;
  rank += before - 1;
  for (int w = 0; w < warp; ++w) rank += of_warps[w];

  const int column = index[i], tile = column / NT;
  V* const own = x_tile + static_cast<long long>(rank) * NT;
  if (begins) {
    x_ptr[tile] = rank;
    for (int c = 0; c < column % NT; ++c) own[c] = V(0);
  }
  own[column % NT] = value[i];
  const int next = i + 1 < k && index[i + 1] / NT == tile ? index[i + 1] % NT : NT;
  for (int c = column % NT + 1; c < next; ++c) own[c] = V(0);
}

// What a warp keeps of the tile that it is at: its part of x, and some entries.
template <typename V, int NT>
struct TileInShared {
  static constexpr int ENTRIES = 256;
  V x[NT];
  V values[ENTRIES];
  unsigned char places[ENTRIES];
};

// A warp per row of tiles (Algorithm 4), with two threads per row of a tile where NT is 16, two rows per thread where it
// is 64. Tiles that meet no tile of x are left out; all of the others are multiplied, from shared memory. Of an entry's
// place in the tile the column is the last four bits where NT is 16, else all. Rows of tiles that have met a tile of x
// are tiles of y, one after the other.
template <typename V, typename I, int NT, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    tile_rows(int tile_rows, const int* __restrict__ tile_ptr, const int* __restrict__ tile_col,
              const typename MaskOf<NT>::Stored* __restrict__ tile_mask, const I* __restrict__ tile_list,
              const I* __restrict__ list_begin, const unsigned char* __restrict__ local, const V* __restrict__ values,
              const int* __restrict__ x_ptr, const V* __restrict__ x_tile, int* y_tiles, int* __restrict__ y_ptr,
              V* __restrict__ y_tile) {
  using Word = typename MaskOf<NT>::Word;
  using Shared = TileInShared<V, NT>;
  constexpr int LANES = NT < WARP ? WARP / NT : 1;
  constexpr int ROWS = NT > WARP ? NT / WARP : 1;
  __shared__ Shared of_warp[BLOCK / WARP];
  Shared& held = of_warp[threadIdx.x / WARP];
  const long long tile_row = global_thread() / WARP;
  const int lane = lane_id();
  if (tile_row >= tile_rows) return;
  V sum[ROWS] = {};
  bool met = false;
  for (int t = tile_ptr[tile_row]; t < tile_ptr[tile_row + 1]; ++t) {
    const int x_place = x_ptr[tile_col[t]];
    if (x_place < 0) continue;
    met = true;
    const Word mask = tile_mask[t];
    const I first = tile_list[t];
    const I begin = list_begin[first], end = list_begin[first + bits_in(mask)];
    I row_begin[ROWS], row_end[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const int row = lane / LANES + r * WARP;
      const I list = first + bits_in(mask & ((Word(1) << row) - 1));
      row_begin[r] = list_begin[list] + lane % LANES;
      row_end[r] = mask >> row & 1 ? list_begin[list + 1] : 0;
    }
    __syncwarp();  // what was held has been read
    for (int c = lane; c < NT; c += WARP) held.x[c] = x_tile[static_cast<long long>(x_place) * NT + c];
    for (I piece = begin; piece < end; piece += Shared::ENTRIES) {
      const I piece_end = piece + Shared::ENTRIES < end ? piece + Shared::ENTRIES : end;
      if (piece > begin) __syncwarp();
      for (I e = piece + lane; e < piece_end; e += WARP) {
        held.values[e - piece] = load_stream(values + e);
        held.places[e - piece] = local[e];
      }
      __syncwarp();
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        for (; row_begin[r] < row_end[r] && row_begin[r] < piece_end; row_begin[r] += LANES) {
          const int at = static_cast<int>(row_begin[r] - piece);
          sum[r] += held.x[held.places[at] % NT] * held.values[at];
        }
      }
    }
  }
  int place = -1;
  if (met && lane == 0) place = atomicAdd(y_tiles, 1);
  place = __shfl_sync(FULL_MASK, place, 0);
  if (lane == 0) y_ptr[tile_row] = place;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const V whole = group_sum<LANES>(sum[r]);
    if (met && lane % LANES == 0) y_tile[static_cast<long long>(place) * NT + r * WARP + lane / LANES] = whole;
  }
}

// y with all of its rows from its tiles.
template <typename V, int NT>
__global__ void spread_y(int rows, const int* __restrict__ y_ptr, const V* __restrict__ y_tile, V* __restrict__ y) {
  const long long row = global_thread();
  if (row >= rows) return;
  const int place = y_ptr[row / NT];
  y[row] = place < 0 ? V(0) : y_tile[static_cast<long long>(place) * NT + row % NT];
}

// The entries of very sparse tiles, a thread each, which are added to y.
template <typename V, int NT>
__global__ void add_extracted(long long entries, const int* __restrict__ row, const int* __restrict__ col,
                              const V* __restrict__ values, const int* __restrict__ x_ptr, const V* __restrict__ x_tile,
                              V* __restrict__ y) {
  const long long e = global_thread();
  if (e >= entries) return;
  const int place = x_ptr[col[e] / NT];
  if (place < 0) return;
  const V factor = x_tile[static_cast<long long>(place) * NT + col[e] % NT];
  if (factor != V(0)) atomicAdd(y + row[e], values[e] * factor);
}
