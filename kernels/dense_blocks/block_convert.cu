// A matrix cut into r x c tiles on the device: how many tiles of each shape there are, how many per block row, every
// entry to its slot.
// spmvbench/formats/dense_blocks/blocks.py says more.
#include "largest.cuh"
#include "offsets.cuh"
#include "search.cuh"
#include "spmv.cuh"

constexpr int CONVERT_BLOCK = 256;
constexpr int NO_COLUMN = 0x7fffffff;
constexpr unsigned NO_COLUMNS = 0xffffffffu;
constexpr int SHARED_ENTRIES = 4096;  // of some rows, from which several blocks share them
constexpr int PART = 32;              // entries of a part of a block row, about: of a thread
constexpr int PARTS_BLOCK = 128;      // parts of a block that stores their tiles
constexpr int SORT_BLOCK = 1024;
constexpr int BINS = 4096;  // tiles of a block row that are told apart

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

// Tiles of each block row of every shape of Sides<DOWN> x Sides<ACROSS>, those of the columns running faster, in a sample
// of `slabs` out of `all` slabs of so many rows, evenly spread. A block takes `group` rows of a slab, a multiple of all
// sides; where they have many entries, all blocks of a column of the grid share them. Counts of a shape, zero before,
// follow those of the one before, one a block row. totals, zero before: of `add_shapes`, and after them the longest row.
template <typename I, unsigned DOWN, unsigned ACROSS>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    count_shapes(int rows, int sample, int group, int slab, int slabs, int all, const I* __restrict__ row_ptr,
                 const int* __restrict__ col_idx, int* __restrict__ counts, unsigned long long* __restrict__ totals) {
  using Down = Sides<DOWN>;
  using Across = Sides<ACROSS>;
  constexpr unsigned ALL = (1u << Across::COUNT) - 1;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  int* const found = reinterpret_cast<int*>(dynamic_shared);  // as `counts`, of the block's rows
  const long long first_row = static_cast<long long>(blockIdx.x) * group, in_slabs = first_row / slab;
  const long long from = (2 * in_slabs + 1) * all / (2 * slabs) * slab + first_row % slab;
  const long long to = from + (first_row + group < sample ? group : sample - first_row);
  const int top = static_cast<int>(from < rows ? from : rows), bottom = static_cast<int>(to < rows ? to : rows);
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
  if (lane_id() == 0) note_most(totals + 3 * Down::COUNT * Across::COUNT, most);
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
    const long long block_rows = (sample + Down::at(i) - 1) / Down::at(i);
    const long long first = first_row / Down::at(i);
    for (int at = threadIdx.x; at < Across::COUNT * here; at += blockDim.x) {
      const long long block_row = first + at % here;
      if (block_row < block_rows && found[begin_here + at]) {
        atomicAdd(counts + (begin + at / here * block_rows + block_row), found[begin_here + at]);
      }
    }
    begin_here += Across::COUNT * here;
    begin += Across::COUNT * block_rows;
  }
}

// Of some sides of tiles the number `down`: its block rows in a sample of so many rows, and its first count.
template <unsigned DOWN, unsigned ACROSS>
struct Counts {
  long long block_rows = 0, begin = 0;

  __device__ __forceinline__ Counts(int sample, int down) {
#pragma unroll
    for (int i = 0; i < Sides<DOWN>::COUNT; ++i) {
      if (i <= down) begin += Sides<ACROSS>::COUNT * block_rows;
      if (i <= down) block_rows = (static_cast<long long>(sample) + Sides<DOWN>::at(i) - 1) / Sides<DOWN>::at(i);
    }
  }
};

