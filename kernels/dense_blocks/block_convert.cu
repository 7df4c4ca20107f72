// A matrix cut into r x c tiles on the device: how many tiles of each shape there are, how many per block row, every
// entry to its slot.
// spmvbench/formats/dense_blocks/blocks.py says more.
#include "found_tiles.cuh"

constexpr int CONVERT_BLOCK = 256;
constexpr int SLAB = 768;  // neighbouring rows of a sample: whole slices of 8 and 32 block rows of 1 to 8 rows
constexpr int NO_COLUMN = 0x7fffffff;
constexpr unsigned short NO_ENTRY = 0xffff;
constexpr int SHARED_ENTRIES = 4096;  // of some rows, from which several blocks share them

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

// The row of a sample of `slabs` out of `all` slabs, evenly spread, that is its own `row`-th.
__device__ __forceinline__ long long sampled_row(long long row, int slabs, int all) {
  return (2 * (row / SLAB) + 1) * all / (2 * slabs) * SLAB + row % SLAB;
}

template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    sample_counts(int rows, int slabs, int all, const I* __restrict__ row_ptr, P* __restrict__ ptr,
                  unsigned long long* __restrict__ state) {
  const long long sample = static_cast<long long>(slabs) * SLAB;
  write_offsets<OFFSETS_EACH>(sample, ptr, state, [=](long long at) {
    const long long row = at < sample ? sampled_row(at, slabs, all) : rows;
    return row < rows ? static_cast<long long>(row_ptr[row + 1] - row_ptr[row]) : 0ll;
  });
}

// A warp per row. ptr: of the rows of the sample.
template <typename I, typename P>
__global__ void sample_columns(int slabs, int all, const I* __restrict__ row_ptr, const P* __restrict__ ptr,
                               const int* __restrict__ col_idx, int* __restrict__ columns) {
  const long long at = global_thread() / WARP;
  if (at >= static_cast<long long>(slabs) * SLAB) return;
  const P begin = ptr[at], end = ptr[at + 1];
  const I from = begin < end ? row_ptr[sampled_row(at, slabs, all)] : I(0);
  for (P k = begin + lane_id(); k < end; k += WARP) columns[k] = col_idx[from + (k - begin)];
}

// Tiles of each block row of every shape of Sides<DOWN> x Sides<ACROSS>, those of the columns running faster. A block
// takes `group` rows, a multiple of all sides; where they have many entries, all blocks of a column of the grid share
// them. Counts of a shape, zero before, follow those of the one before, one a block row. totals, zero before: of `add_shapes`,
// and after them the longest row.
template <typename I, unsigned DOWN, unsigned ACROSS>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    count_shapes(int rows, int group, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                 int* __restrict__ counts, unsigned long long* __restrict__ totals) {
  using Down = Sides<DOWN>;
  using Across = Sides<ACROSS>;
  constexpr unsigned ALL = (1u << Across::COUNT) - 1;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  int* const found = reinterpret_cast<int*>(dynamic_shared);  // as `counts`, of the block's rows
  const long long first_row = static_cast<long long>(blockIdx.x) * group;
  const int top = static_cast<int>(first_row);
  const int bottom = first_row + group < rows ? top + group : rows;
  const I begin_of_all = row_ptr[top], last = row_ptr[bottom];
  const bool shared = last - begin_of_all > SHARED_ENTRIES;
  if (blockIdx.y > 0 && !shared) return;  // the whole block
  int room = 0;
#pragma unroll
  for (int i = 0; i < Down::COUNT; ++i) room += Across::COUNT * (group / Down::at(i));
  for (int at = threadIdx.x; at < room; at += blockDim.x) found[at] = 0;
  __syncthreads();

  int most = 0;
  for (int r = top + static_cast<int>(threadIdx.x); r < bottom; r += CONVERT_BLOCK) {
    const int length = static_cast<int>(row_ptr[r + 1] - row_ptr[r]);
    most = most < length ? length : most;
  }
  most = warp_max(most);
  if (lane_id() == 0) note_most(totals + 2 * Down::COUNT * Across::COUNT, most);
  int row = -1;
  const I step_of_all = static_cast<I>(shared ? gridDim.y * CONVERT_BLOCK : CONVERT_BLOCK);
  for (I k = begin_of_all + static_cast<I>(blockIdx.y * CONVERT_BLOCK + threadIdx.x); k < last; k += step_of_all) {
    row = row < 0 ? first_behind(row_ptr, top, bottom, k) - 1 : row_from(row_ptr, row, bottom, k);
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
    const I rank = k - row_ptr[row];
    const int from_left = column - (rank > 0 ? col_idx[k - 1] : -1);
#pragma unroll
    for (int j = 0; j < Across::COUNT; ++j) taken |= (from_left <= in_tile[j] ? 1u : 0u) << j;
    for (int above = 0; taken != ALL; ++above) {
      int begin_of_shape = 0;
#pragma unroll
      for (int i = 0; i < Down::COUNT; ++i) {
        const int block_rows = group / Down::at(i);
        if (in_rows[i] == above) {
#pragma unroll
          for (int j = 0; j < Across::COUNT; ++j) {
            if (!(taken >> j & 1)) atomicAdd(found + begin_of_shape + j * block_rows + (row - top) / Down::at(i), 1);
          }
        }
        begin_of_shape += Across::COUNT * block_rows;
      }
      if (above == deepest) break;
      // The nearest on either side decide for tiles of every width.
      const I begin = row_ptr[row - above - 1];
      const I end = row_ptr[row - above];
      const I at = entry_from(col_idx, begin, end, column, rank);
      const int to_left = column - (at > begin ? col_idx[at - 1] : -1);
      const int to_right = at < end ? col_idx[at] - column : NO_COLUMN;
#pragma unroll
      for (int j = 0; j < Across::COUNT; ++j) {
        taken |= (to_left <= in_tile[j] || to_right < Across::at(j) - in_tile[j] ? 1u : 0u) << j;
      }
    }
  }
  __syncthreads();
  int begin_here = 0;
  long long begin = 0;
#pragma unroll
  for (int i = 0; i < Down::COUNT; ++i) {
    const int here = group / Down::at(i);
    const long long all = (rows + Down::at(i) - 1) / Down::at(i);
    const long long first = first_row / Down::at(i);
    for (int at = threadIdx.x; at < Across::COUNT * here; at += blockDim.x) {
      const long long block_row = first + at % here;
      if (block_row < all && found[begin_here + at]) {
        atomicAdd(counts + (begin + at / here * all + block_row), found[begin_here + at]);
      }
    }
    begin_here += Across::COUNT * here;
    begin += Across::COUNT * all;
  }
}

