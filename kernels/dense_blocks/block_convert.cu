// A matrix cut into r x c tiles on the device: which entries are the first of their tile, how many tiles per block row
// has, every entry to its slot. Rows are sorted by column, so an entry finds the others of its tile by a search in each
// row beside its own: no sort, and no thread has more to do where rows are long.
// spmvbench/formats/dense_blocks/blocks.py says more.
#include "search.cuh"
#include "spmv.cuh"

constexpr int CONVERT_BLOCK = 256;
constexpr int WORDS = 16;  // that a warp takes, 32 entries each

__host__ __device__ constexpr int set_bits(unsigned mask) {
  int bits = 0;
  for (; mask; mask &= mask - 1) ++bits;
  return bits;
}

// The sides that a tile may have: s for every bit s - 1 that is set in MASK.
template <unsigned MASK>
struct Sides {
  static __device__ __forceinline__ constexpr int at(int i) {
#pragma unroll
    for (int side = 1; side <= WARP; ++side) {  // as many as a mask has bits
      if (MASK >> (side - 1) & 1) {
        if (i == 0) return side;
        --i;
      }
    }
    return 0;
  }
  static constexpr int COUNT = set_bits(MASK);
};

// Bit l of lane b's result is bit b of lane l's word.
__device__ __forceinline__ unsigned transposed(unsigned word) {
  unsigned low = 0x0000ffffu;  // of blocks of 2 * offset bits
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) {
    const unsigned other = __shfl_xor_sync(FULL_MASK, word, offset);
    word = lane_id() & offset ? (word & ~low) | (other & ~low) >> offset : (word & low) | (other & low) << offset;
    low ^= low << (offset / 2);
  }
  return word;
}

// words: (nnz / 32 + 1, shapes). Bit k % 32 of word k / 32 says whether entry k is the first of its tile in the order
// of rows, for the shapes Sides<DOWN> x Sides<ACROSS>, those of the columns running faster. A warp takes WORDS words of
// each. totals: (shapes, warps), the bits that each warp has set.
template <typename I, unsigned DOWN, unsigned ACROSS>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    mark_first(int rows, I nnz, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
               unsigned* __restrict__ words, int* __restrict__ totals) {
  using Down = Sides<DOWN>;
  using Across = Sides<ACROSS>;
  constexpr int SHAPES = Down::COUNT * Across::COUNT;
  constexpr unsigned ALL = (1u << Across::COUNT) - 1;
  const int lane = lane_id();
  const long long warp = global_thread() / WARP;
  const long long warps = static_cast<long long>(gridDim.x) * blockDim.x / WARP;
  int total[2] = {};  // lane l keeps shapes l and l + 32
  int row = -1;

  for (long long word = warp * WORDS; word <= nnz / WARP && word < (warp + 1) * WORDS; ++word) {
    const long long k = word * WARP + lane;
    unsigned long long first = 0;  // a bit a shape
    if (k < nnz) {
      row = row < 0 ? first_behind(row_ptr, 0, rows, static_cast<I>(k)) - 1
                    : row_from(row_ptr, row, rows, static_cast<I>(k));
      const int column = col_idx[k];
      int in_tile[Across::COUNT];
      int in_rows[Down::COUNT];
      int deepest = 0;
#pragma unroll
      for (int j = 0; j < Across::COUNT; ++j) in_tile[j] = column % Across::at(j);
#pragma unroll
      for (int i = 0; i < Down::COUNT; ++i) {
        in_rows[i] = row % Down::at(i);
        deepest = max(deepest, in_rows[i]);
      }
      // Bit j: a tile as wide as Across::at(j) has an entry further left in this row, or one in the rows above so far.
      // Columns left of all are -1: too far.
      unsigned taken = 0;
      const I rank = static_cast<I>(k) - row_ptr[row];
      const int from_left = column - (rank > 0 ? col_idx[k - 1] : -1);
#pragma unroll
      for (int j = 0; j < Across::COUNT; ++j) taken |= (from_left <= in_tile[j] ? 1u : 0u) << j;
      for (int above = 0;; ++above) {
#pragma unroll
        for (int i = 0; i < Down::COUNT; ++i) {
          if (in_rows[i] == above) first |= static_cast<unsigned long long>(~taken & ALL) << (i * Across::COUNT);
        }
        if (above == deepest || taken == ALL) break;
        // The nearest on either side decide for tiles of every width.
        const I begin = row_ptr[row - above - 1];
        const I end = row_ptr[row - above];
        const I at = entry_from(col_idx, begin, end, column, rank);
        const int to_left = column - (at > begin ? col_idx[at - 1] : -1);
        const int to_right = at < end ? col_idx[at] - column : 0x7fffffff;
#pragma unroll
        for (int j = 0; j < Across::COUNT; ++j) {
          taken |= (to_left <= in_tile[j] || to_right < Across::at(j) - in_tile[j] ? 1u : 0u) << j;
        }
      }
    }
#pragma unroll
    for (int s = 0; s < SHAPES; s += WARP) {
      unsigned mine = 0;  // the word of shape s + lane
      if (SHAPES - s >= WARP) {
        mine = transposed(static_cast<unsigned>(first >> s));
      } else {
#pragma unroll
        for (int l = 0; l < (SHAPES - s) % WARP; ++l) {
          const unsigned found = __ballot_sync(FULL_MASK, first >> (s + l) & 1);
          if (lane == l) mine = found;
        }
      }
      if (lane < SHAPES - s) words[word * SHAPES + s + lane] = mine;
      total[s / WARP] += __popc(mine);
    }
  }
#pragma unroll
  for (int s = 0; s < SHAPES; s += WARP) {
    if (lane < SHAPES - s) totals[(s + lane) * warps + warp] = total[s / WARP];
  }
}