// Of every shape the tiles, the steps of slices of `height` block rows, a power of two up to a warp, and the most tiles of
// a block row: a row of the grid for each. counts: of `count_shapes`. totals: (3, shapes), zero before.
template <unsigned DOWN, unsigned ACROSS>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    add_shapes(int rows, int height, const int* __restrict__ counts, unsigned long long* __restrict__ totals) {
  constexpr int ACROSS_COUNT = Sides<ACROSS>::COUNT;
  const Counts<DOWN, ACROSS> here(rows, static_cast<int>(blockIdx.y) / ACROSS_COUNT);
  const long long block_rows = here.block_rows, begin = here.begin + blockIdx.y % ACROSS_COUNT * block_rows;
  int most = 0;
  long long sum = 0, steps = 0;
  for (long long at = global_thread(); at - lane_id() < block_rows;
       at += static_cast<long long>(gridDim.x) * CONVERT_BLOCK) {
    const int count = at < block_rows ? counts[begin + at] : 0;
    int of_slice = count;
    for (int offset = height / 2; offset > 0; offset /= 2) {
      of_slice = max(of_slice, __shfl_xor_sync(FULL_MASK, of_slice, offset));
    }
    sum += count;
    steps += lane_id() % height == 0 ? of_slice : 0;
    most = max(most, count);
  }
  add_once(totals + blockIdx.y, sum);
  add_once(totals + gridDim.y + blockIdx.y, steps);
  most = warp_max(most);
  if (lane_id() == 0) note_most(totals + 2 * gridDim.y + blockIdx.y, most);
}

// The same where the block rows of each shape are sorted by their tiles: a block for each. As many slices have v steps or
// more as block rows with v tiles or more need. Steps from BINS on are left out.
template <unsigned DOWN, unsigned ACROSS>
__global__ void __launch_bounds__(SORT_BLOCK)
    sort_shapes(int rows, int height, const int* __restrict__ counts, unsigned long long* __restrict__ totals) {
  constexpr int ACROSS_COUNT = Sides<ACROSS>::COUNT, EACH = BINS / SORT_BLOCK;
  __shared__ int with[BINS];  // block rows with so many tiles, the most first
  __shared__ int of_warp[SORT_BLOCK / WARP];
  const Counts<DOWN, ACROSS> here(rows, static_cast<int>(blockIdx.x) / ACROSS_COUNT);
  const long long block_rows = here.block_rows, begin = here.begin + blockIdx.x % ACROSS_COUNT * block_rows;
  for (int i = threadIdx.x; i < BINS; i += SORT_BLOCK) with[i] = 0;
  __syncthreads();
  int most = 0;
  long long sum = 0, steps = 0;
#pragma unroll 4
  for (long long at = threadIdx.x; at - lane_id() < block_rows; at += SORT_BLOCK) {
    const int count = at < block_rows ? counts[begin + at] : 0;
    const int bin = BINS - 1 - min(count, BINS - 1), first = __shfl_sync(FULL_MASK, bin, 0);
    const unsigned alike = __ballot_sync(FULL_MASK, bin == first);  // as neighbours mostly are
    if (lane_id() == 0 || bin != first) atomicAdd(with + bin, lane_id() ? 1 : __popc(alike));
    sum += count;
    most = max(most, count);
  }
  __syncthreads();
  int inside = 0;
  for (int i = 0; i < EACH; ++i) inside += with[threadIdx.x * EACH + i];
  const int through = group_scan<WARP>(inside);
  if (lane_id() == WARP - 1) of_warp[threadIdx.x / WARP] = through;
  __syncthreads();
  int more = through - inside;
  for (int w = 0; w < static_cast<int>(threadIdx.x) / WARP; ++w) more += of_warp[w];
  for (int i = threadIdx.x * EACH; i < static_cast<int>(threadIdx.x + 1) * EACH && i < BINS - 1; ++i) {
    more += with[i];
    steps += (more + height - 1) / height;
  }
  add_once(totals + blockIdx.x, sum);
  add_once(totals + gridDim.x + blockIdx.x, steps);
  most = warp_max(most);
  if (lane_id() == 0) note_most(totals + 2 * gridDim.x + blockIdx.x, most);
}

// ---- Block rows of one shape.

// Offsets of the most tiles of `height` block rows each: neighbours, or those at neighbouring places of `perm`, which are
// sorted by their tiles. DIFFERENCES: counts are those of (block rows + 1,) numbers. The first note: the most of all.
template <typename I, bool DIFFERENCES>
__device__ __forceinline__ I tiles_at(const I* __restrict__ counts, long long block_row) {
  return DIFFERENCES ? counts[block_row + 1] - counts[block_row] : counts[block_row];
}

