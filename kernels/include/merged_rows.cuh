// The entries of block rows, r neighbouring rows each, in the order of their blocks of c columns, those of a block by row
// and column. A thread block merges the rows of some block rows, or of a part of a long one, in shared memory.
// spmvbench/formats/merged.py launches such kernels.
#pragma once
#include "largest.cuh"
#include "offsets.cuh"
#include "search.cuh"
#include "spmv.cuh"

constexpr int MERGE_BLOCK = 512;
constexpr int MERGE_EACH = 4;      // entries of a thread
constexpr int MERGE_TOGETHER = 3;  // blocks of a multiprocessor, at least: what they wait for is hidden by others
constexpr int MERGE_ENTRIES = MERGE_BLOCK * MERGE_EACH;
constexpr int MERGE_BITS = 11;
constexpr int MERGE_ROWS = 1024;   // at once
constexpr int MERGE_SHARE = 1792;  // of entries and rows together, for a thread block: mostly all fit at once
constexpr int ROW_BITS = 5;        // of a row in a block row: at most 32
static_assert(1 << MERGE_BITS == MERGE_ENTRIES, "a key holds the number of any entry");
static_assert(MERGE_ROWS << ROW_BITS <= 1 << 16, "block row and row in 16 bits");

template <bool WIDE>
struct MergeKey {
  using Type = unsigned;
};
template <>
struct MergeKey<true> {
  using Type = unsigned long long;
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

// Where shares begin: block rows, and blocks of columns in them. `merged_cuts` of block_convert.cu writes them.
struct MergeCuts {
  const int* __restrict__ block_row;
  const int* __restrict__ column;
};

// The entries that a thread block has in shared memory, by number: row after row. Tiles are the blocks with entries.
template <bool WIDE>
struct Merged {
  using Key = typename MergeKey<WIDE>::Type;

  Key keys[MERGE_ENTRIES];                     // column block << MERGE_BITS | number, in order
  unsigned short row_of[MERGE_ENTRIES];        // of a number: block row, from the first, << ROW_BITS | row in it
  unsigned short tile_of[MERGE_ENTRIES];       // of a number: its tile
  unsigned short begins[MERGE_ENTRIES + 1];    // the first key of each tile, and the end
  int starts[MERGE_ROWS + 1];                  // the first number of each row, and the end; of block rows in keys, too
  long long shift[WARP];                       // number to entry, of each row of a part
  long long base, first;                       // first: block row
  int block_row[2];                            // of the share: where it begins and ends
  int column[2], of_warp[MERGE_BLOCK / WARP];  // column: block, where it begins and ends in its block row
  int entries, block_rows, tiles;
  bool part, head, more;  // part: not all of the only block row; head: its first; more: there is more in the share

  __device__ __forceinline__ static int number(Key key) { return static_cast<int>(key & (MERGE_ENTRIES - 1)); }
  __device__ __forceinline__ static int block(Key key) { return static_cast<int>(key >> MERGE_BITS); }
  __device__ __forceinline__ int block_row_of(int number) const { return row_of[number] >> ROW_BITS; }
  __device__ __forceinline__ int row_in(int number) const { return row_of[number] & ((1 << ROW_BITS) - 1); }
  __device__ __forceinline__ long long entry(int number) const {
    return (part ? shift[row_in(number)] : base) + number;
  }
  // The tile of the first key from `at` on.
  __device__ __forceinline__ int tile_at(int at) const { return at < entries ? tile_of[number(keys[at])] : tiles; }
};

// A matrix in block rows of r rows, in blocks of c columns.
template <typename I>
struct BlockRows {
  int rows;
  int r;
  int c;
  const I* __restrict__ row_ptr;
  const int* __restrict__ col_idx;
  Quotient by_r, by_c;

  __device__ __forceinline__ BlockRows(int rows, int r, int c, const I* __restrict__ row_ptr,
                                       const int* __restrict__ col_idx)
      : rows(rows), r(r), c(c), row_ptr(row_ptr), col_idx(col_idx), by_r(r), by_c(c) {}

  __device__ __forceinline__ long long count() const { return (static_cast<long long>(rows) + r - 1) / r; }
  __device__ __forceinline__ long long first(long long block_row) const {
    const long long row = block_row * r;
    return row_ptr[row < rows ? row : rows];
  }

