// CSR to tiles on the device: what spmvbench/formats/tile/convert.py and tile_layout.py compute by arrays on the host.
//
// Columns ascend in every row: half a warp takes a tile row, or a part of a long one, a thread per row, and goes from
// tile to tile by the least of the columns that are next. No tiles are sorted.
#include "search.cuh"
#include "spmv.cuh"
#include "tile.cuh"

constexpr int FORMATS = DNS_COL + 1;
constexpr int SEGMENT = 1024;        // entries of a tile row for half a warp, about
constexpr int NO_TILE = 0x7fffffff;  // after the last tile column

// A bit per entry, and how many are set before each word of 32: the rank of any entry among those that are marked.
template <typename I>
struct Marks {
  const unsigned* __restrict__ bits;
  const I* __restrict__ before;

  __device__ __forceinline__ I operator()(I entry) const {
    return before[entry / WARP] + __popc(bits[entry / WARP] & ((1u << (entry % WARP)) - 1));
  }
};

// The entries of a row in a tile.
template <typename I>
struct Run {
  I begin;
  int length;
};

// Over the lanes of a half warp, in each of them.
template <typename T>
__device__ __forceinline__ T half_sum(T value) {
#pragma unroll
  for (int offset = TILE / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(FULL_MASK, value, offset);
  return value;
}

__device__ __forceinline__ int half_max(int value) {
#pragma unroll
  for (int offset = TILE / 2; offset > 0; offset /= 2) {
    const int other = __shfl_xor_sync(FULL_MASK, value, offset);
    value = other > value ? other : value;
  }
  return value;
}

__device__ __forceinline__ int half_min(int value) { return ~half_max(~value); }

// How many lanes of the half warp say so.
__device__ __forceinline__ int half_count(bool says) {
  return __popc(__ballot_sync(FULL_MASK, says) >> (lane_id() & TILE) & 0xffffu);
}

// The entries of a row that are in no tile yet.
template <typename I>
struct RowRuns {
  const int* __restrict__ col_idx;
  int tile_row = -1;
  I next = 0;
  I end = 0;
  int column = 0;  // of the next entry

  __device__ __forceinline__ void move(I to) {
    next = to;
    if (next < end) column = col_idx[next];
  }

  // Goes to the first entry of a row, or to its first in a tile column from `in_col` on.
  __device__ __forceinline__ void begin(int rows, const I* __restrict__ row_ptr, int in_row, int in_col) {
    tile_row = in_row;
    const long long row = static_cast<long long>(in_row) * TILE + lane_id() % TILE;
    end = row < rows ? row_ptr[row + 1] : I(0);
    const I first = row < rows ? row_ptr[row] : I(0);
    move(in_col && row < rows ? first_behind(col_idx, first, end, in_col * TILE - 1) : first);
  }

  // Those in a tile column, which has none before the next.
  __device__ __forceinline__ Run<I> take(int in_col) {
    Run<I> found = {next, 0};
    const int last = in_col * TILE + (TILE - 1);
    if (next < end && column <= last) {
      move(first_behind(col_idx, next, end - next < TILE ? end : next + TILE, last));
      found.length = static_cast<int>(next - found.begin);
    }
    return found;
  }

  // Those in a tile that is not before the last one asked for.
  __device__ __forceinline__ Run<I> of(int rows, const I* __restrict__ row_ptr, int in_row, int in_col) {
    const int first = in_col * TILE;
    if (in_row != tile_row) {
      begin(rows, row_ptr, in_row, in_col);
    } else if (next < end && column < first) {
      move(first_behind(col_idx, next, end, first - 1));  // tiles between were taken apart
    }
    return take(in_col);
  }
};

// The first of the segments of a tile row: tile rows have one each, and one more for each SEGMENT entries.
template <typename I>
__device__ __forceinline__ long long first_segment(int rows, const I* __restrict__ row_ptr, long long tile_row) {
  return tile_row + static_cast<long long>(row_ptr[tile_row * TILE < rows ? tile_row * TILE : rows] / SEGMENT);
}

// visit(busy, tile row, tile column, run) for the tiles of the half warp's segment, in order; not busy: the other half
// has more. across: tile columns, of which the segments of a tile row have equal shares.
template <typename I, typename Visit>
__device__ __forceinline__ void visit_tiles(int rows, int across, int tile_rows, const I* __restrict__ row_ptr,
                                            const int* __restrict__ col_idx, Visit visit) {
  const long long segment = global_thread() / TILE;
  RowRuns<I> runs{col_idx};
  int tile_row = 0, until = 0;
  if (segment < first_segment(rows, row_ptr, tile_rows)) {
    int high = tile_rows;
    while (tile_row < high) {
      const int middle = tile_row + (high - tile_row) / 2;
      if (first_segment(rows, row_ptr, middle + 1) <= segment) {
        tile_row = middle + 1;
      } else {
        high = middle;
      }
    }
    const long long first = first_segment(rows, row_ptr, tile_row);
    const long long parts = first_segment(rows, row_ptr, tile_row + 1) - first, part = segment - first;
    until = static_cast<int>(across * (part + 1) / parts);
    runs.begin(rows, row_ptr, tile_row, static_cast<int>(across * part / parts));
  }
  while (true) {
    const int mine = runs.next < runs.end ? runs.column / TILE : NO_TILE;
    const int tile_col = half_min(mine);
    const bool busy = tile_col < until;
    if (!__any_sync(FULL_MASK, busy)) break;
    Run<I> run = {runs.next, 0};
    if (busy && mine == tile_col) run = runs.take(tile_col);
    visit(busy, tile_row, tile_col, run);
  }
}

// Tiles of each segment.
template <typename I>
__global__ void count_tiles(int rows, int across, int tile_rows, const I* __restrict__ row_ptr,
                            const int* __restrict__ col_idx, int* __restrict__ counts) {
  int tiles = 0;
  visit_tiles(rows, across, tile_rows, row_ptr, col_idx, [&](bool busy, int, int, const Run<I>&) { tiles += busy; });
  const long long segment = global_thread() / TILE;
  if (lane_id() % TILE == 0 && segment < first_segment(rows, row_ptr, tile_rows)) counts[segment] = tiles;
}

// See Rules in spmvbench/formats/tile/convert.py. te, th: squares with the sign of the threshold. hyb_rows: rows that
// have to reach a column of the ELL part of a HYB tile.
struct Rules {
  int coo;
  int dns;
  double te;
  double th;
  int hyb_rows;
  int hyb_min_width;
};

struct Choice {
  int fmt;
  int width;
};

// The format of a tile of z entries. same_columns(): whether all rows have the same columns, if they are equally long.
template <typename SameColumns>
__device__ __forceinline__ Choice choose(const Rules& rules, int z, int length, SameColumns same_columns) {
  const bool undecided = z >= rules.coo && z < rules.dns;
  if (!__any_sync(FULL_MASK, undecided)) return {z < rules.coo ? COO : DNS, 0};
  const bool even = half_count(length != __shfl_sync(FULL_MASK, length, lane_id() & TILE)) == 0;
  const bool dns_row = half_count(length == TILE) * TILE == z;
  const bool dns_col = same_columns(undecided && even && !dns_row);
  const int longest = half_max(length);
  const int squares = half_sum(length * length);
  const double spread = TILE * squares - z * z;
  const double squared = z * z;
  const bool ell = spread <= rules.te * squared;
  const bool hyb = !ell && spread >= rules.th * squared;
  Choice choice = {z < rules.coo ? COO : DNS, 0};
  if (undecided) {
    choice = dns_row   ? Choice{DNS_ROW, z / TILE}
             : dns_col ? Choice{DNS_COL, z / TILE}
             : ell     ? Choice{ELL, longest}
             : hyb     ? Choice{HYB, 0}
                       : Choice{CSR, 0};
  }
  if (__any_sync(FULL_MASK, choice.fmt == HYB)) {
    int width = 0;
#pragma unroll 1
    for (int column = 1; column <= TILE; ++column) width += half_count(length >= column) >= rules.hyb_rows;
    if (choice.fmt == HYB) choice.width = width > rules.hyb_min_width ? width : rules.hyb_min_width;
  }
  return choice;
}

// What there is to know of each tile: its row and column in tiles, its entries, its format | width << 3, and its
// entries in the tail of HYB. ALL_CSR: no rules. apart: zero before; marks entries of COO tiles and of tails if
// DEFERRED.
// first: tiles before each segment.
template <typename I, typename T, bool ALL_CSR, bool DEFERRED>
__global__ void describe_tiles(int rows, int across, int tile_rows, const I* __restrict__ row_ptr,
                               const int* __restrict__ col_idx, const T* __restrict__ first, const Rules rules,
                               int* __restrict__ tile_row, int* __restrict__ tile_col,
                               unsigned short* __restrict__ entries, Byte* __restrict__ fmt, Byte* __restrict__ tail,
                               unsigned* __restrict__ apart) {
  const long long segment = global_thread() / TILE;
  long long tile = segment < first_segment(rows, row_ptr, tile_rows) ? first[segment] : 0;
  visit_tiles(rows, across, tile_rows, row_ptr, col_idx,
              [&](bool busy, int tiles_row, int tiles_col, const Run<I>& run) {
                const int z = half_sum(run.length);
                Choice choice = {CSR, 0};
                if (!ALL_CSR) {
                  choice = choose(rules, z, run.length, [&](bool asked) {
                    unsigned columns = 0;
                    for (int j = 0; asked && j < run.length; ++j) columns |= 1u << (col_idx[run.begin + j] % TILE);
                    return half_count(columns != __shfl_sync(FULL_MASK, columns, lane_id() & TILE)) == 0 && asked;
                  });
                }
                const int kept = choice.fmt == COO                                ? 0
                                 : choice.fmt == HYB && choice.width < run.length ? choice.width
                                                                                  : run.length;
                const bool cut = __any_sync(FULL_MASK, choice.fmt == HYB);
                const int kept_of_tile = cut ? half_sum(kept) : 0;
                if (busy && lane_id() % TILE == 0) {
                  tile_row[tile] = tiles_row;
                  tile_col[tile] = tiles_col;
                  entries[tile] = static_cast<unsigned short>(z);
                  fmt[tile] = static_cast<Byte>(choice.fmt | choice.width << 3);
                  tail[tile] = static_cast<Byte>(choice.fmt == HYB ? z - kept_of_tile : 0);
                }
                if (DEFERRED && busy && kept < run.length) {
                  const I from = run.begin + kept;
                  const unsigned long long marks = ((1ull << (run.length - kept)) - 1) << (from % WARP);
                  atomicOr(apart + from / WARP, static_cast<unsigned>(marks));
                  if (marks >> WARP) atomicOr(apart + from / WARP + 1, static_cast<unsigned>(marks >> WARP));
                }
                tile += busy;
              });
}

// ---- Where tiles are stored. A warp takes a group of tiles. What they come to is a sum that one of its lanes holds.

constexpr int GROUP = 256;
constexpr int SUMS = 30;
enum Sum {  // the first four for each format: value slots and units of off2 as stored, entries and tiles of the matrix
  VALUES = 0,
  INDEX = FORMATS,
  ENTRIES = 2 * FORMATS,
  TILES = 3 * FORMATS,
  STORED_ENTRIES = 4 * FORMATS,
  STORED_TILES
};
static_assert(STORED_TILES + 1 == SUMS, "a place for every sum");

// A tile as it is stored. DEFERRED: COO tiles and tails are not.
struct Room {
  int fmt;
  int width;
  int tail;
  int entries;
  int values;  // slots
  int index;   // units of the array that off2 counts in
  bool stored;
};

template <bool DEFERRED>
__device__ __forceinline__ Room room_of(int kind, int tail, int entries) {
  Room room = {kind & 7, kind >> 3, tail, entries, 0, 0, true};
  const bool padded = room.fmt == ELL || room.fmt == HYB;
  if (DEFERRED) {
    room.stored = room.fmt != COO && (room.fmt != HYB || room.width > 0);
    room.entries = room.stored ? entries - tail : 0;
    room.tail = 0;
  }
  if (room.stored) {
    room.values = padded ? TILE * room.width + room.tail : room.fmt == DNS ? TILE * TILE : room.entries;
    room.index = room.fmt == CSR       ? TILE
                 : room.fmt == HYB     ? TILE / 2 * room.width + room.tail
                 : room.fmt >= DNS_ROW ? room.width
                                       : 0;
  }
  return room;
}

// visit(tile, room, start in the values of its format, start in what off2 counts, stored tiles before it, their
// entries) for every tile of a group. sum: lane s holds sum number s of what comes before, then of the group too.
template <bool DEFERRED, typename S, typename Visit>
__device__ __forceinline__ void visit_group(long long group, int tiles, const unsigned short* __restrict__ entries,
                                            const Byte* __restrict__ fmt, const Byte* __restrict__ tail, S& sum,
                                            Visit visit) {
  const int lane = lane_id();
  for (long long tile = group * GROUP + lane; tile - lane < tiles && tile < (group + 1) * GROUP; tile += WARP) {
    const bool inside = tile < tiles;
    const int all_entries = inside ? entries[tile] : 0;
    Room room = {-1, 0, 0, 0, 0, 0, false};
    if (inside) room = room_of<DEFERRED>(fmt[tile], tail[tile], all_entries);
    S values_before = 0;
    S index_before = 0;
    for (int f = 0; f < FORMATS; ++f) {
      const bool member = room.fmt == f;
      const unsigned members = __ballot_sync(FULL_MASK, member);
      if (!members) continue;
      // Two sums in one: 32 tiles have at most 32 x 256 of anything.
      const int room_here = group_scan<WARP>(member ? room.values << 16 | room.index : 0);
      const S values = __shfl_sync(FULL_MASK, sum, VALUES + f);
      const S index = __shfl_sync(FULL_MASK, sum, INDEX + f);
      if (member) {
        values_before = values + (room_here >> 16) - room.values;
        index_before = index + (room_here & 0xffff) - room.index;
      }
      const int room_in_all = __shfl_sync(FULL_MASK, room_here, WARP - 1);
      const int entries_in_all = __shfl_sync(FULL_MASK, group_sum<WARP>(member ? all_entries : 0), 0);
      if (lane == VALUES + f) sum += room_in_all >> 16;
      if (lane == INDEX + f) sum += room_in_all & 0xffff;
      if (lane == ENTRIES + f) sum += entries_in_all;
      if (lane == TILES + f) sum += __popc(members);
    }
    const int stored = group_scan<WARP>(room.stored ? room.entries << 16 | 1 : 0);
    const S tiles_before = __shfl_sync(FULL_MASK, sum, STORED_TILES) + (stored & 0xffff) - room.stored;
    const S entries_before = __shfl_sync(FULL_MASK, sum, STORED_ENTRIES) + (stored >> 16) - room.entries;
    if (inside) visit(tile, room, values_before, index_before, tiles_before, entries_before);
    const int stored_in_all = __shfl_sync(FULL_MASK, stored, WARP - 1);
    if (lane == STORED_TILES) sum += stored_in_all & 0xffff;
    if (lane == STORED_ENTRIES) sum += stored_in_all >> 16;
  }
}

// sums, (1 + SUMS x groups,): of each group, one kind of sum after the other; 0 first.
template <bool DEFERRED>
__global__ void count_room(int tiles, int groups, const unsigned short* __restrict__ entries,
                           const Byte* __restrict__ fmt, const Byte* __restrict__ tail, int* __restrict__ sums) {
  const long long group = global_thread() / WARP;
  if (group >= groups) return;  // the whole warp
  int sum = 0;
  visit_group<DEFERRED>(group, tiles, entries, fmt, tail, sum, [](long long, const Room&, int, int, int, int) {});
  if (lane_id() < SUMS) sums[1 + static_cast<long long>(lane_id()) * groups + group] = sum;
  if (global_thread() == 0) sums[0] = 0;
}

// The first level and the offsets of the tiles that are stored. sums: their running sum. tile_row, tile_col: of all
// tiles; stored_row, stored_col: of those stored. stored_before, (tiles + 1,) if DEFERRED: how many before each.
template <typename O, bool DEFERRED>
__global__ void place_tiles(int tiles, int groups, const unsigned short* __restrict__ entries,
                            const Byte* __restrict__ fmt, const Byte* __restrict__ tail,
                            const long long* __restrict__ sums, const int* __restrict__ tile_row,
                            const int* __restrict__ tile_col, int* __restrict__ stored_row,
                            int* __restrict__ stored_col, Byte* __restrict__ stored_fmt, Byte* __restrict__ stored_tail,
                            O* __restrict__ tile_nnz, O* __restrict__ off1, O* __restrict__ off2,
                            int* __restrict__ stored_before) {
  const long long group = global_thread() / WARP;
  if (group >= groups) return;  // the whole warp
  long long sum = 0;
  if (lane_id() < SUMS) {
    const long long* of_kind = sums + static_cast<long long>(lane_id()) * groups;
    sum = of_kind[group] - of_kind[0];
  }
  visit_group<DEFERRED>(
      group, tiles, entries, fmt, tail, sum,
      [&](long long tile, const Room& room, long long values, long long index, long long at, long long entries_before) {
        if (DEFERRED) stored_before[tile] = static_cast<int>(at);
        if (room.stored) {
          stored_row[at] = tile_row[tile];
          stored_col[at] = tile_col[tile];
          stored_fmt[at] = static_cast<Byte>(room.fmt | room.width << 3);
          stored_tail[at] = static_cast<Byte>(room.tail);
          tile_nnz[at] = static_cast<O>(entries_before);
          off1[at] = static_cast<O>(values);
          off2[at] = static_cast<O>(index);
        }
        if (tile == tiles - 1) {
          at += room.stored;
          if (DEFERRED) stored_before[tiles] = static_cast<int>(at);
          tile_nnz[at] = static_cast<O>(entries_before + room.entries);
        }
      });
}

// ---- Packing, half a warp per tile, a thread per row. Columns that are stored in half bytes are written in whole ones;
// pack_halves brings them together.

// The arrays of the formats, to be written.
template <typename V>
struct Packed {
  V* csr_val;
  Byte* csr_halves;
  Byte* csr_row_ptr;
  V* coo_val;
  Byte* coo_idx;
  V* ell_val;
  Byte* ell_halves;
  V* hyb_val;
  Byte* hyb_halves;
  V* dns_val;
  V* dns_row_val;
  Byte* row_id;
  V* dns_col_val;
  Byte* col_id;
};

constexpr int PACKED_TILES = 8;  // neighbouring tiles of half a warp: in a tile row, a run begins where the last ended

template <typename V, typename I>
__device__ __forceinline__ void pack_tile(int kind, long long first, long long index, const Run<I>& run, bool inside,
                                          bool deferred, const int* __restrict__ col_idx, const V* __restrict__ values,
                                          const Packed<V>& to) {
  const int row = lane_id() % TILE;
  const int width = kind >> 3;
  const int in_head = (kind & 7) == HYB && run.length > width ? width : run.length;
  const int in_tail = run.length - in_head;
  const int through = group_scan<TILE>(in_head << 16 | in_tail);
  if (!inside) return;
  const int heads_before = (through >> 16) - in_head;
  const int tails_before = (through & 0xffff) - in_tail;

  const V* value = values + run.begin;
  const int* column = col_idx + run.begin;
  // Sixteen slots per column, padded with zeros.
  const auto pack_columns = [&](V* slots, Byte* halves) {
    for (int j = 0; j < width; ++j) {
      slots[j * TILE + row] = j < in_head ? value[j] : V(0);
      if (halves) halves[j * TILE + row] = static_cast<Byte>(j < in_head ? column[j] % TILE : 0);
    }
  };
  switch (kind & 7) {
    case CSR:
      to.csr_row_ptr[index + row] = static_cast<Byte>(heads_before);
      for (int j = 0; j < run.length; ++j) {
        to.csr_val[first + heads_before + j] = value[j];
        to.csr_halves[first + heads_before + j] = static_cast<Byte>(column[j] % TILE);
      }
      break;
    case COO:
      for (int j = 0; j < run.length; ++j) {
        to.coo_val[first + heads_before + j] = value[j];
        to.coo_idx[first + heads_before + j] = static_cast<Byte>(row << 4 | column[j] % TILE);
      }
      break;
    case ELL:
      pack_columns(to.ell_val + first, to.ell_halves + first);
      break;
    case HYB:
      pack_columns(to.hyb_val + first, to.hyb_halves + 2 * index);
      for (int j = 0; j < in_tail && !deferred; ++j) {
        const int slot = TILE * width + tails_before + j;
        Byte* half = to.hyb_halves + 2 * index + TILE * width + 2 * (tails_before + j);
        to.hyb_val[first + slot] = value[in_head + j];
        half[0] = static_cast<Byte>(row);
        half[1] = static_cast<Byte>(column[in_head + j] % TILE);
      }
      break;
    case DNS:
      for (int col = 0, j = 0; col < TILE; ++col) {
        const bool stored = j < run.length && column[j] % TILE == col;
        to.dns_val[first + col * TILE + row] = stored ? value[j] : V(0);
        j += stored;
      }
      break;
    case DNS_ROW:
      for (int j = 0; j < run.length; ++j) to.dns_row_val[first + heads_before + j] = value[j];
      if (run.length) to.row_id[index + heads_before / TILE] = static_cast<Byte>(row);
      break;
    case DNS_COL:
      pack_columns(to.dns_col_val + first, static_cast<Byte*>(nullptr));
      for (int j = row; j < width; j += TILE) to.col_id[index + j] = static_cast<Byte>(column[j] % TILE);
      break;
  }
}

template <typename V, typename I, typename O, bool DEFERRED>
__global__ void pack_tiles(int rows, int tiles, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                           const V* __restrict__ values, const int* __restrict__ tile_row,
                           const int* __restrict__ tile_col, const Byte* __restrict__ fmt, const O* __restrict__ off1,
                           const O* __restrict__ off2, const Packed<V> to) {
  RowRuns<I> runs{col_idx};
  long long tile = global_thread() / TILE * PACKED_TILES;
  for (int i = 0; i < PACKED_TILES; ++i, ++tile) {
    const bool inside = tile < tiles;
    if (!__any_sync(FULL_MASK, inside)) break;
    Run<I> run = {0, 0};
    if (inside) run = runs.of(rows, row_ptr, tile_row[tile], tile_col[tile]);
    pack_tile(inside ? fmt[tile] : CSR, inside ? off1[tile] : 0, inside ? off2[tile] : 0, run, inside, DEFERRED,
              col_idx, values, to);
    __syncwarp();
  }
}

// Two half bytes per byte, the first in the high half. n: of them.
__global__ void pack_halves(long long n, const Byte* __restrict__ halves, Byte* __restrict__ packed) {
  const long long i = global_thread();
  if (2 * i >= n) return;
  const int second = 2 * i + 1 < n ? halves[2 * i + 1] : 0;
  packed[i] = static_cast<Byte>(halves[2 * i] << 4 | second);
}

// ---- Entries computed separately: those that are marked.

// counts: after each word's number the bits that are set in it; 0 first.
template <typename I>
__global__ void count_marks(long long words, const unsigned* __restrict__ bits, I* __restrict__ counts) {
  const long long word = global_thread();
  if (word >= words) return;
  counts[word + 1] = __popc(bits[word]);
  if (word == 0) counts[0] = 0;
}

// A thread per row pointer and a thread per entry.
template <typename V, typename I, typename R>
__global__ void take_marked(int rows, I nnz, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                            const V* __restrict__ values, const unsigned* __restrict__ bits,
                            const I* __restrict__ before, R* __restrict__ taken_row_ptr, int* __restrict__ taken_col,
                            V* __restrict__ taken_values) {
  const Marks<I> taken_before{bits, before};
  const long long i = global_thread();
  if (i <= rows) taken_row_ptr[i] = static_cast<R>(taken_before(row_ptr[i]));
  if (i >= nnz || !(bits[i / WARP] >> (i % WARP) & 1)) return;
  const I at = taken_before(static_cast<I>(i));
  taken_col[at] = col_idx[i];
  taken_values[at] = values[i];
}

// ---- Chunks: see chunks_of in spmvbench/formats/tile/tile.py.

// tile_ptr, and how many chunks each tile row has. counts, (tile rows + 2,), zero before: those of a tile row after its
// number; last, tile rows of several chunks. first: tiles before each segment. stored_before: of all tiles, if DEFERRED.
template <typename I, typename T, bool DEFERRED>
__global__ void count_chunks(int rows, int tile_rows, const I* __restrict__ row_ptr, const T* __restrict__ first,
                             const int* __restrict__ stored_before, int tbalance, int least, int* __restrict__ tile_ptr,
                             int* __restrict__ counts) {
  const long long i = global_thread();
  if (i > tile_rows) return;
  const auto first_tile = [&](long long tile_row) {
    const T tile = first[first_segment(rows, row_ptr, tile_row)];
    return DEFERRED ? stored_before[tile] : static_cast<int>(tile);
  };
  const int begin = first_tile(i);
  tile_ptr[i] = begin;
  if (i == tile_rows) return;
  const int chunks = (first_tile(i + 1) - begin + tbalance - 1) / tbalance;
  counts[i + 1] = chunks > least ? chunks : least;
  if (chunks > 1) atomicAdd(counts + tile_rows + 1, 1);
}

// first: of each tile row's chunks.
__global__ void fill_chunks(int tile_rows, const int* __restrict__ tile_ptr, const int* __restrict__ first,
                            int* __restrict__ chunk_ptr, int* __restrict__ chunk_row) {
  const long long i = global_thread();
  if (i >= tile_rows) return;
  const int chunks = first[i + 1] - first[i];
  const int tiles = tile_ptr[i + 1] - tile_ptr[i];
  const int each = chunks ? (tiles + chunks - 1) / chunks : 0;
  for (int c = 0; c < chunks; ++c) {
    chunk_ptr[first[i] + c] = tile_ptr[i] + c * each;
    chunk_row[first[i] + c] = static_cast<int>(i) | (chunks > 1 ? 1u << 31 : 0u);
  }
  if (i == tile_rows - 1) chunk_ptr[first[tile_rows]] = tile_ptr[tile_rows];
}