template <typename I, bool DIFFERENCES, bool SORTED, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    slice_steps(int block_rows, int slices, int height, const I* __restrict__ counts, const int* __restrict__ perm,
                P* __restrict__ ptr, unsigned long long* __restrict__ state) {
  int most = 0;
  write_offsets<OFFSETS_EACH>(slices, ptr, state, [&](long long slice) {
    const long long first = slice * height, last = SORTED ? first + 1 : first + height;
    int found = 0;
    for (long long place = first; place < last && place < block_rows; ++place) {
      found = max(found, static_cast<int>(tiles_at<I, DIFFERENCES>(counts, SORTED ? perm[place] : place)));
    }
    most = max(most, found);
    return static_cast<long long>(found);
  });
  most = warp_max(most);
  if (lane_id() == 0) note_most(state, most);
}

// The same of neighbours, a lane each, of slices of at most a warp's height.
template <typename I, bool DIFFERENCES, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    high_slice_steps(int block_rows, int slices, int height, const I* __restrict__ counts, int share,
                     P* __restrict__ ptr, unsigned long long* __restrict__ state) {
  int most = 0;
  const auto count = [&](long long at) {
    int found = 0;
#pragma unroll 8
    for (int s = 0; s < share; ++s) {
      const long long block_row = (at - lane_id() + s) * height + lane_id();
      const bool any = lane_id() < height && block_row < block_rows;
      const int here = warp_max(any ? static_cast<int>(tiles_at<I, DIFFERENCES>(counts, block_row)) : 0);
      if (s == lane_id()) found = here;
    }
    most = max(most, found);
    return static_cast<long long>(found);
  };
  write_offsets<1>(slices, ptr, state, count, share);
  most = warp_max(most);
  if (lane_id() == 0) note_most(state, most);
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

// Quotients of numbers below 2^31 by a divisor of at most 32 (Granlund & Montgomery, PLDI 1994).
struct Quotient {
  int shift;
  unsigned factor;

  __device__ __forceinline__ explicit Quotient(int divisor)
      : shift(divisor > 1 ? 63 - __clz(divisor - 1) : 31),
        factor(static_cast<unsigned>(((1ull << shift) + divisor - 1) / divisor)) {}
  __device__ __forceinline__ int operator()(int number) const {
    return static_cast<int>((static_cast<unsigned long long>(static_cast<unsigned>(number)) * factor) >> shift);
  }
};

// A walk from tile to tile of a block row of R rows, in blocks of c columns: to the least of the columns that are next.
// Columns ascend in every row.
template <int R, typename I>
struct Walk {
  const int* __restrict__ col_idx;
  int c;
  Quotient by_c;
  I next[R], end[R];
  unsigned column[R];  // the next of each row, NO_COLUMNS after the last

  __device__ __forceinline__ Walk(const int* __restrict__ col_idx, int c) : col_idx(col_idx), c(c), by_c(c) {}

  __device__ __forceinline__ void read(int i) {
    column[i] = next[i] < end[i] ? static_cast<unsigned>(col_idx[next[i]]) : NO_COLUMNS;
  }

  // Goes to the first tile of a block row.
  __device__ __forceinline__ void begin(int rows, const I* __restrict__ row_ptr, long long block_row) {
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const long long row = block_row * R + i;
      next[i] = row < rows ? row_ptr[row] : I(0);
      end[i] = row < rows ? row_ptr[row + 1] : I(0);
      read(i);
    }
  }

  // Of `parts` of a block row, in which the longest row has equal shares, the one at `part`: goes to its first tile, and
  // returns the column after its last.
  __device__ __forceinline__ unsigned begin_part(int part, int parts) {
    if (parts == 1) return NO_COLUMNS;
    I first = next[0], length = end[0] - first;
#pragma unroll
    for (int i = 1; i < R; ++i) {
      if (end[i] - next[i] > length) {
        first = next[i];
        length = end[i] - first;
      }
    }
    const auto share = [&](int at) { return static_cast<I>(static_cast<long long>(length) * at / parts); };
    const auto column_at = [&](int at) { return by_c(col_idx[first + share(at)]) * c; };
    const unsigned until = part + 1 < parts ? static_cast<unsigned>(column_at(part + 1)) : NO_COLUMNS;
    const int from = part ? column_at(part) : 0;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      if (part) next[i] = entry_from(col_idx, next[i], end[i], from, share(part));
      read(i);
    }
    return until;
  }

  __device__ __forceinline__ unsigned least() const {
    unsigned found = column[0];
#pragma unroll
    for (int i = 1; i < R; ++i) found = column[i] < found ? column[i] : found;
    return found;
  }

  // Goes on to the columns that are not below `behind`. see(i): the next of row i is.
  template <typename See>
  __device__ __forceinline__ void pass(unsigned behind, See see) {
    for (bool any = true; any;) {
      any = false;
#pragma unroll
      for (int i = 0; i < R; ++i) {
        if (column[i] >= behind) continue;
        see(i);
        ++next[i];
        read(i);
        any = true;
      }
    }
  }

  // Whether there is a tile before the column `until`, to the end of which it goes on.
  __device__ __forceinline__ bool pass_tile(unsigned until) {
    const unsigned from = least();
    if (from >= until) return false;
    pass(static_cast<unsigned>(by_c(static_cast<int>(from)) + 1) * c, [](int) {});
    return true;
  }

  // The block of the next tile, to the end of which it goes on, and of each row the first entry in it and a bit for each of
  // its columns.
  __device__ __forceinline__ int take(I (&first)[R], unsigned (&columns)[R]) {
#pragma unroll
    for (int i = 0; i < R; ++i) {
      first[i] = next[i];
      columns[i] = 0;
    }
    const int block = by_c(static_cast<int>(least()));
    const unsigned left = static_cast<unsigned>(block) * c;
    pass(left + c, [&](int i) { columns[i] |= 1u << (column[i] - left); });
    return block;
  }
};