  // Where a share begins: a block row, and a block of its columns if it has too many entries for one. By a warp.
  __device__ __forceinline__ void cut(long long share, int* block_row, int* column) const {
    const auto place = [&](long long at) { return first(at) + static_cast<long long>(r) * at; };
    const long long all = count(), sought = share * MERGE_SHARE;
    long long low = 0, high = all + 1;
    while (high - low > 1) {
      const long long step = (high - low + WARP - 1) / WARP, at = low + (lane_id() + 1) * step;
      const int before = __popc(__ballot_sync(FULL_MASK, at < high && place(at) <= sought));
      high = low + (before + 1) * step < high ? low + (before + 1) * step : high;
      low += before * step;
    }
    int column_here = 0;
    const long long begin = low < all ? first(low) : 0, entries = low < all ? first(low + 1) - begin : 0;
    if (low < all && place(low) < sought) {
      if (entries <= MERGE_ENTRIES) {
        ++low;
      } else {  // as far as its longest row is through
        const long long row = low * r + lane_id();
        const bool any = lane_id() < r && row < rows;
        const long long length = any ? static_cast<long long>(row_ptr[row + 1] - row_ptr[row]) : 0;
        const long long longest = warp_max(length);
        const int owner = __ffs(static_cast<int>(__ballot_sync(FULL_MASK, length == longest))) - 1;
        const double through =
            static_cast<double>(sought - place(low)) / static_cast<double>(place(low + 1) - place(low));
        const long long at = static_cast<long long>(through * static_cast<double>(longest));
        const long long inside = at < longest ? at : longest - 1;
        column_here = col_idx[static_cast<long long>(row_ptr[low * r + owner]) + inside] / c;
      }
    }
    if (lane_id() != 0) return;
    *block_row = static_cast<int>(low);
    *column = column_here;
  }
};

// Sorts what is described in shared memory; all threads arrive and leave together.
template <bool WIDE, typename I>
__device__ __forceinline__ void merge(Merged<WIDE>& m, const BlockRows<I>& a) {
  using Key = typename Merged<WIDE>::Key;
  const int warp = threadIdx.x / WARP, lane = lane_id();
  Key key[MERGE_EACH];
  int at[MERGE_EACH], row[MERGE_EACH];  // row: in its block row, after the first of that << ROW_BITS
  const int first_number = warp * (MERGE_EACH * WARP) + lane;
#pragma unroll
  for (int u = 0; u < MERGE_EACH; ++u) {  // columns first, as far as nothing has to be known of rows
    const int number = first_number + u * WARP;
    at[u] = number < m.entries && !m.part ? a.col_idx[m.base + number] : 0;
  }
  int own = -1;
#pragma unroll
  for (int u = 0; u < MERGE_EACH; ++u) {
    const int number = first_number + u * WARP;
    if (number >= m.entries) continue;
    own = own < 0 ? first_behind(m.starts, 0, m.block_rows * a.r + 1, number) - 1
                  : row_from(m.starts, own, m.block_rows * a.r, number);
    const int block_row = a.by_r(own), in = own - block_row * a.r;
    row[u] = block_row * a.r << ROW_BITS | in;
    m.row_of[number] = static_cast<unsigned short>(block_row << ROW_BITS | in);
    if (m.part) at[u] = a.col_idx[m.shift[in] + number];
    key[u] = static_cast<Key>(a.by_c(at[u])) << MERGE_BITS | static_cast<Key>(number);
    m.keys[number] = key[u];
    at[u] = number;
  }
  __syncthreads();
  for (int level = 0; 1 << level < a.r; ++level) {  // pairs of runs of 1 << level rows
    int low[MERGE_EACH], left[MERGE_EACH], longest = 0;
#pragma unroll
    for (int u = 0; u < MERGE_EACH; ++u) {
      low[u] = left[u] = 0;
      if (first_number + u * WARP >= m.entries) continue;
      const int first = row[u] >> ROW_BITS, in = (row[u] & ((1 << ROW_BITS) - 1)) >> level;
      const int other = (in ^ 1) << level, behind = other + (1 << level);
      if (other >= a.r) continue;
      low[u] = m.starts[first + other];
      left[u] = m.starts[first + (behind < a.r ? behind : a.r)] - low[u];
      at[u] -= in & 1 ? m.starts[first + (in << level)] : low[u];
      longest = left[u] > longest ? left[u] : longest;
    }
    for (; longest > 0; longest /= 2) {  // searches side by side
#pragma unroll
      for (int u = 0; u < MERGE_EACH; ++u) {
        if (left[u] == 0) continue;
        const int half = left[u] / 2;
        const bool before = m.keys[low[u] + half] < key[u];
        low[u] += before ? half + 1 : 0;
        left[u] = before ? left[u] - half - 1 : half;
      }
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < MERGE_EACH; ++u) {
      at[u] += low[u];
      if (first_number + u * WARP < m.entries) m.keys[at[u]] = key[u];
    }
    __syncthreads();
  }
  // Tiles: a warp takes neighbouring keys.
  unsigned leads[MERGE_EACH];
  int mine = 0;
#pragma unroll
  for (int u = 0; u < MERGE_EACH; ++u) {
    const int k = first_number + u * WARP;
    bool lead = k < m.entries;
    if (lead && k > 0) {
      const Key here = m.keys[k], before = m.keys[k - 1];
      lead = m.block(here) != m.block(before) || m.block_row_of(m.number(here)) != m.block_row_of(m.number(before));
    }
    leads[u] = __ballot_sync(FULL_MASK, lead);
    mine += __popc(leads[u]);
  }
  if (lane == 0) m.of_warp[warp] = mine;
  __syncthreads();
  int before = 0, all = 0;
  for (int w = 0; w < MERGE_BLOCK / WARP; ++w) {
    if (w < warp) before += m.of_warp[w];
    all += m.of_warp[w];
  }
#pragma unroll
  for (int u = 0; u < MERGE_EACH; ++u) {
    const int k = first_number + u * WARP;
    const int tile = before + __popc(leads[u] & (2u << lane) - 1) - 1;
    before += __popc(leads[u]);
    if (k >= m.entries) continue;
    m.tile_of[m.number(m.keys[k])] = static_cast<unsigned short>(tile);
    if (leads[u] >> lane & 1) m.begins[tile] = static_cast<unsigned short>(k);
  }
  if (threadIdx.x == 0) {
    m.tiles = all;
    m.begins[all] = static_cast<unsigned short>(m.entries);
  }
  __syncthreads();
}

// visit() with all entries of a share in shared memory, some after the others, in order. All threads arrive and leave
// together, those of `visit` in their turn.
template <bool WIDE, typename I, typename Visit>
__device__ __forceinline__ void visit_merged(Merged<WIDE>& m, long long share, const BlockRows<I>& a,
                                             const MergeCuts& cuts, Visit visit) {
  const int warp = threadIdx.x / WARP, lane = lane_id();
  if (threadIdx.x < 2) {
    m.block_row[threadIdx.x] = cuts.block_row[share + threadIdx.x];
    m.column[threadIdx.x] = cuts.column[share + threadIdx.x];
  }
  __syncthreads();
  long long block_row = m.block_row[0];
  const long long last = m.block_row[1];
  int column = m.column[0];
  I at = 0, stop = 0;  // of a part, what the first warp's lanes have left of their rows
  bool begun = false;
  while (block_row < last || (block_row == last && column < m.column[1])) {
    const long long fitting = last - block_row, most = MERGE_ROWS / a.r;
    int here = static_cast<int>(fitting < most ? fitting : most);
    const long long base = a.first(block_row);
    for (int i = threadIdx.x; i <= here * a.r; i += MERGE_BLOCK) {
      const long long row = block_row * a.r + i, inside = a.row_ptr[row < a.rows ? row : a.rows] - base;
      m.starts[i] = static_cast<int>(inside <= MERGE_ENTRIES ? inside : MERGE_ENTRIES + 1);
    }
    __syncthreads();
    const bool part = here == 0 || m.starts[a.r] > MERGE_ENTRIES;
    if (part) {
      here = 1;
    } else if (m.starts[here * a.r] > MERGE_ENTRIES) {  // as many as fit
      int found = 0;
      for (int from = 0, full = MERGE_BLOCK; full == MERGE_BLOCK; from += MERGE_BLOCK) {
        const int number = from + static_cast<int>(threadIdx.x) + 1;
        full = __syncthreads_count(number <= here && m.starts[number * a.r] <= MERGE_ENTRIES);
        found += full;
      }
      here = found;
    }
    __syncthreads();
    if (!part) {
      if (threadIdx.x == 0) m.entries = m.starts[here * a.r];
    } else if (warp == 0) {
      const long long row = block_row * a.r + lane;
      if (!begun) {
        const bool any = lane < a.r && row < a.rows;
        at = any ? a.row_ptr[row] : I(0);
        stop = any ? a.row_ptr[row + 1] : I(0);
        if (column) at = entry_from(a.col_idx, at, stop, column * a.c, I(0));
        if (block_row == last) stop = entry_from(a.col_idx, at, stop, m.column[1] * a.c, I(0));
      }
      // Of each row its share of what fits, then all before the first block that is not whole.
      const long long left = stop - at;
      const long long all = __shfl_sync(FULL_MASK, group_sum<WARP>(left), 0);
      long long take = left;
      if (all > MERGE_ENTRIES) {
        const int least = a.c + 1;  // ends beyond the first block
        const long long share_of_row = least + (MERGE_ENTRIES - static_cast<long long>(a.r) * least) * left / all;
        const long long most = share_of_row < left ? share_of_row : left;
        const int behind = warp_min(most < left ? a.col_idx[at + most - 1] / a.c : 0x7fffffff);
        take = entry_from(a.col_idx, at, static_cast<I>(at + most), behind * a.c, I(0)) - at;
      }
      const int through = group_scan<WARP>(static_cast<int>(take));
      if (lane < a.r) m.starts[lane + 1] = through;
      if (lane == 0) m.starts[0] = 0;
      m.shift[lane] = at - (through - take);
      at += static_cast<I>(take);
      if (lane == WARP - 1) {
        m.entries = through;
        m.more = through < all;
      }
    }
    if (threadIdx.x == 0) {
      m.first = block_row;
      m.block_rows = here;
      m.base = base;
      m.part = part;
      m.head = !begun && column == 0;
    }
    __syncthreads();
    merge(m, a);
    visit();
    begun = part && m.more;
    if (!begun) {
      block_row += here;
      column = 0;
    }
    __syncthreads();
  }
}

// Shares in the order in which blocks begin, and what comes before each, by look-back. state: see offsets.cuh.
template <bool WIDE>
struct MergedInOrder {
  Merged<WIDE> merged;
  long long share, before;  // before: tiles

