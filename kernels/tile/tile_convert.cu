// CSR to tiles on the device: what spmvbench/formats/tile/convert.py and tile_layout.py compute by arrays on the host.
#include "merged_rows.cuh"
#include "tile.cuh"

constexpr int FORMATS = DNS_COL + 1;
constexpr int HALVES = MERGE_BLOCK / TILE;  // half warps of a block
static_assert(TILE == WARP / 2, "a lane of a half warp for each row");

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

// The tiles that are described or packed by half warps, a lane for each row.
struct Listed {
  unsigned short tiles[MERGE_ENTRIES];
  int count;
};

// visit(tile, run, inside) for all listed tiles: a half warp each; not inside: the other half has one more. All threads
// arrive, those of a warp in every visit.
template <typename I, bool WIDE, typename Visit>
__device__ __forceinline__ void visit_listed(const Merged<WIDE>& m, const Listed& listed, Visit visit) {
  const int half = threadIdx.x / TILE, row = lane_id() % TILE;
  for (int n = half; n - half % 2 < listed.count; n += HALVES) {
    const bool inside = n < listed.count;
    const int tile = inside ? listed.tiles[n] : 0;
    const int end = inside ? m.begins[tile + 1] : 0;
    int low = inside ? m.begins[tile] : 0, high = end;  // keys of a tile are in the order of their rows
    while (low < high) {
      const int middle = (low + high) / 2;
      if (m.row_in(m.number(m.keys[middle])) < row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const int next = __shfl_down_sync(FULL_MASK, low, 1);
    const int length = (row == TILE - 1 ? end : next) - low;
    visit(tile, Run<I>{length ? static_cast<I>(m.entry(m.number(m.keys[low]))) : I(0), length}, inside);
  }
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

// The first tile of each tile row and of each share, each with the end, and what there is to know of each tile: its column
// in tiles, its entries, its format | width << 3, and its entries in the tail of HYB. ALL_CSR: no rules. apart: zero
// before; marks entries of COO tiles and of tails if DEFERRED.
template <bool WIDE, typename I, bool ALL_CSR, bool DEFERRED>
__global__ void __launch_bounds__(MERGE_BLOCK, MERGE_TOGETHER)
    describe_tiles(int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const Rules rules,
                   const MergeCuts cuts, I* __restrict__ ptr, I* __restrict__ of_share, int* __restrict__ tile_col,
                   unsigned short* __restrict__ entries, Byte* __restrict__ fmt, Byte* __restrict__ tail,
                   unsigned* __restrict__ apart, unsigned long long* __restrict__ state) {
  __shared__ MergedInOrder<WIDE> shared;
  __shared__ Listed undecided;
  Merged<WIDE>& m = shared.merged;
  const BlockRows<I> a(rows, TILE, TILE, row_ptr, col_idx);
  const int visits = shared.count(a, cuts, ptr, of_share, state);
  long long before = shared.before;
  const auto describe = [&]() {
    if (threadIdx.x == 0) undecided.count = 0;
    __syncthreads();
    for (int tile = threadIdx.x; tile < m.tiles; tile += MERGE_BLOCK) {
      const int begin = m.begins[tile], z = m.begins[tile + 1] - begin;
      tile_col[before + tile] = m.block(m.keys[begin]);
      entries[before + tile] = static_cast<unsigned short>(z);
      if (!ALL_CSR && z >= rules.coo && z < rules.dns) {
        undecided.tiles[atomicAdd(&undecided.count, 1)] = static_cast<unsigned short>(tile);
      } else {
        fmt[before + tile] = static_cast<Byte>(ALL_CSR ? CSR : z < rules.coo ? COO : DNS);
        tail[before + tile] = 0;
      }
    }
    for (int first = 0; DEFERRED && first < m.entries; first += MERGE_BLOCK) {
      const int number = first + static_cast<int>(threadIdx.x);
      bool coo = number < m.entries;
      if (coo) coo = m.begins[m.tile_of[number] + 1] - m.begins[m.tile_of[number]] < rules.coo;
      if (coo) atomicOr(apart + m.entry(number) / WARP, 1u << (m.entry(number) % WARP));
    }
    __syncthreads();
    visit_listed<I>(m, undecided, [&](int tile, const Run<I>& run, bool inside) {
      const int z = inside ? m.begins[tile + 1] - m.begins[tile] : 0;
      const Choice choice = choose(rules, z, run.length, [&](bool asked) {
        unsigned columns = 0;
        for (int j = 0; asked && j < run.length; ++j) columns |= 1u << (col_idx[run.begin + j] % TILE);
        return half_count(columns != __shfl_sync(FULL_MASK, columns, lane_id() & TILE)) == 0 && asked;
      });
      const bool cut = inside && choice.fmt == HYB && choice.width < run.length;
      const int in_tail = __any_sync(FULL_MASK, cut) ? half_sum(cut ? run.length - choice.width : 0) : 0;
      if (inside && lane_id() % TILE == 0) {
        fmt[before + tile] = static_cast<Byte>(choice.fmt | choice.width << 3);
        tail[before + tile] = static_cast<Byte>(in_tail);
      }
      if (DEFERRED && cut) {
        const I from = run.begin + choice.width;
        const unsigned long long marks = ((1ull << (run.length - choice.width)) - 1) << (from % WARP);
        atomicOr(apart + from / WARP, static_cast<unsigned>(marks));
        if (marks >> WARP) atomicOr(apart + from / WARP + 1, static_cast<unsigned>(marks >> WARP));
      }
    });
    before += m.tiles;
  };
  if (visits == 1) {
    describe();
  } else if (visits > 1) {
    visit_merged(m, shared.share, a, cuts, describe);
  }
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

// The first level and the offsets of the tiles that are stored. sums: their running sum. tile_col: of all tiles;
// stored_col: of those stored. stored_before, (tiles + 1,) if DEFERRED: how many before each.
template <typename O, bool DEFERRED>
__global__ void place_tiles(int tiles, int groups, const unsigned short* __restrict__ entries,
                            const Byte* __restrict__ fmt, const Byte* __restrict__ tail,
                            const long long* __restrict__ sums, const int* __restrict__ tile_col,
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

// What rows write of a tile. Entries of CSR and COO are written in their order.
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

// kinds: format | width << 3 of all tiles. stored_before: if DEFERRED.
template <bool WIDE, typename V, typename I, typename O, bool DEFERRED>
__global__ void __launch_bounds__(MERGE_BLOCK, MERGE_TOGETHER)
    pack_tiles(int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const V* __restrict__ values,
               const MergeCuts cuts, const I* __restrict__ of_share, const Byte* __restrict__ kinds,
               const int* __restrict__ stored_before, const O* __restrict__ off1, const O* __restrict__ off2,
               const Packed<V> to) {
  __shared__ Merged<WIDE> m;
  __shared__ Listed by_rows;
  long long before = of_share[blockIdx.x];
  visit_merged(m, blockIdx.x, BlockRows<I>(rows, TILE, TILE, row_ptr, col_idx), cuts, [&]() {
    const auto stored = [&](int tile) {  // its number among those stored, or -1
      const long long at = before + tile;
      return !DEFERRED                                   ? at
             : stored_before[at] < stored_before[at + 1] ? static_cast<long long>(stored_before[at])
                                                         : -1;
    };
    if (threadIdx.x == 0) by_rows.count = 0;
    __syncthreads();
    for (int tile = threadIdx.x; tile < m.tiles; tile += MERGE_BLOCK) {
      if ((kinds[before + tile] & 7) != COO && stored(tile) >= 0) {
        by_rows.tiles[atomicAdd(&by_rows.count, 1)] = static_cast<unsigned short>(tile);
      }
    }
    for (int k = threadIdx.x; k < m.entries; k += MERGE_BLOCK) {
      const int number = m.number(m.keys[k]), tile = m.tile_of[number], fmt = kinds[before + tile] & 7;
      const long long at = fmt == CSR || fmt == COO ? stored(tile) : -1;
      if (at < 0) continue;
      const long long entry = m.entry(number), slot = off1[at] + (k - m.begins[tile]);
      const int column = col_idx[entry] % TILE;
      (fmt == CSR ? to.csr_val : to.coo_val)[slot] = values[entry];
      (fmt == CSR ? to.csr_halves : to.coo_idx)[slot] =
          static_cast<Byte>(fmt == CSR ? column : m.row_in(number) << 4 | column);
    }
    __syncthreads();
    visit_listed<I>(m, by_rows, [&](int tile, const Run<I>& run, bool inside) {
      const long long at = inside ? stored(tile) : 0;
      pack_tile(inside ? kinds[before + tile] : CSR, inside ? off1[at] : 0, inside ? off2[at] : 0, run, inside,
                DEFERRED, col_idx, values, to);
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
};

// Two half bytes per byte, the first in the high half, of three arrays.
__global__ void pack_halves(const HalfBytes one, const HalfBytes two, const HalfBytes three) {
  long long first = global_thread() * HALVES_EACH;
  const HalfBytes arrays[] = {one, two, three};
#pragma unroll
  for (const HalfBytes& array : arrays) {
    const long long room = (array.n + HALVES_EACH - 1) / HALVES_EACH * HALVES_EACH;
    if (first < room) {
      unsigned long long bytes = 0;
      if (first + HALVES_EACH <= array.n) {
        bytes = *reinterpret_cast<const unsigned long long*>(array.halves + first);
      } else {
        for (int i = 0; first + i < array.n; ++i)
          bytes |= static_cast<unsigned long long>(array.halves[first + i]) << (8 * i);
      }
      for (int i = 0; i < HALVES_EACH && first + i < array.n; i += 2) {
        const unsigned pair = static_cast<unsigned>(bytes >> (8 * i));
        array.packed[(first + i) / 2] = static_cast<Byte>((pair & 15) << 4 | (pair >> 8 & 15));
      }
      return;
    }
    first -= room;
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

// tile_ptr, and offsets of the chunks of each tile row; the first note: tile rows of several chunks. first: tiles before
// each tile row. stored_before: of all tiles, if DEFERRED.
template <typename I, bool DEFERRED, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    count_chunks(int tile_rows, const I* __restrict__ first, const int* __restrict__ stored_before, int tbalance,
                 int least, int* __restrict__ tile_ptr, P* __restrict__ ptr, unsigned long long* __restrict__ state) {
  const auto first_tile = [=](long long tile_row) {
    const I tile = first[tile_row];
    return DEFERRED ? stored_before[tile] : static_cast<int>(tile);
  };
  int several = 0;
  write_offsets<OFFSETS_EACH>(tile_rows, ptr, state, [&](long long at) {
    if (at >= tile_rows) return 0ll;
    const int begin = first_tile(at), end = first_tile(at + 1);
    tile_ptr[at] = begin;
    if (at == tile_rows - 1) tile_ptr[tile_rows] = end;
    const int chunks = (end - begin + tbalance - 1) / tbalance;
    several += chunks > 1;
    return static_cast<long long>(chunks > least ? chunks : least);
  });
  several = group_sum<WARP>(several);
  if (lane_id() == 0 && several) atomicAdd(state, static_cast<unsigned long long>(several));
}

// first: of each tile row's chunks.
template <typename P>
__global__ void fill_chunks(int tile_rows, const int* __restrict__ tile_ptr, const P* __restrict__ first,
                            int* __restrict__ chunk_ptr, int* __restrict__ chunk_row) {
  const long long i = global_thread();
  if (i >= tile_rows) return;
  const int chunks = static_cast<int>(first[i + 1] - first[i]);
  const int tiles = tile_ptr[i + 1] - tile_ptr[i];
  const int each = chunks ? (tiles + chunks - 1) / chunks : 0;
  for (int c = 0; c < chunks; ++c) {
    chunk_ptr[first[i] + c] = tile_ptr[i] + c * each;
    chunk_row[first[i] + c] = static_cast<int>(i) | (chunks > 1 ? 1u << 31 : 0u);
  }
  if (i == tile_rows - 1) chunk_ptr[first[tile_rows]] = tile_ptr[tile_rows];
}