// The first of the parts of a block row: each has one, and one more for each PART entries.
template <int R, typename I>
__device__ __forceinline__ long long first_part(int rows, const I* __restrict__ row_ptr, long long block_row) {
  const long long row = block_row * R;
  return block_row + static_cast<long long>(row_ptr[row < rows ? row : rows] / PART);
}

// A part of a block row, of a thread. None: parts is 0.
struct Part {
  long long block_row;
  int part, parts;
};

// The parts from `from` on, one of each thread. All threads arrive.
template <int BLOCK, int R, typename I>
__device__ __forceinline__ Part part_of(long long from, int rows, const I* __restrict__ row_ptr) {
  __shared__ int begins[BLOCK + 1];  // of some block rows: their first parts, after `from`
  const long long all = (static_cast<long long>(rows) + R - 1) / R;
  long long low = 0, high = all;  // the last block row that begins at `from` or before, by every warp
  while (high - low > 1) {
    const long long step = (high - low + WARP - 1) / WARP, at = low + (lane_id() + 1) * step;
    const int before = __popc(__ballot_sync(FULL_MASK, at < high && first_part<R>(rows, row_ptr, at) <= from));
    high = low + (before + 1) * step < high ? low + (before + 1) * step : high;
    low += before * step;
  }
  for (int i = threadIdx.x; i <= BLOCK; i += BLOCK) {
    begins[i] = static_cast<int>(first_part<R>(rows, row_ptr, low + i < all ? low + i : all) - from);
  }
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.x), here = first_behind(begins, 0, BLOCK + 1, mine) - 1;
  if (low + here >= all) return {0, 0, 0};
  return {low + here, mine - begins[here], begins[here + 1] - begins[here]};
}

// The first tile of each block row, and of each part, each with the end. The first note: no block row has more.
template <int R, typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    count_parts(int rows, int c, long long parts, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                I* __restrict__ ptr, P* __restrict__ part_ptr, unsigned long long* __restrict__ state) {
  Part mine;
  int most = 0;
  const auto count = [&](long long at) {
    mine = part_of<OFFSETS_BLOCK, R>(at - threadIdx.x, rows, row_ptr);
    long long tiles = 0;
    if (mine.parts == 0) return tiles;
    Walk<R, I> walk(col_idx, c);
    walk.begin(rows, row_ptr, mine.block_row);
    const unsigned until = walk.begin_part(mine.part, mine.parts);
    while (walk.pass_tile(until)) ++tiles;
    most = static_cast<int>(min(tiles * mine.parts, static_cast<long long>(0x7fffffff)));
    return tiles;
  };
  sum_before<1>(parts, state, count, [&](long long at, long long before, long long tiles) {
    if (at == 0) part_ptr[0] = P(0);
    if (mine.part == 0) ptr[mine.block_row] = static_cast<I>(before);
    part_ptr[at + 1] = static_cast<P>(before + tiles);
    if (at == parts - 1) ptr[mine.block_row + 1] = static_cast<I>(before + tiles);
  });
  most = warp_max(most);
  if (lane_id() == 0) note_most(state, most);
}