  // Writes the first tile of each block row and of each share, each with the end.
  template <typename I>
  __device__ __forceinline__ void count(const BlockRows<I>& a, const MergeCuts& cuts, I* __restrict__ ptr,
                                        I* __restrict__ of_share, unsigned long long* __restrict__ state) {
    if (threadIdx.x == 0) share = static_cast<long long>(atomicAdd(state + OFFSETS_NOTES - 1, 1ull));
    __syncthreads();
    Merged<WIDE>& m = merged;
    long long tiles = 0;  // of the share
    visit_merged(m, share, a, cuts, [&]() {
      for (int j = threadIdx.x; m.head && j < m.block_rows; j += MERGE_BLOCK) {
        ptr[m.first + j] = static_cast<I>(tiles + m.tile_at(m.starts[j * a.r]));
      }
      tiles += m.tiles;
    });
    if (threadIdx.x < WARP) {
      const long long found = look_back(state + OFFSETS_NOTES, share, tiles);
      if (threadIdx.x == 0) before = found;
    }
    __syncthreads();
    const long long end = m.block_row[1] + (m.column[1] > 0);  // of the block rows that begin here
    for (long long t = m.block_row[0] + (m.column[0] > 0) + threadIdx.x; t < end; t += MERGE_BLOCK) {
      ptr[t] += static_cast<I>(before);
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    of_share[share] = static_cast<I>(before);
    if (share < gridDim.x - 1) return;
    ptr[a.count()] = of_share[share + 1] = static_cast<I>(before + tiles);
    state[OFFSETS_NOTES - 2] = static_cast<unsigned long long>(before + tiles);
  }
};