// The words of one of `shapes` shapes, and how many bits each has set: a thread per word.
template <typename I>
__global__ void pick_shape(I count, int shapes, int shape, const unsigned* __restrict__ words,
                           unsigned* __restrict__ picked, I* __restrict__ set) {
  const long long word = global_thread();
  if (word >= count) return;
  picked[word] = words[word * shapes + shape];
  set[word] = __popc(picked[word]);
}

// The words of one shape. counted: set bits up to the end of each word.
template <typename I>
struct Marks {
  const unsigned* __restrict__ words;
  const I* __restrict__ counted;

  __device__ __forceinline__ bool operator[](long long k) const { return words[k / WARP] >> (k % WARP) & 1; }

  // Set bits before bit k.
  __device__ __forceinline__ I before(long long k) const {
    return counted[k / WARP] - __popc(words[k / WARP] >> (k % WARP));
  }
};

// Tiles of each block row: a thread each.
template <typename I>
__global__ void count_tiles(int block_rows, int rows, int r, const I* __restrict__ row_ptr,
                            const unsigned* __restrict__ words, const I* __restrict__ counted, I* __restrict__ counts) {
  const long long block_row = global_thread();
  if (block_row >= block_rows) return;
  const Marks<I> marks{words, counted};
  const long long end = (block_row + 1) * r;
  counts[block_row] = marks.before(row_ptr[end < rows ? end : rows]) - marks.before(row_ptr[block_row * r]);
}

// The most tiles of `height` neighbouring block rows: a thread for each slice.
template <typename I>
__global__ void slice_steps(int block_rows, int slices, int height, const I* __restrict__ counts,
                            I* __restrict__ steps) {
  const long long slice = global_thread();
  if (slice >= slices) return;
  const long long end = (slice + 1) * height < block_rows ? (slice + 1) * height : block_rows;
  I most = 0;
  for (long long block_row = slice * height; block_row < end; ++block_row) {
    most = counts[block_row] > most ? counts[block_row] : most;
  }
  steps[slice] = most;
}

// Every entry to its slot. A warp takes as many as it marks. place: of each block row in the order of storage.
// block_col holds -1 before, values zeros.
template <typename V, typename I, typename S>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    store_tiles(int rows, I nnz, int r, int c, int height, int load, const I* __restrict__ row_ptr,
                const int* __restrict__ col_idx, const V* __restrict__ entries, const unsigned* __restrict__ words,
                const I* __restrict__ counted, const int* __restrict__ place, const S* __restrict__ slice_ptr,
                int* __restrict__ block_col, V* __restrict__ values) {
  const Marks<I> marks{words, counted};
  const int size = r * c;
  long long k = global_thread() / WARP * (WORDS * WARP) + lane_id();
  int row = k < nnz ? first_behind(row_ptr, 0, rows, static_cast<I>(k)) - 1 : 0;
  for (int word = 0; word < WORDS && k < nnz; ++word, k += WARP) {
    row = row_from(row_ptr, row, rows, static_cast<I>(k));
    const int block_row = row / r;
    const int top = block_row * r;
    const int column = col_idx[k];
    const int block = column / c;
    I own = static_cast<I>(k);  // the row's first entry in the tile
    while (own > row_ptr[row] && col_idx[own - 1] >= block * c) --own;
    const I before = own - row_ptr[row];
    I rank = 0;  // tiles of the block row to the left of this one: each is marked once, in one of its rows
    for (int beside = top; beside < rows && beside - top < r; ++beside) {
      const I begin = row_ptr[beside];
      const I at = beside == row ? own : entry_from(col_idx, begin, row_ptr[beside + 1], block * c, before);
      rank += marks.before(at) - marks.before(begin);
    }
    const int at = place[block_row];
    const int lane = at % height;
    const long long step = static_cast<long long>(slice_ptr[at / height]) + rank;
    if (marks[k]) block_col[step * height + lane] = block;
    const int e = (row - top) * c + (column - block * c);
    const bool packed = e < size / load * load;
    values[step * (size * height) + (packed ? (e / load * height + lane) * load + e % load : e * height + lane)] =
        entries[k];
  }
}
