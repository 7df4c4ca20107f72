// A matrix cut into r x c tiles on the device: how many tiles of each shape there are, how many per block row, every
// entry to its slot. Rows are sorted by column: a thread merges the rows of a block row, a block those that are long.
// spmvbench/formats/dense_blocks/blocks.py says more.
#include "largest.cuh"
#include "offsets.cuh"
#include "search.cuh"
#include "spmv.cuh"

constexpr int CONVERT_BLOCK = 256;
constexpr int CONVERT_WARPS = CONVERT_BLOCK / WARP;
constexpr int ROWS_BLOCK = 128;      // threads of `fill_rows`, at most
constexpr int MERGED_ROWS = 8;       // of a block row that a thread merges, at most
constexpr int MERGED_ENTRIES = 512;  // likewise
constexpr int SLAB = 768;  // neighbouring rows of a sample: whole slices of 8 and 32 block rows of 1 to 8 rows
constexpr int NO_COLUMN = 0x7fffffff;

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
// takes `group` rows, a multiple of all sides. Counts of a shape follow those of the one before, one a block row. longest,
// zero before: the longest row.
template <typename I, unsigned DOWN, unsigned ACROSS>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    count_shapes(int rows, int group, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                 int* __restrict__ counts, unsigned long long* __restrict__ longest) {
  using Down = Sides<DOWN>;
  using Across = Sides<ACROSS>;
  constexpr unsigned ALL = (1u << Across::COUNT) - 1;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  int* const found = reinterpret_cast<int*>(dynamic_shared);  // as `counts`, of the block's rows
  int room = 0;
#pragma unroll
  for (int i = 0; i < Down::COUNT; ++i) room += Across::COUNT * (group / Down::at(i));
  for (int at = threadIdx.x; at < room; at += blockDim.x) found[at] = 0;
  __syncthreads();

  const long long first_row = static_cast<long long>(blockIdx.x) * group;
  const int top = static_cast<int>(first_row);
  const int bottom = first_row + group < rows ? top + group : rows;
  const I last = row_ptr[bottom];
  int most = 0;
  for (int r = top + static_cast<int>(threadIdx.x); r < bottom; r += CONVERT_BLOCK) {
    const int length = static_cast<int>(row_ptr[r + 1] - row_ptr[r]);
    most = most < length ? length : most;
  }
  most = warp_max(most);
  if (lane_id() == 0) note_most(longest, most);
  int row = -1;
  for (I k = row_ptr[top] + static_cast<I>(threadIdx.x); k < last; k += CONVERT_BLOCK) {
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
      if (block_row < all) counts[begin + at / here * all + block_row] = found[begin_here + at];
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
  const long long tiles = group_sum<WARP>(sum), steps = group_sum<WARP>(static_cast<long long>(most));
  if (lane_id() != 0 || !tiles) return;
  atomicAdd(totals + blockIdx.y, static_cast<unsigned long long>(tiles));
  atomicAdd(totals + gridDim.y + blockIdx.y, static_cast<unsigned long long>(steps));
}

// ---- Block rows of one shape.

// The entries of a block row's rows that are not in tiles yet. R: at least its rows.
template <int R, typename I>
struct Rows {
  const int* __restrict__ col_idx;
  int column[R];  // of the next entry of each row; NO_COLUMN after the last
  I at[R];
  I end[R];

  __device__ __forceinline__ Rows(const I* __restrict__ row_ptr, const int* __restrict__ col_idx, long long top,
                                  int here)
      : col_idx(col_idx) {
#pragma unroll
    for (int i = 0; i < R; ++i) {
      at[i] = i < here ? row_ptr[top + i] : I(0);
      end[i] = i < here ? row_ptr[top + i + 1] : I(0);
      column[i] = at[i] < end[i] ? col_idx[at[i]] : NO_COLUMN;
    }
  }

  __device__ __forceinline__ int least() const {
    int found = column[0];
#pragma unroll
    for (int i = 1; i < R; ++i) found = column[i] < found ? column[i] : found;
    return found;
  }

  __device__ __forceinline__ void advance(int i) {
    ++at[i];
    column[i] = at[i] < end[i] ? col_idx[at[i]] : NO_COLUMN;
  }

  // put(e, value) for all r * c places of the block, which the rows are at: 0 where there is no entry.
  template <typename V, typename Put>
  __device__ __forceinline__ void take(int block, int r, int c, const V* __restrict__ entries, Put put) {
#pragma unroll
    for (int i = 0; i < R; ++i) {
      for (int j = 0; j < c && i < r; ++j) {
        V value(0);
        if (at[i] < end[i] && column[i] - block * c == j) {
          value = entries[at[i]];
          advance(i);
        }
        put(i * c + j, value);
      }
    }
  }
};

// A list of block rows that a block takes each: how many, then their numbers.
__device__ __forceinline__ void put_off(int* __restrict__ list, int number) { list[1 + atomicAdd(list, 1)] = number; }

// Tiles of each block row: a thread each. Those of more than `limit` entries are left to `count_long`.
template <int R, typename I>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    count_tiles(int rows, int block_rows, int r, int c, int limit, const I* __restrict__ row_ptr,
                const int* __restrict__ col_idx, I* __restrict__ counts, int* __restrict__ list) {
  const long long block_row = global_thread();
  if (block_row >= block_rows) return;
  const long long top = block_row * r;
  const int here = top + r < rows ? r : static_cast<int>(rows - top);
  const I entries = row_ptr[top + here] - row_ptr[top];
  if (r * c == 1) {
    counts[block_row] = entries;
  } else if (entries > limit) {
    put_off(list, static_cast<int>(block_row));
  } else {
    Rows<R, I> left(row_ptr, col_idx, top, here);
    I tiles = 0;
    for (int column = left.least(); column != NO_COLUMN; column = left.least()) {
      const int first = column / c * c;
      ++tiles;
#pragma unroll
      for (int i = 0; i < R; ++i) {
        while (left.at[i] < left.end[i] && left.column[i] - first < c) left.advance(i);
      }
    }
    counts[block_row] = tiles;
  }
}

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

constexpr int RANGE_WORDS = 16 * CONVERT_BLOCK;  // of bits of block columns that a block looks at together
constexpr int MOST_ROWS = WARP;                  // of a block row

// The tiles of one block row, range after range of block columns: a bit for each that has an entry.
template <typename I>
struct Ranges {
  unsigned bits[RANGE_WORDS];
  int before[RANGE_WORDS];  // bits of the words before
  I at[MOST_ROWS];          // first entry of each row in the range
  I stop[MOST_ROWS];        // and after its last
  int of_warp[CONVERT_WARPS];
  int first;  // block column
};

// range(first tile, word) for each word with bits, then entry(first tile, row, entry) for each entry of a range: how
// many tiles there are. All threads of the block must arrive.
template <typename I, typename Range, typename Entry>
__device__ __forceinline__ long long visit_ranges(Ranges<I>& shared, int c, const I* __restrict__ row_ptr,
                                                  const int* __restrict__ col_idx, long long top, int here, Range range,
                                                  Entry entry) {
  long long tiles = 0;
  const int lane = lane_id(), warp = threadIdx.x / WARP;
  I at = lane < here ? row_ptr[top + lane] : I(0);
  const I end = lane < here ? row_ptr[top + lane + 1] : I(0);
  while (true) {
    const int block = warp_min(at < end ? col_idx[at] / c : NO_COLUMN);  // the same in all warps
    if (block == NO_COLUMN) break;
    const long long behind = (static_cast<long long>(block) + RANGE_WORDS * WARP) * c;
    const I stop = behind < NO_COLUMN ? entry_from(col_idx, at, end, static_cast<int>(behind), I(0)) : end;
    __syncthreads();  // the last range is done
    if (warp == 0) {
      shared.at[lane] = at;
      shared.stop[lane] = stop;
    }
    for (int word = threadIdx.x; word < RANGE_WORDS; word += CONVERT_BLOCK) shared.bits[word] = 0;
    __syncthreads();
    // Many rows: a warp each; few: all of the block for each.
    const bool many = here >= CONVERT_WARPS;
    const int first_row = many ? warp : 0, next_row = many ? CONVERT_WARPS : 1;
    const int first = many ? lane : static_cast<int>(threadIdx.x), next = many ? WARP : CONVERT_BLOCK;
    for (int row = first_row; row < here; row += next_row) {
      for (I k = shared.at[row] + first; k < shared.stop[row]; k += next) {
        const int bit = col_idx[k] / c - block;
        atomicOr(shared.bits + bit / WARP, 1u << (bit % WARP));
      }
    }
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < RANGE_WORDS / CONVERT_BLOCK; ++i) {
      shared.before[threadIdx.x * (RANGE_WORDS / CONVERT_BLOCK) + i] = sum;
      sum += __popc(shared.bits[threadIdx.x * (RANGE_WORDS / CONVERT_BLOCK) + i]);
    }
    const int inside = group_scan<WARP>(sum);
    if (lane == WARP - 1) shared.of_warp[warp] = inside;
    __syncthreads();
    int earlier = inside - sum, all = 0;
    for (int w = 0; w < CONVERT_WARPS; ++w) {
      if (w < warp) earlier += shared.of_warp[w];
      all += shared.of_warp[w];
    }
    for (int i = 0; i < RANGE_WORDS / CONVERT_BLOCK; ++i) {
      const int word = static_cast<int>(threadIdx.x) * (RANGE_WORDS / CONVERT_BLOCK) + i;
      shared.before[word] += earlier;
      unsigned left = shared.bits[word];
      for (long long tile = tiles + shared.before[word]; left; left &= left - 1) {
        range(tile++, block + word * WARP + __ffs(static_cast<int>(left)) - 1);
      }
    }
    __syncthreads();
    for (int row = first_row; row < here; row += next_row) {
      for (I k = shared.at[row] + first; k < shared.stop[row]; k += next) {
        const int column = col_idx[k];
        const int bit = column / c - block;
        const int rank = shared.before[bit / WARP] + __popc(shared.bits[bit / WARP] & ((1u << (bit % WARP)) - 1));
        entry(tiles + rank, row * c + column % c, k);
      }
    }
    tiles += all;
    at = stop;
  }
  return tiles;
}

