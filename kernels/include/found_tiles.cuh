// The entries of block rows, r neighbouring rows each, in the order of their blocks of c columns, those of a block by row
// and column. A thread block takes some block rows, or a part of a long one, and finds their tiles by bits: those of a
// level say which of its numbers there are, and how many are before one is the word of the next level for its five bits.
// So nothing is sorted, and only the first entry that a row has in a tile does more than look at its neighbour.
// spmvbench/formats/found_tiles.py launches such kernels.
#pragma once
#include "largest.cuh"
#include "offsets.cuh"
#include "search.cuh"
#include "spmv.cuh"

constexpr int FIND_BLOCK = 256;
constexpr int FIND_EACH = 6;      // entries of a thread
constexpr int FIND_TOGETHER = 4;  // blocks of a multiprocessor, at least: what they wait for is hidden by others
constexpr int FIND_ENTRIES = FIND_BLOCK * FIND_EACH;
constexpr int FIND_WARPS = FIND_BLOCK / WARP;
constexpr int FIND_ROWS = 1024;   // at once
constexpr int FIND_SHARE = 1344;  // of entries and rows together, for a thread block: mostly all fit at once
constexpr int SIDE_BITS = 5;      // of a row or a column in a block: at most 32
constexpr int LEVEL_BITS = 5;     // of a word
constexpr int TOP_BITS = 15;      // of the first level, at most
constexpr unsigned short NO_ROW = 0xffff;
static_assert(1 << LEVEL_BITS == WARP && 1 << TOP_BITS <= WARP * FIND_ENTRIES, "a level has words enough");
static_assert(FIND_ROWS << SIDE_BITS < NO_ROW, "block row and row in 16 bits");

enum Wanted { TILE_COUNTS, TILE_NUMBERS };  // each with those before

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

// Where shares begin: block rows, and blocks of columns in them. `cut_shares` of block_convert.cu writes them.
struct ShareCuts {
  const int* __restrict__ block_row;
  const int* __restrict__ column;
};

// The entries that a thread block has in shared memory, by number: row after row. Tiles are the blocks with entries.
struct FoundTiles {
  unsigned words[2][FIND_ENTRIES];            // of two levels
  unsigned short before[FIND_ENTRIES + 1];    // bits before each word, and all
  unsigned short in_block[FIND_ENTRIES];      // of a number: row << SIDE_BITS | column
  unsigned short tile_of[FIND_ENTRIES];       // of a number: its tile
  unsigned short block_row_of[FIND_ENTRIES];  // of a tile, from the first
  int block_of[FIND_ENTRIES];                 // of a tile: block of columns
  int starts[FIND_ROWS + 1];                  // the first number of each row, and the end
  long long shift[WARP];                      // number to entry, of each row of a part
  long long base, first;                      // first: block row
  int block_row[2];                           // of the share: where it begins and ends
  int column[2];                              // column: block, where it begins and ends in its block row
  int of_warp[FIND_WARPS], low[FIND_WARPS], high[FIND_WARPS];
  int entries, block_rows, tiles;
  bool part, head, more;  // part: not all of the only block row; head: its first; more: there is more in the share

