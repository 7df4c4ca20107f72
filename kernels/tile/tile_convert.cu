// CSR to tiles on the device: what spmvbench/formats/tile/convert.py and layout.py compute by arrays on the host.
//
// Columns ascend in every row. Where tiles have many entries, half a warp takes a tile row, or a part of a long one, a
// thread per row, and goes from tile to tile by the least of the columns that are next: a walk. Where tiles have few,
// thread blocks find those of some tile rows by bits (found_tiles.cuh).
#include "found_tiles.cuh"
#include "tile.cuh"

constexpr int FORMATS = DNS_COL + 1;
constexpr int HALVES = FIND_BLOCK / TILE;  // half warps of a block that finds tiles
constexpr int SEGMENT = 1024;              // entries of a tile row for half a warp, about
constexpr int NO_TILE = 0x7fffffff;        // after the last tile column
constexpr int SAMPLED_TILES = 16;          // of a segment

// A bit per entry, and how many are set before each word of 32: the rank of any entry among those that are marked.
template <typename I>
struct Marks {
  const unsigned* __restrict__ bits;
  const I* __restrict__ before;

  __device__ __forceinline__ I operator()(long long entry) const {
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

  // Those in a tile column, which has none before the next. Most runs are short: steps double.
  __device__ __forceinline__ Run<I> take(int in_col) {
    Run<I> found = {next, 0};
    const int last = in_col * TILE + (TILE - 1);
    if (next < end && column <= last) {
      const I limit = end - next < TILE ? end : next + TILE;
      I low = next + 1, high = limit;
      int behind = 0;  // the column at `high`, if that is not the limit
      for (I step = 1; low < high; step *= 2) {
        const I at = low + step - 1 < high ? low + step - 1 : high - 1;
        behind = col_idx[at];
        if (behind > last) {
          high = at;
          break;
        }
        low = at + 1;
      }
      while (low < high) {
        const I middle = low + (high - low) / 2;
        const int here = col_idx[middle];
        if (here <= last) {
          low = middle + 1;
        } else {
          high = middle;
          behind = here;
        }
      }
      if (low < limit) {
        column = behind;
        next = low;
      } else {
        move(low);
      }
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

// visit(busy, tile row, tile column, run) for the first `most` tiles of the half warp's segment, in order; not busy: the
// other half has more. across: tile columns, of which the segments of a tile row have equal shares.
template <typename I, typename Visit>
__device__ __forceinline__ void visit_tiles(long long segment, int most, int rows, int across, int tile_rows,
                                            const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                                            Visit visit) {
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
  for (int i = 0; i < most; ++i) {
    const int mine = runs.next < runs.end ? runs.column / TILE : NO_TILE;
    const int tile_col = half_min(mine);
    const bool busy = tile_col < until;
    if (!__any_sync(FULL_MASK, busy)) break;
    Run<I> run = {runs.next, 0};
    if (busy && mine == tile_col) run = runs.take(tile_col);
    visit(busy, tile_row, tile_col, run);
  }
}

// Of the first tiles of every so many segments: how many there are and how many entries they have. found: zero before.
template <typename I>
__global__ void sample_tiles(int rows, int across, int tile_rows, long long every, const I* __restrict__ row_ptr,
                             const int* __restrict__ col_idx, unsigned long long* __restrict__ found) {
  int tiles = 0, entries = 0;
  visit_tiles(global_thread() / TILE * every, SAMPLED_TILES, rows, across, tile_rows, row_ptr, col_idx,
              [&](bool busy, int, int, const Run<I>& run) {
                tiles += busy && lane_id() % TILE == 0;
                entries += run.length;
              });
  add_once(found, tiles);
  add_once(found + 1, entries);
}

// Offsets of the tiles of each of `segments`, of which a warp takes two.
template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    count_tiles(int rows, int across, int tile_rows, long long segments, const I* __restrict__ row_ptr,
                const int* __restrict__ col_idx, P* __restrict__ ptr, unsigned long long* __restrict__ state) {
  const auto count = [&](long long at) {
    int tiles = 0;
    visit_tiles(at - lane_id() + lane_id() / TILE, NO_TILE, rows, across, tile_rows, row_ptr, col_idx,
                [&](bool busy, int, int, const Run<I>&) { tiles += busy; });
    return static_cast<long long>(__shfl_sync(FULL_MASK, tiles, lane_id() % 2 * TILE));
  };
  write_offsets<1>(segments, ptr, state, count, WARP / TILE);
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
  visit_tiles(segment, NO_TILE, rows, across, tile_rows, row_ptr, col_idx,
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

// ---- Tiles that are found by bits.

// What a row has in a tile. number, entry: of the first of them.
struct FoundRun {
  int number;
  int length;
  long long entry;
};

// The tiles that are described or packed by half warps, a lane for each row.
struct Listed {
  unsigned short tiles[FIND_ENTRIES];
  int count;
};

// visit(tile, run, inside) for all listed tiles: a half warp each; not inside: the other half has one more. All threads
// arrive, those of a warp in every visit.
template <typename Visit>
__device__ __forceinline__ void visit_listed(const FoundRuns& m, const Listed& listed, Visit visit) {
  const int half = threadIdx.x / TILE, row = lane_id() % TILE;
  for (int n = half; n - half % 2 < listed.count; n += HALVES) {
    const bool inside = n < listed.count;
    const int tile = inside ? listed.tiles[n] : 0;
    const unsigned rows = inside ? m.rows_of(tile) : 0;
    FoundRun found = {0, 0, 0};
    if (rows >> row & 1) {
      const int run = m.first_run(tile) + __popc(rows & ((1u << row) - 1));
      found = {m.run_begin[run], m.run_at[run + 1] - m.run_at[run], m.entry(m.run_begin[run])};
    }
    visit(tile, found, inside);
  }
}

// What there is to know of each tile: its column in tiles, its entries, its format | width << 3, and its entries in the
// tail of HYB. ALL_CSR: no rules. apart: zero before; marks entries of COO tiles and of tails if DEFERRED.
template <typename Key, typename I, bool ALL_CSR, bool DEFERRED>
__global__ void __launch_bounds__(FIND_BLOCK, FIND_TOGETHER)
    describe_found(int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const Rules rules,
                   const ShareCuts cuts, const I* __restrict__ of_share, int* __restrict__ tile_col,
                   unsigned short* __restrict__ entries, Byte* __restrict__ fmt, Byte* __restrict__ tail,
                   unsigned* __restrict__ apart) {
  __shared__ FoundRuns m;
  __shared__ Listed undecided;
  long long before = of_share[blockIdx.x];
  visit_found<ENTRY_ORDER, Key>(m, blockIdx.x, BlockRows<I>(rows, TILE, TILE, row_ptr, col_idx), cuts, [&]() {
    if (threadIdx.x == 0) undecided.count = 0;
    __syncthreads();
    for (int tile = threadIdx.x; tile < m.tiles; tile += FIND_BLOCK) {
      const int z = m.begin_of(tile + 1) - m.begin_of(tile);
      tile_col[before + tile] = m.block_of[tile];
      entries[before + tile] = static_cast<unsigned short>(z);
      if (!ALL_CSR && z >= rules.coo && z < rules.dns) {
        undecided.tiles[atomicAdd(&undecided.count, 1)] = static_cast<unsigned short>(tile);
      } else {
        fmt[before + tile] = static_cast<Byte>(ALL_CSR ? CSR : z < rules.coo ? COO : DNS);
        tail[before + tile] = 0;
      }
    }
    for (int first = 0; DEFERRED && first < m.entries; first += FIND_BLOCK) {
      const int number = first + static_cast<int>(threadIdx.x), tile = number < m.entries ? m.tile_of[number] : 0;
      const bool coo = number < m.entries && m.begin_of(tile + 1) - m.begin_of(tile) < rules.coo;
      const long long entry = number < m.entries ? m.entry(number) : 0;
      if (m.part) {
        if (coo) atomicOr(apart + entry / WARP, 1u << (entry % WARP));
        continue;
      }
      const unsigned marks = __ballot_sync(FULL_MASK, coo);  // of entries one after the other
      const int shift = static_cast<int>(__shfl_sync(FULL_MASK, entry, 0) % WARP);
      const unsigned mine = entry % WARP >= shift ? marks << shift : shift ? marks >> (WARP - shift) : 0;
      if (mine && (lane_id() == 0 || entry % WARP == 0) && number < m.entries) atomicOr(apart + entry / WARP, mine);
    }
    __syncthreads();
    visit_listed(m, undecided, [&](int tile, const FoundRun& run, bool inside) {
      const int z = inside ? m.begin_of(tile + 1) - m.begin_of(tile) : 0;
      const Choice choice = choose(rules, z, run.length, [&](bool asked) {
        unsigned columns = 0;
        for (int j = 0; asked && j < run.length; ++j) columns |= 1u << m.column_in(run.number + j);
        return half_count(columns != __shfl_sync(FULL_MASK, columns, lane_id() & TILE)) == 0 && asked;
      });
      const bool cut = inside && choice.fmt == HYB && choice.width < run.length;
      const int in_tail = __any_sync(FULL_MASK, cut) ? half_sum(cut ? run.length - choice.width : 0) : 0;
      if (inside && lane_id() % TILE == 0) {
        fmt[before + tile] = static_cast<Byte>(choice.fmt | choice.width << 3);
        tail[before + tile] = static_cast<Byte>(in_tail);
      }
      if (DEFERRED && cut) {
        const long long from = run.entry + choice.width;
        const unsigned long long marks = ((1ull << (run.length - choice.width)) - 1) << (from % WARP);
        atomicOr(apart + from / WARP, static_cast<unsigned>(marks));
        if (marks >> WARP) atomicOr(apart + from / WARP + 1, static_cast<unsigned>(marks >> WARP));
      }
    });
    before += m.tiles;
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

// sums, (SUMS x groups,): of each group, one kind of sum after the other.
template <bool DEFERRED>
__global__ void count_room(int tiles, int groups, const unsigned short* __restrict__ entries,
                           const Byte* __restrict__ fmt, const Byte* __restrict__ tail, int* __restrict__ sums) {
  const long long group = global_thread() / WARP;
  if (group >= groups) return;  // the whole warp
  int sum = 0;
  visit_group<DEFERRED>(group, tiles, entries, fmt, tail, sum, [](long long, const Room&, int, int, int, int) {});
  if (lane_id() < SUMS) sums[static_cast<long long>(lane_id()) * groups + group] = sum;
}

// The running sum, of `n` numbers of `groups` for each kind. ends, (SUMS + 1,): what is before each kind, and all.
template <typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    sum_room(int n, int groups, const int* __restrict__ sums, P* __restrict__ ptr,
             unsigned long long* __restrict__ ends, unsigned long long* __restrict__ state) {
  const auto count = [=](long long at) { return at < n ? static_cast<long long>(sums[at]) : 0ll; };
  sum_before<OFFSETS_EACH>(n, state, count, [=](long long at, long long before, long long number) {
    const int place = static_cast<int>(at);
    ptr[place] = static_cast<P>(before);
    if (place % groups == 0) ends[place / groups] = static_cast<unsigned long long>(before);
    if (place == n - 1) ends[SUMS] = static_cast<unsigned long long>(before + number);
  });
}

// The first level and the offsets of the tiles that are stored. sums: their running sum. tile_row, tile_col: of all
// tiles; stored_row, stored_col: of those stored. stored_before, (tiles + 1,) if DEFERRED: how many before each.
template <typename O, bool ROWS, bool DEFERRED>
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
          if (ROWS) stored_row[at] = tile_row[tile];
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

// What a row writes of a tile. column(j): in the tile, of its entries. BY_ROWS: entries of CSR and COO are written, too.
template <bool BY_ROWS, typename V, typename Column>
__device__ __forceinline__ void pack_tile(int kind, long long first, long long index, const V* __restrict__ value,
                                          int length, Column column, bool inside, bool deferred, const Packed<V>& to) {
  const int row = lane_id() % TILE;
  const int width = kind >> 3;
  const int in_head = (kind & 7) == HYB && length > width ? width : length;
  const int in_tail = length - in_head;
  const int through = group_scan<TILE>(in_head << 16 | in_tail);
  if (!inside) return;
  const int heads_before = (through >> 16) - in_head;
  const int tails_before = (through & 0xffff) - in_tail;

  // Sixteen slots per column, padded with zeros.
  const auto pack_columns = [&](V* slots, Byte* halves) {
    for (int j = 0; j < width; ++j) {
      slots[j * TILE + row] = j < in_head ? value[j] : V(0);
      if (halves) halves[j * TILE + row] = static_cast<Byte>(j < in_head ? column(j) : 0);
    }
  };
  unsigned columns = 0;
  switch (kind & 7) {
    case CSR:
      to.csr_row_ptr[index + row] = static_cast<Byte>(heads_before);
      for (int j = 0; BY_ROWS && j < length; ++j) {
        to.csr_val[first + heads_before + j] = value[j];
        to.csr_halves[first + heads_before + j] = static_cast<Byte>(column(j));
      }
      break;
    case COO:
      for (int j = 0; BY_ROWS && j < length; ++j) {
        to.coo_val[first + heads_before + j] = value[j];
        to.coo_idx[first + heads_before + j] = static_cast<Byte>(row << 4 | column(j));
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
        half[1] = static_cast<Byte>(column(in_head + j));
      }
      break;
    case DNS:
      for (int j = 0; j < length; ++j) columns |= 1u << column(j);
#pragma unroll 4
      for (int col = 0; col < TILE; ++col) {
        const unsigned before = columns & ((1u << col) - 1);
        to.dns_val[first + col * TILE + row] = columns >> col & 1 ? value[__popc(before)] : V(0);
      }
      break;
    case DNS_ROW:
      for (int j = 0; j < length; ++j) to.dns_row_val[first + heads_before + j] = value[j];
      if (length) to.row_id[index + heads_before / TILE] = static_cast<Byte>(row);
      break;
    case DNS_COL:
      pack_columns(to.dns_col_val + first, static_cast<Byte*>(nullptr));
      for (int j = row; j < width; j += TILE) to.col_id[index + j] = static_cast<Byte>(column(j));
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
    pack_tile<true>(
        inside ? fmt[tile] : CSR, inside ? off1[tile] : 0, inside ? off2[tile] : 0, values + run.begin, run.length,
        [&](int j) { return col_idx[run.begin + j] % TILE; }, inside, DEFERRED, to);
    __syncwarp();
  }
}

// kinds: format | width << 3 of all tiles. stored_before: if DEFERRED.
template <typename Key, typename V, typename I, typename O, bool DEFERRED>
__global__ void __launch_bounds__(FIND_BLOCK, FIND_TOGETHER)
    pack_found(int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const V* __restrict__ values,
               const ShareCuts cuts, const I* __restrict__ of_share, const Byte* __restrict__ kinds,
               const int* __restrict__ stored_before, const O* __restrict__ off1, const O* __restrict__ off2,
               const Packed<V> to) {
  __shared__ FoundRuns m;
  __shared__ Listed by_rows;
  long long before = of_share[blockIdx.x];
  visit_found<ENTRY_ORDER, Key>(m, blockIdx.x, BlockRows<I>(rows, TILE, TILE, row_ptr, col_idx), cuts, [&]() {
    const auto stored = [&](int tile) {  // its number among those stored, or -1
      const long long at = before + tile;
      return !DEFERRED                                   ? at
             : stored_before[at] < stored_before[at + 1] ? static_cast<long long>(stored_before[at])
                                                         : -1;
    };
    if (threadIdx.x == 0) by_rows.count = 0;
    __syncthreads();
    for (int tile = threadIdx.x; tile < m.tiles; tile += FIND_BLOCK) {
      if ((kinds[before + tile] & 7) != COO && stored(tile) >= 0) {
        by_rows.tiles[atomicAdd(&by_rows.count, 1)] = static_cast<unsigned short>(tile);
      }
    }
    for (int k = threadIdx.x; k < m.entries; k += FIND_BLOCK) {
      const int number = m.order[k], tile = m.tile_of[number], fmt = kinds[before + tile] & 7;
      const long long at = fmt == CSR || fmt == COO ? stored(tile) : -1;
      if (at < 0) continue;
      const long long entry = m.entry(number), slot = off1[at] + (k - m.begin_of(tile));
      const int column = m.column_in(number);
      (fmt == CSR ? to.csr_val : to.coo_val)[slot] = values[entry];
      (fmt == CSR ? to.csr_halves : to.coo_idx)[slot] =
          static_cast<Byte>(fmt == CSR ? column : m.row_in(number) << 4 | column);
    }
    __syncthreads();
    visit_listed(m, by_rows, [&](int tile, const FoundRun& run, bool inside) {
      const long long at = inside ? stored(tile) : 0;
      pack_tile<false>(
          inside ? kinds[before + tile] : CSR, inside ? off1[at] : 0, inside ? off2[at] : 0, values + run.entry,
          run.length, [&](int k) { return m.column_in(run.number + k); }, inside, DEFERRED, to);
      __syncwarp();
    });
    before += m.tiles;
  });
}

constexpr int HALVES_EACH = 8;  // half bytes of a thread

struct HalfBytes {
  long long n;
  const Byte* halves;
  Byte* packed;

  // From the first of HALVES_EACH on.
  __device__ __forceinline__ void pack(long long first) const {
    unsigned word = 0;
    if (first + HALVES_EACH <= n) {
      const uint2 bytes = *reinterpret_cast<const uint2*>(halves + first);
      const unsigned low = bytes.x << 4 | bytes.x >> 8, high = bytes.y << 4 | bytes.y >> 8;
      word = (low & 0xff) | (low >> 8 & 0xff00) | (high & 0xff) << 16 | (high << 8 & 0xff000000u);
      *reinterpret_cast<unsigned*>(packed + first / 2) = word;
      return;
    }
    for (long long i = first; i < n; i += 2) {
      packed[i / 2] = static_cast<Byte>(halves[i] << 4 | (i + 1 < n ? halves[i + 1] : 0));
    }
  }
  __device__ __forceinline__ long long room() const { return (n + HALVES_EACH - 1) / HALVES_EACH * HALVES_EACH; }
};

// Two half bytes per byte, the first in the high half, of three arrays.
__global__ void pack_halves(const HalfBytes one, const HalfBytes two, const HalfBytes three) {
  const long long first = global_thread() * HALVES_EACH, one_and_two = one.room() + two.room();
  if (first < one.room()) {
    one.pack(first);
  } else if (first < one_and_two) {
    two.pack(first - one.room());
  } else {
    three.pack(first - one_and_two);
  }
}

// ---- Entries computed separately: those that are marked.

// How many bits are set before each word.
template <typename B, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    count_marks(long long words, const B* __restrict__ bits, P* __restrict__ before,
                unsigned long long* __restrict__ state) {
  write_offsets<OFFSETS_EACH>(words, before, state, [=](long long word) {
    return word < words ? static_cast<long long>(__popc(bits[word])) : 0ll;
  });
}

// A thread per row pointer and a thread per entry.
template <typename V, typename I, typename R>
__global__ void take_marked(int rows, I nnz, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                            const V* __restrict__ values, const unsigned* __restrict__ bits,
                            const R* __restrict__ before, R* __restrict__ taken_row_ptr, int* __restrict__ taken_col,
                            V* __restrict__ taken_values) {
  const Marks<R> taken_before{bits, before};
  const long long i = global_thread();
  if (i <= rows) taken_row_ptr[i] = taken_before(row_ptr[i]);
  if (i >= nnz || !(bits[i / WARP] >> (i % WARP) & 1)) return;
  const R at = taken_before(i);
  taken_col[at] = col_idx[i];
  taken_values[at] = values[i];
}

// ---- Chunks: see chunks_of in spmvbench/formats/tile/tile.py.

// tile_ptr, and the chunks of each tile row; the first note: tile rows of several chunks. first: tiles before each tile
// row, or if SEGMENTS each segment. stored_before: of all tiles, if DEFERRED.
template <typename I, typename T, bool SEGMENTS, bool DEFERRED>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    cut_chunks(int rows, int tile_rows, const I* __restrict__ row_ptr, const T* __restrict__ first,
               const int* __restrict__ stored_before, int tbalance, int least, int* __restrict__ tile_ptr,
               int* __restrict__ chunk_ptr, int* __restrict__ chunk_row, unsigned long long* __restrict__ state) {
  const auto first_tile = [=](long long tile_row) {
    const T tile = first[SEGMENTS ? first_segment(rows, row_ptr, tile_row) : tile_row];
    return DEFERRED ? stored_before[tile] : static_cast<int>(tile);
  };
  int several = 0;
  const auto count = [&](long long at) {
    if (at >= tile_rows) return 0ll;
    const int begin = first_tile(at), end = first_tile(at + 1);
    tile_ptr[at] = begin;
    if (at == tile_rows - 1) tile_ptr[tile_rows] = end;
    const int chunks = (end - begin + tbalance - 1) / tbalance;
    several += chunks > 1;
    return static_cast<long long>(chunks > least ? chunks : least);
  };
  sum_before<OFFSETS_EACH>(tile_rows, state, count, [&](long long at, long long before, long long number) {
    const int begin = tile_ptr[at], end = first_tile(at + 1), chunks = static_cast<int>(number);
    const int each = chunks ? (end - begin + chunks - 1) / chunks : 0;
    for (int c = 0; c < chunks; ++c) {
      chunk_ptr[before + c] = begin + c * each;
      chunk_row[before + c] = static_cast<int>(at) | (chunks > 1 ? 1u << 31 : 0u);
    }
    if (at == tile_rows - 1) chunk_ptr[before + chunks] = end;
  });
  several = group_sum<WARP>(several);
  if (lane_id() == 0 && several) atomicAdd(state, static_cast<unsigned long long>(several));
}