template <typename I>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    count_long(int rows, int r, int c, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
               I* __restrict__ counts, const int* __restrict__ list) {
  __shared__ Ranges<I> shared;
  for (int number = blockIdx.x; number < list[0]; number += gridDim.x) {
    const long long block_row = list[1 + number], top = block_row * r;
    const int here = top + r < rows ? r : static_cast<int>(rows - top);
    const long long tiles =
        visit_ranges(shared, c, row_ptr, col_idx, top, here, [](long long, int) {}, [](long long, int, I) {});
    if (threadIdx.x == 0) counts[block_row] = static_cast<I>(tiles);
  }
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

// -1 and zeros to all slots of slices of more than `limit` steps, whose long block rows would leave them to few threads.
template <typename V, typename S>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    clear_slices(int slices, int size, int height, int limit, const S* __restrict__ slice_ptr,
                 int* __restrict__ block_col, V* __restrict__ values) {
  for (int slice = blockIdx.x; slice < slices; slice += gridDim.x) {
    const long long begin = static_cast<long long>(slice_ptr[slice]) * height;
    const long long end = static_cast<long long>(slice_ptr[slice + 1]) * height;
    if (end - begin <= static_cast<long long>(limit) * height) continue;
    for (long long at = begin + threadIdx.x; at < end; at += CONVERT_BLOCK) block_col[at] = -1;
    for (long long at = begin * size + threadIdx.x; at < end * size; at += CONVERT_BLOCK) values[at] = V(0);
  }
}

// Every entry to its slot, -1 and zeros to all others: a thread for each place of a slice. Slices of more than `limit`
// steps are cleared already. Block rows of more than `limit` entries are left to `fill_long`, which finds their places
// in `list`. perm: the block row at each place.
template <int R, typename V, typename I, typename S, bool SORTED>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    fill_tiles(int rows, int block_rows, int r, int c, int height, int load, int limit, const I* __restrict__ row_ptr,
               const int* __restrict__ col_idx, const V* __restrict__ entries, const int* __restrict__ perm,
               const S* __restrict__ slice_ptr, int* __restrict__ block_col, V* __restrict__ values,
               int* __restrict__ list) {
  const long long place = global_thread(), slice = place / height;
  if (slice * height >= block_rows) return;
  const int lane = static_cast<int>(place % height);
  const long long top = place < block_rows ? (SORTED ? perm[place] : place) * r : rows;
  const int here = top + r < rows ? r : static_cast<int>(rows - top);
  if (here && row_ptr[top + here] - row_ptr[top] > limit) {
    put_off(list, static_cast<int>(place));
    return;
  }
  const Step slots(r * c, height, load);
  long long step = slice_ptr[slice];
  const long long end = slice_ptr[slice + 1];
  Rows<R, I> left(row_ptr, col_idx, top, here);
  for (int column = left.least(); column != NO_COLUMN; column = left.least(), ++step) {
    const int block = column / c;
    block_col[step * height + lane] = block;
    left.take(block, r, c, entries, [&](int e, V value) { values[slots.place(step, lane, e)] = value; });
  }
  if (end - slice_ptr[slice] > limit) return;
  for (; step < end; ++step) {
    block_col[step * height + lane] = -1;
    for (int e = 0; e < r * c; ++e) values[slots.place(step, lane, e)] = V(0);
  }
}

// The same for slices of one block row, whose tiles are one after the other: those of a thread, `batch` at a time, go
// to shared memory, from where its warp writes them side by side.
template <int R, typename V, typename I, typename S, bool SORTED>
__global__ void __launch_bounds__(ROWS_BLOCK)
    fill_rows(int rows, int block_rows, int r, int c, int batch, int limit, const I* __restrict__ row_ptr,
              const int* __restrict__ col_idx, const V* __restrict__ entries, const int* __restrict__ perm,
              const S* __restrict__ slice_ptr, int* __restrict__ block_col, V* __restrict__ values,
              int* __restrict__ list) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  const int size = r * c, stride = batch * size + 1;  // one more: lanes meet different banks
  const int lane = lane_id(), warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  V* const all_tiles = reinterpret_cast<V*>(dynamic_shared);
  V* const tiles = all_tiles + warp * WARP * stride;
  int* const blocks = reinterpret_cast<int*>(all_tiles + warps * WARP * stride) + warp * WARP * batch;

  const long long place = global_thread();
  const bool inside = place < block_rows;
  const long long top = inside ? (SORTED ? perm[place] : place) * r : rows;
  int here = top + r < rows ? r : static_cast<int>(rows - top);
  long long step = inside ? static_cast<long long>(slice_ptr[place]) : 0;
  const long long steps = inside ? static_cast<long long>(slice_ptr[place + 1]) - step : 0;
  long long end = step + steps;
  if (here && row_ptr[top + here] - row_ptr[top] > limit) {
    put_off(list, static_cast<int>(place));
    here = 0;
    end = step;
  }
  Rows<R, I> left(row_ptr, col_idx, top, here);
  while (__any_sync(FULL_MASK, step < end)) {
    int count = 0;
    for (; count < batch && step + count < end; ++count) {
      const int column = left.least();
      const int block = column == NO_COLUMN ? -1 : column / c;
      if (block < 0 && steps > limit) {  // cleared already
        end = step + count;
        break;
      }
      blocks[lane * batch + count] = block;
      V* const tile = tiles + lane * stride + count * size;
      left.take(block, r, c, entries, [&](int e, V value) { tile[e] = value; });
    }
    __syncwarp();
    for (int l = 0; l < WARP; ++l) {
      const int of_lane = __shfl_sync(FULL_MASK, count, l);
      const long long first = __shfl_sync(FULL_MASK, step, l);
      for (int e = lane; e < of_lane * size; e += WARP) values[first * size + e] = tiles[l * stride + e];
      for (int t = lane; t < of_lane; t += WARP) block_col[first + t] = blocks[l * batch + t];
    }
    __syncwarp();
    step += count;
  }
}