// Every entry to its slot. ptr, part_ptr: of `count_parts`. Tiles are stored as they come and nothing else; or with GAPS
// in slices of `height` block rows, a power of two, which begin at `slice_ptr` and hold -1 and zeros before, and SORTED
// after `places`, where each block row is stored. Threads walk to as many tiles as there is room for to note them; then
// slots take their entries.
template <int R, typename V, typename I, typename P, typename S, typename Columns, bool GAPS, bool SORTED>
__global__ void __launch_bounds__(PARTS_BLOCK)
    fill_parts(int rows, int c, int height, int load, long long parts, const I* __restrict__ row_ptr,
               const int* __restrict__ col_idx, const V* __restrict__ entries, const I* __restrict__ ptr,
               const P* __restrict__ part_ptr, const int* __restrict__ places, const S* __restrict__ slice_ptr,
               int* __restrict__ block_col, V* __restrict__ values) {
  constexpr int ROOM = (R > 1 ? 3072 : 2048) / R;  // tiles
  __shared__ int block_of[ROOM];
  __shared__ unsigned first_of[ROOM * R];   // of the tile's rows: the first entry, after `base`
  __shared__ Columns columns_of[ROOM * R];  // and a bit for each column
  __shared__ long long place_of[GAPS ? ROOM : 1];
  const long long from = static_cast<long long>(blockIdx.x) * PARTS_BLOCK, part = from + threadIdx.x;
  const Part mine = part_of<PARTS_BLOCK, R>(from, rows, row_ptr);
  __shared__ I base;
  if (threadIdx.x == 0) base = row_ptr[mine.block_row * R];
  __syncthreads();
  long long at = mine.parts ? part_ptr[part] : P(0), ahead = 0;
  const long long end = mine.parts ? part_ptr[part + 1] : P(0);
  const Step slots(R * c, height, load);
  const int shift = __ffs(height) - 1;
  int lane = 0;
  Walk<R, I> walk(col_idx, c);
  if (at < end) {
    walk.begin(rows, row_ptr, mine.block_row);
    walk.begin_part(mine.part, mine.parts);
    const int place = SORTED ? places[mine.block_row] : static_cast<int>(mine.block_row);
    if (GAPS) ahead = slice_ptr[place >> shift] - ptr[mine.block_row];
    lane = place & (height - 1);
  }
  const long long last = part_ptr[from + PARTS_BLOCK < parts ? from + PARTS_BLOCK : parts];
  for (long long begin = part_ptr[from]; begin < last; begin += ROOM) {
    const int here = static_cast<int>(last - begin < ROOM ? last - begin : ROOM);
    for (; at < end && at < begin + ROOM; ++at) {
      I first[R];
      unsigned columns[R];
      const int tile = static_cast<int>(at - begin);
      block_of[tile] = walk.take(first, columns);
      if (GAPS) place_of[tile] = (at + ahead) << shift | lane;
#pragma unroll
      for (int i = 0; i < R; ++i) {
        first_of[tile * R + i] = static_cast<unsigned>(first[i] - base);
        columns_of[tile * R + i] = static_cast<Columns>(columns[i]);
      }
    }
    __syncthreads();
    for (int tile = threadIdx.x; tile < here; tile += PARTS_BLOCK) {
      block_col[GAPS ? place_of[tile] : begin + tile] = block_of[tile];
    }
#pragma unroll 4
    for (int slot = threadIdx.x; slot < here * slots.size; slot += PARTS_BLOCK) {
      const int row = walk.by_c(slot), tile = row / R;
      const unsigned columns = columns_of[row], bit = 1u << (slot - row * c);
      const V value = columns & bit ? entries[base + first_of[row] + __popc(columns & (bit - 1))] : V(0);
      if (!GAPS) {
        values[begin * slots.size + slot] = value;
      } else if (height == 1 || (columns & bit)) {  // side by side with the next slot, or apart
        const int of_slice = static_cast<int>(place_of[tile] & (height - 1));
        values[slots.place(place_of[tile] >> shift, of_slice, slot - tile * slots.size)] = value;
      }
    }
    __syncthreads();
  }
}