// Of every shape the tiles, and the steps of slices of `height` block rows: a row of the grid for each. counts: of
// `count_shapes`. totals: (2, shapes), zero before.
template <unsigned DOWN, unsigned ACROSS>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    add_shapes(int rows, int height, const int* __restrict__ counts, unsigned long long* __restrict__ totals) {
  using Down = Sides<DOWN>;
  using Across = Sides<ACROSS>;
  const int down = static_cast<int>(blockIdx.y) / Across::COUNT;
  long long begin = 0, block_rows = 0;
#pragma unroll
  for (int i = 0; i < Down::COUNT; ++i) {
    const long long all = (rows + Down::at(i) - 1) / Down::at(i);
    if (i < down) begin += Across::COUNT * all;
    if (i == down) block_rows = all;
  }
  begin += static_cast<int>(blockIdx.y) % Across::COUNT * block_rows;
  const long long first = global_thread() * height;
  int most = 0;
  long long sum = 0;
  for (long long block_row = first; block_row < first + height && block_row < block_rows; ++block_row) {
    const int count = counts[begin + block_row];
    most = count > most ? count : most;
    sum += count;
  }
  add_once(totals + blockIdx.y, sum);
  add_once(totals + gridDim.y + blockIdx.y, most);
}

// ---- Block rows of one shape.

// Offsets of the most tiles of `height` block rows each: neighbours, or those at neighbouring places of `perm`, which are
// sorted by their tiles.
template <typename I, bool SORTED, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    slice_steps(int block_rows, int slices, int height, const I* __restrict__ counts, const int* __restrict__ perm,
                P* __restrict__ ptr, unsigned long long* __restrict__ state) {
  write_offsets<OFFSETS_EACH>(slices, ptr, state, [=](long long slice) {
    const long long end = (slice + 1) * height < block_rows ? (slice + 1) * height : block_rows;
    if (SORTED) return slice < slices ? static_cast<long long>(counts[perm[slice * height]]) : 0ll;
    I most = 0;
    for (long long block_row = slice * height; block_row < end; ++block_row) {
      most = counts[block_row] > most ? counts[block_row] : most;
    }
    return static_cast<long long>(most);
  });
}

// The same of neighbours, a lane each, of slices of at most a warp's height.
template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    high_slice_steps(int block_rows, int slices, int height, const I* __restrict__ counts, int share,
                     P* __restrict__ ptr, unsigned long long* __restrict__ state) {
  const auto count = [=](long long at) {
    long long found = 0;
    for (int s = 0; s < share; ++s) {
      const long long slice = at - lane_id() + s, block_row = slice * height + lane_id();
      if (slice >= slices) break;  // the whole warp
      const I most = warp_max(lane_id() < height && block_row < block_rows ? counts[block_row] : I(0));
      if (s == lane_id()) found = static_cast<long long>(most);
    }
    return found;
  };
  write_offsets<1>(slices, ptr, state, count, share);
}

// Where values are in a step: see blocks.py. load: a power of two.
struct Step {
  int size;
  int height;
  int load;
  int shift;
  int packed;

  __device__ __forceinline__ Step(int size, int height, int load)
      : size(size), height(height), load(load), shift(__ffs(load) - 1), packed(size >> shift << shift) {}