// The same for the places in `list`: a block each.
template <typename V, typename I, typename S, bool SORTED>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    fill_long(int rows, int r, int c, int height, int load, int limit, const I* __restrict__ row_ptr,
              const int* __restrict__ col_idx, const V* __restrict__ entries, const int* __restrict__ perm,
              const S* __restrict__ slice_ptr, int* __restrict__ block_col, V* __restrict__ values,
              const int* __restrict__ list) {
  __shared__ Ranges<I> shared;
  const Step slots(r * c, height, load);
  for (int number = blockIdx.x; number < list[0]; number += gridDim.x) {
    const int place = list[1 + number], slice = place / height, lane = place % height;
    const long long top = static_cast<long long>(SORTED ? perm[place] : place) * r;
    const int here = top + r < rows ? r : static_cast<int>(rows - top);
    const long long begin = slice_ptr[slice], steps = static_cast<long long>(slice_ptr[slice + 1]) - begin;
    for (long long at = threadIdx.x; steps <= limit && at < steps * (r * c); at += CONVERT_BLOCK) {
      values[slots.place(begin + at / (r * c), lane, static_cast<int>(at % (r * c)))] = V(0);
    }
    for (long long step = threadIdx.x; steps <= limit && step < steps; step += CONVERT_BLOCK) {
      block_col[(begin + step) * height + lane] = -1;
    }
    __syncthreads();
    visit_ranges(
        shared, c, row_ptr, col_idx, top, here,
        [&](long long tile, int block) { block_col[(begin + tile) * height + lane] = block; },
        [&](long long tile, int e, I k) { values[slots.place(begin + tile, lane, e)] = entries[k]; });
  }
}