  __device__ __forceinline__ int row_in(int number) const { return in_block[number] >> SIDE_BITS; }
  __device__ __forceinline__ int column_in(int number) const { return in_block[number] & ((1 << SIDE_BITS) - 1); }
  __device__ __forceinline__ long long entry(int number) const {
    return (part ? shift[row_in(number)] : base) + number;
  }
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
    const long long all = count(), sought = share * FIND_SHARE;
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
      if (entries <= FIND_ENTRIES) {
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

// before[i]: the sum of number(0 .. i - 1), i < n, and all, which it returns. All threads arrive and leave together.
template <typename Number>
__device__ __forceinline__ int sums_before(int n, unsigned short* before, int* of_warp, Number number) {
  const int each = (n + FIND_BLOCK - 1) / FIND_BLOCK, first = static_cast<int>(threadIdx.x) * each;
  const int end = first + each < n ? first + each : n;
  int sum = 0;
  for (int i = first; i < end; ++i) sum += number(i);
  const int through = group_scan<WARP>(sum);
  if (lane_id() == WARP - 1) of_warp[threadIdx.x / WARP] = through;
  __syncthreads();
  int here = through - sum, all = 0;
#pragma unroll
  for (int w = 0; w < FIND_WARPS; ++w) {
    if (w < threadIdx.x / WARP) here += of_warp[w];
    all += of_warp[w];
  }
  for (int i = first; i < end; ++i) {
    const int of_this = number(i);
    before[i] = static_cast<unsigned short>(here);
    here += of_this;
  }
  if (threadIdx.x == 0) before[n] = static_cast<unsigned short>(all);
  __syncthreads();
  return all;
}

// Finds the tiles of what is described in shared memory; all threads arrive and leave together.
template <Wanted WANTED, typename Key, typename Shared, typename I>
__device__ __forceinline__ void find_tiles(Shared& m, const BlockRows<I>& a) {
  if (m.entries == 0) {
    if (threadIdx.x == 0) m.tiles = 0;
    __syncthreads();
    return;
  }
  const int warp = threadIdx.x / WARP, lane = lane_id();
  const unsigned up_to = FULL_MASK >> (WARP - 1 - lane);
  const int first_number = warp * (FIND_EACH * WARP) + lane;
  int block[FIND_EACH], block_row[FIND_EACH];  // block: the column first
  unsigned heads = 0;                          // bit u: begins a run, what a row has in a tile
#pragma unroll
  for (int u = 0; u < FIND_EACH; ++u) {  // columns first, as far as nothing has to be known of rows
    const int number = first_number + u * WARP;
    block[u] = number < m.entries && !m.part ? a.col_idx[m.base + number] : 0;
  }
  const int inside = warp * (FIND_EACH * WARP);
  int block_before = -1;  // of the entry before those of the warp
  if (lane == 0 && inside > 0 && inside < m.entries && !m.part) block_before = a.col_idx[m.base + inside - 1];

  // Rows note where they begin.
  const int rows = m.block_rows * a.r;
  for (int i = threadIdx.x; i < rows; i += FIND_BLOCK) {
    const int begin = m.starts[i];
    if (begin >= m.starts[i + 1]) continue;
    const int in = a.by_r(i);
    m.in_block[begin] = static_cast<unsigned short>(in << SIDE_BITS | (i - in * a.r));
  }
  for (int i = threadIdx.x; i < 1 << (TOP_BITS - LEVEL_BITS); i += FIND_BLOCK) m.words[0][i] = 0;
  __syncthreads();
  int code_before = 0;  // block row and row of the entry before
  const int first_mark = first_number < m.entries ? m.in_block[first_number] : NO_ROW;
  if (inside < m.entries && __shfl_sync(FULL_MASK, first_mark, 0) == NO_ROW) {
    // The last row that begins at or before: those without entries come first.
    const int low = first_behind_of_warp(m.starts, 0, rows + 1, inside) - 1;
    const int in = a.by_r(low);
    code_before = in << SIDE_BITS | (low - in * a.r);
    if (m.part && lane == 0) block_before = a.col_idx[m.shift[low] + inside - 1];
  }
  block_before = a.by_c(block_before < 0 ? 0 : block_before);
  int lowest = 0x7fffffff, highest = 0;
#pragma unroll
  for (int u = 0; u < FIND_EACH; ++u) {
    const int number = first_number + u * WARP;
    const bool any = number < m.entries;
    const int mark = u == 0 ? first_mark : any ? m.in_block[number] : NO_ROW;
    const unsigned marks = __ballot_sync(FULL_MASK, mark != NO_ROW), mine = marks & up_to;
    const int code_here = __shfl_sync(FULL_MASK, mark, mine ? WARP - 1 - __clz(static_cast<int>(mine)) : 0);
    const int code = mine ? code_here : code_before;
    code_before = __shfl_sync(FULL_MASK, code, WARP - 1);
    block_row[u] = code >> SIDE_BITS;
    const int row = code & ((1 << SIDE_BITS) - 1);
    const int column = m.part && any ? a.col_idx[m.shift[row] + number] : block[u];
    block[u] = a.by_c(column);
    const int left = __shfl_up_sync(FULL_MASK, block[u], 1);
    if (any && (mark != NO_ROW || block[u] != (lane ? left : block_before))) heads |= 1u << u;
    block_before = __shfl_sync(FULL_MASK, block[u], WARP - 1);
    if (!any) continue;
    if (WANTED > TILE_COUNTS) {
      m.in_block[number] = static_cast<unsigned short>(row << SIDE_BITS | (column - block[u] * a.c));
    }
    lowest = block[u] < lowest ? block[u] : lowest;
    highest = block[u] > highest ? block[u] : highest;
  }
  lowest = warp_min(lowest);
  highest = warp_max(highest);
  if (lane == 0) {
    m.low[warp] = lowest;
    m.high[warp] = highest;
  }
  __syncthreads();
#pragma unroll
  for (int w = 0; w < FIND_WARPS; ++w) {
    lowest = m.low[w] < lowest ? m.low[w] : lowest;
    highest = m.high[w] > highest ? m.high[w] : highest;
  }

  // A bit of the first level for each prefix of block row and block; five bits of them more for each level below.
  const int column_bits = WARP - __clz(highest - lowest), bits = column_bits + (WARP - __clz(m.block_rows - 1));
  const int below = bits > TOP_BITS ? (bits - TOP_BITS + LEVEL_BITS - 1) / LEVEL_BITS : 0;
  Key key[FIND_EACH];
  int at[FIND_EACH];  // the number of the entry's bit among those of the level
#pragma unroll
  for (int u = 0; u < FIND_EACH; ++u) {
    key[u] = static_cast<Key>(block_row[u]) << column_bits | static_cast<Key>(block[u] - lowest);
  }
  const int top = bits - below * LEVEL_BITS;
  int words = top > LEVEL_BITS ? 1 << (top - LEVEL_BITS) : 1;
  for (int level = 0; level <= below; ++level) {
    unsigned* const of_level = m.words[level & 1];
    const auto place = [&](int u, int& word, unsigned& bit) {
      const Key prefix = key[u] >> ((below - level) * LEVEL_BITS);
      word = level ? at[u] : static_cast<int>(prefix >> LEVEL_BITS);
      bit = 1u << (static_cast<unsigned>(prefix) & (WARP - 1));
    };
    unsigned first = 0;  // bit u: the first entry of its tile to be marked
#pragma unroll
    for (int u = 0; u < FIND_EACH; ++u) {
      int word;
      unsigned bit;
      if (!(heads >> u & 1)) continue;
      place(u, word, bit);
      if (!(atomicOr(of_level + word, bit) & bit)) first |= 1u << u;
    }
    __syncthreads();
    if (level < below) {
      for (int i = threadIdx.x; i < m.entries; i += FIND_BLOCK) m.words[(level + 1) & 1][i] = 0;
    }
    const int all = sums_before(words, m.before, m.of_warp, [&](int i) { return __popc(of_level[i]); });
#pragma unroll
    for (int u = 0; u < FIND_EACH; ++u) {
      int word;
      unsigned bit;
      if (first_number + u * WARP >= m.entries || (lane && !(heads >> u & 1))) continue;
      place(u, word, bit);
      at[u] = m.before[word] + __popc(of_level[word] & (bit - 1));
    }
    words = all;
    if (level == below) {
#pragma unroll
      for (int u = 0; u < FIND_EACH; ++u) {
        const int number = first_number + u * WARP;
        if (first >> u & 1) {
          m.block_of[at[u]] = lowest + static_cast<int>(key[u] & ((Key(1) << column_bits) - 1));
          m.block_row_of[at[u]] = static_cast<unsigned short>(key[u] >> column_bits);
        }
        if (WANTED == TILE_COUNTS) continue;
        const unsigned looked = (__ballot_sync(FULL_MASK, heads >> u & 1) | 1) & up_to;
        const int tile = __shfl_sync(FULL_MASK, at[u], WARP - 1 - __clz(static_cast<int>(looked)));
        if (number < m.entries) m.tile_of[number] = static_cast<unsigned short>(tile);
      }
      if (threadIdx.x == 0) m.tiles = all;
    }
  }
  __syncthreads();
}

// visit() with all entries of a share in shared memory, some after the others, in order. All threads arrive and leave
// together, those of `visit` in their turn.
template <Wanted WANTED, typename Key, typename Shared, typename I, typename Visit>
__device__ __forceinline__ void visit_found(Shared& m, long long share, const BlockRows<I>& a, const ShareCuts& cuts,
                                            Visit visit) {
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
    const long long fitting = last - block_row, most = FIND_ROWS / a.r;
    int here = static_cast<int>(fitting < most ? fitting : most);
    const long long base = a.first(block_row);
    for (int i = threadIdx.x; i < FIND_ENTRIES; i += FIND_BLOCK) m.in_block[i] = NO_ROW;
    for (int i = threadIdx.x; i <= here * a.r; i += FIND_BLOCK) {
      const long long row = block_row * a.r + i, inside = a.row_ptr[row < a.rows ? row : a.rows] - base;
      m.starts[i] = static_cast<int>(inside <= FIND_ENTRIES ? inside : FIND_ENTRIES + 1);
    }
    __syncthreads();
    const bool part = here == 0 || m.starts[a.r] > FIND_ENTRIES;
    if (part) {
      here = 1;
    } else if (m.starts[here * a.r] > FIND_ENTRIES) {  // as many as fit
      int found = 0;
      for (int from = 0, full = FIND_BLOCK; full == FIND_BLOCK; from += FIND_BLOCK) {
        const int number = from + static_cast<int>(threadIdx.x) + 1;
        full = __syncthreads_count(number <= here && m.starts[number * a.r] <= FIND_ENTRIES);
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
      if (all > FIND_ENTRIES) {
        const int least = a.c + 1;  // ends beyond the first block
        const long long share_of_row = least + (FIND_ENTRIES - static_cast<long long>(a.r) * least) * left / all;
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
    find_tiles<WANTED, Key>(m, a);
    visit();
    begun = part && m.more;
    if (!begun) {
      block_row += here;
      column = 0;
    }
    __syncthreads();
  }
}

// Shares in the order in which blocks begin: writes the first tile of each block row and of each share, each with the
// end. What comes before is found by look-back; state: see offsets.cuh.
template <typename Key, typename I>
__device__ __forceinline__ void count_found(FoundTiles& m, const BlockRows<I>& a, const ShareCuts& cuts,
                                            I* __restrict__ ptr, I* __restrict__ of_share,
                                            unsigned long long* __restrict__ state) {
  __shared__ long long share_and_before[2];
  if (threadIdx.x == 0) share_and_before[0] = static_cast<long long>(atomicAdd(state + OFFSETS_NOTES - 1, 1ull));
  __syncthreads();
  const long long share = share_and_before[0];
  long long tiles = 0;  // of the share
  visit_found<TILE_COUNTS, Key>(m, share, a, cuts, [&]() {
    for (int tile = threadIdx.x; m.head && tile <= m.tiles; tile += FIND_BLOCK) {
      const int until = tile < m.tiles ? m.block_row_of[tile] : m.block_rows - 1;
      for (int j = tile ? m.block_row_of[tile - 1] + 1 : 0; j <= until; ++j) {
        ptr[m.first + j] = static_cast<I>(tiles + tile);
      }
    }
    tiles += m.tiles;
  });
  if (threadIdx.x < WARP) {
    const long long found = look_back(state + OFFSETS_NOTES, share, tiles);
    if (threadIdx.x == 0) share_and_before[1] = found;
  }
  __syncthreads();
  const long long before = share_and_before[1];
  const long long end = m.block_row[1] + (m.column[1] > 0);  // of the block rows that begin here
  for (long long t = m.block_row[0] + (m.column[0] > 0) + threadIdx.x; t < end; t += FIND_BLOCK) {
    ptr[t] += static_cast<I>(before);
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  of_share[share] = static_cast<I>(before);
  if (share < gridDim.x - 1) return;
  ptr[a.count()] = of_share[share + 1] = static_cast<I>(before + tiles);
  state[OFFSETS_NOTES - 2] = static_cast<unsigned long long>(before + tiles);
}