  __device__ __forceinline__ long long place(long long step, int lane, int e) const {
    const int packed_at = ((((e >> shift) * height) + lane) << shift) + (e & (load - 1));
    return step * size * height + (e < packed ? packed_at : e * height + lane);
  }
};

// Where each share begins, and where the last ends: a warp each.
template <typename I>
__global__ void cut_shares(int rows, int r, int c, int cuts, const I* __restrict__ row_ptr,
                           const int* __restrict__ col_idx, int* __restrict__ block_row, int* __restrict__ column) {
  const long long cut = global_thread() / WARP;
  if (cut >= cuts) return;  // the whole warp
  BlockRows<I>(rows, r, c, row_ptr, col_idx).cut(cut, block_row + cut, column + cut);
}

// The first tile of each block row, and of each share, each with the end.
template <typename Key, typename I>
__global__ void __launch_bounds__(FIND_BLOCK, FIND_TOGETHER)
    count_tiles(int rows, int r, int c, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                const ShareCuts cuts, I* __restrict__ ptr, I* __restrict__ of_share,
                unsigned long long* __restrict__ state) {
  __shared__ FoundTiles m;
  count_found<Key>(m, BlockRows<I>(rows, r, c, row_ptr, col_idx), cuts, ptr, of_share, state);
}

// Every entry to its slot. ptr, of_share: of `count_tiles`. places: where each block row is stored. slice_ptr: the first
// step of each slice of `height` block rows, a power of two. whole: tiles are stored as they come, in slices of one block
// row, and nothing else; otherwise all slots hold -1 and zeros before.
template <typename Key, typename V, typename I, typename S, bool SORTED>
__global__ void __launch_bounds__(FIND_BLOCK, FIND_TOGETHER)
    fill_tiles(int rows, int r, int c, int height, int load, bool whole, const I* __restrict__ row_ptr,
               const int* __restrict__ col_idx, const V* __restrict__ entries, const ShareCuts cuts,
               const I* __restrict__ ptr, const I* __restrict__ of_share, const int* __restrict__ places,
               const S* __restrict__ slice_ptr, int* __restrict__ block_col, V* __restrict__ values) {
  __shared__ FoundTiles m;
  const BlockRows<I> a(rows, r, c, row_ptr, col_idx);
  const Step slots(r * c, height, load);
  const int shift = __ffs(height) - 1;
  long long before = of_share[blockIdx.x];
  visit_found<TILE_NUMBERS, Key>(m, blockIdx.x, a, cuts, [&]() {
    if (whole) {
      for (int tile = threadIdx.x; tile < m.tiles; tile += FIND_BLOCK) block_col[before + tile] = m.block_of[tile];
      // Slots take their entries, as many at once as there is room for to note them.
      unsigned short* const numbers = reinterpret_cast<unsigned short*>(m.words);
      const int size = r * c, together = static_cast<int>(sizeof(m.words) / sizeof(*numbers)) / size;
      for (int first = 0; first < m.tiles; first += together) {
        const int here = (m.tiles - first < together ? m.tiles - first : together) * size;
        for (int i = threadIdx.x; i < here; i += FIND_BLOCK) numbers[i] = NO_ENTRY;
        __syncthreads();
        for (int number = threadIdx.x; number < m.entries; number += FIND_BLOCK) {
          const int slot = (m.tile_of[number] - first) * size + m.row_in(number) * c + m.column_in(number);
          if (slot >= 0 && slot < here) numbers[slot] = static_cast<unsigned short>(number);
        }
        __syncthreads();
        V* const slots_here = values + (before + first) * size;
        for (int i = threadIdx.x; i < here; i += FIND_BLOCK) {
          slots_here[i] = numbers[i] == NO_ENTRY ? V(0) : entries[m.entry(numbers[i])];
        }
        __syncthreads();
      }
      before += m.tiles;
      return;
    }
    long long* const places_of = reinterpret_cast<long long*>(m.words);  // of tiles: step << shift | lane
    for (int tile = threadIdx.x; tile < m.tiles; tile += FIND_BLOCK) {
      const int block_row = static_cast<int>(m.first) + m.block_row_of[tile];
      const int place = SORTED ? places[block_row] : block_row;
      const long long step = static_cast<long long>(slice_ptr[place >> shift]) + (before + tile - ptr[block_row]);
      const long long at = step << shift | (place & (height - 1));
      block_col[at] = m.block_of[tile];
      places_of[tile] = at;
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < FIND_EACH; ++u) {
      const int number = static_cast<int>(threadIdx.x) + u * FIND_BLOCK;
      if (number >= m.entries) continue;
      const long long at = places_of[m.tile_of[number]];
      const int e = m.row_in(number) * c + m.column_in(number);
      values[slots.place(at >> shift, static_cast<int>(at & (height - 1)), e)] = entries[m.entry(number)];
    }
    before += m.tiles;
  });
}
