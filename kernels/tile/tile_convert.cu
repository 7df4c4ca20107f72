// CSR to tiles on the device: what spmvbench/formats/tile/convert.py and layout.py compute by arrays on the host.
//
// A warp takes tile rows, or parts of long ones by columns, and sorts their entries by tile in registers, so many at
// once as fit. The first kernel counts what tiles come to and stores the order, 16 bits an entry; the last one packs the
// tiles from it.
#include "largest.cuh"
#include "offsets.cuh"
#include "search.cuh"
#include "tile.cuh"

constexpr int FORMATS = DNS_COL + 1;
constexpr int CONVERT_BLOCK = 128;
constexpr int CONVERT_TOGETHER = 8;  // blocks of a multiprocessor, at least: what they wait for is hidden by others
constexpr int SEGMENT = 448;         // entries of a long tile row for a warp, about
constexpr int NUMBER_BITS = 9;       // of an entry among those that a warp has at once
constexpr int SORTED = 1 << NUMBER_BITS;
constexpr unsigned BEGINS = 16 << NUMBER_BITS;  // a tile, behind four bits of a row
static_assert(SEGMENT <= SORTED, "a tile row of more than are sorted at once has several segments");
constexpr int MASK_WORDS = TILE / 2 + 1;  // of a tile: two rows each, and one more so that banks differ

// A bit per entry, and how many are set before each word of 32: the rank of any entry among those that are marked.
template <typename I>
struct Marks {
  const unsigned* __restrict__ bits;
  const I* __restrict__ before;

  __device__ __forceinline__ I operator()(long long entry) const {
    return before[entry / WARP] + __popc(bits[entry / WARP] & ((1u << (entry % WARP)) - 1));
  }
};

// A matrix in tile rows. Each has a segment, and one more for each SEGMENT entries before its end; the further ones are
// used where its entries do not fit at once.
template <typename I>
struct TileRows {
  int rows;
  int tile_rows;
  int each;  // segments of a warp
  const I* __restrict__ row_ptr;
  const int* __restrict__ col_idx;

  __device__ __forceinline__ I entry(long long row) const { return row_ptr[row < rows ? row : rows]; }
  __device__ __forceinline__ long long first_segment(long long tile_row) const {
    return tile_row + static_cast<long long>(entry(tile_row * TILE) / SEGMENT);
  }
  // The tile row of a segment, by a warp.
  __device__ __forceinline__ int tile_row_of(long long segment) const {
    long long low = 0, high = tile_rows;
    while (high - low > 1) {
      const long long step = (high - low + WARP - 1) / WARP, at = low + (lane_id() + 1) * step;
      low += __popc(__ballot_sync(FULL_MASK, at < high && first_segment(at) <= segment)) * step;
      high = low + step < high ? low + step : high;
    }
    return static_cast<int>(low);
  }
};

// The entries that a warp has at once and their tiles, in order.
template <typename I>
struct FoundEntries {
  alignas(16) unsigned short word[SORTED];  // number | row << NUMBER_BITS | BEGINS, by number row after row
  unsigned masks[WARP * MASK_WORDS];        // of up to 32 tiles: the columns of each row, a bit each
  I shift[TILE];                            // number to entry, of each row
  unsigned short begin[SORTED + 1];         // of a tile: its first entry; and the end
  Byte place[SORTED];                       // row << 4 | column in its tile

  __device__ __forceinline__ unsigned columns(int tile, int row) const {
    return masks[tile * MASK_WORDS + row / 2] >> row % 2 * TILE & 0xffffu;
  }
  // visit(k, tile, whether there is such an entry) for all entries of tiles `first` to `last`, by the whole warp: `first`
  // has number 0.
  template <typename Visit>
  __device__ __forceinline__ void visit(int first, int last, Visit visit_entry) const {
    const int end = begin[last + 1];
    const unsigned up_to = FULL_MASK >> (WARP - 1 - lane_id());
    int before = -1;
    for (int from = begin[first]; from < end; from += WARP) {
      const int k = from + lane_id();
      const unsigned begins = __ballot_sync(FULL_MASK, k < end && word[k < end ? k : 0] & BEGINS);
      visit_entry(k, before + __popc(begins & up_to), k < end);
      before += __popc(begins);
    }
  }
};

// The row of a number. start: of each row, by lane, its first number.
__device__ __forceinline__ int row_of(int start, int number) {
  int row = 0;
#pragma unroll
  for (int step = TILE / 2; step > 0; step /= 2) {
    if (__shfl_sync(FULL_MASK, start, row + step) <= number) row += step;
  }
  return row;
}

// Ascending over the warp, of which each lane has EACH neighbours: Batcher's bitonic sort.
template <int EACH, typename Key>
__device__ __forceinline__ void sort_keys(Key (&key)[EACH]) {
#pragma unroll
  for (int size = 2; size <= EACH * WARP; size *= 2) {
#pragma unroll
    for (int step = size; step > 1; step /= 2) {
      const int flip = step == size ? size - 1 : step / 2;  // of a number, to that of the key to compare with
      if (flip < EACH) {
#pragma unroll
        for (int u = 0; u < EACH; ++u) {
          if ((u ^ flip) < u) continue;
          const Key one = key[u], other = key[u ^ flip];
          key[u] = other < one ? other : one;
          key[u ^ flip] = other < one ? one : other;
        }
        continue;
      }
      const bool low = !(lane_id() & (step / 2 / EACH));
#pragma unroll
      for (int u = 0; u < EACH; ++u) {
        const int partner = u ^ (flip % EACH);
        if (partner < u) continue;
        const Key here = key[u], there = key[partner];
        const Key other = __shfl_xor_sync(FULL_MASK, there, flip / EACH);
        key[u] = (other < here) == low ? other : here;
        if (partner == u) continue;
        const Key beyond = __shfl_xor_sync(FULL_MASK, here, flip / EACH);
        key[partner] = (beyond < there) == low ? beyond : there;
      }
    }
  }
}

// Sorts n entries, at most EACH a lane, by tile, and returns how many tiles they have. places: room for SORTED.
template <int EACH, typename Key, typename I>
__device__ __forceinline__ int sort_entries(FoundEntries<I>& m, Byte* places, int n, int start,
                                            const int* __restrict__ col_idx) {
  const int lane = lane_id();
  unsigned column[EACH];
  unsigned long long rows = 0;  // four bits each
#pragma unroll
  for (int u = 0; u < EACH; ++u) {
    const int number = u * WARP + lane, row = row_of(start, number);
    rows |= static_cast<unsigned long long>(row) << (4 * u);
    column[u] = number < n ? static_cast<unsigned>(col_idx[m.shift[row] + number]) : 0;
  }
  Key key[EACH];
#pragma unroll
  for (int u = 0; u < EACH; ++u) {
    const int number = u * WARP + lane;
    key[u] = ~Key(0);
    if (number >= n) continue;
    key[u] = static_cast<Key>(column[u] / TILE) << NUMBER_BITS | static_cast<Key>(number);
    places[number] = static_cast<Byte>((rows >> (4 * u) & 0xf) << 4 | (column[u] % TILE));
  }
  __syncwarp();  // shuffles overlap
  sort_keys<EACH>(key);

  const Key left = __shfl_up_sync(FULL_MASK, key[EACH - 1], 1);
  const int first = lane * EACH;
  unsigned heads = 0;
#pragma unroll
  for (int u = 0; u < EACH; ++u) {
    const Key before = u ? key[u - 1] : left;
    const bool begins = first + u == 0 || (key[u] ^ before) >> NUMBER_BITS;
    if (begins && first + u < n) heads |= 1u << u;
  }
  const int through = group_scan<WARP>(__popc(heads)), tiles = __shfl_sync(FULL_MASK, through, WARP - 1);
  int tile = through - __popc(heads);
  unsigned word[EACH];
#pragma unroll
  for (int u = 0; u < EACH; ++u) {
    if (heads >> u & 1) m.begin[tile++] = static_cast<unsigned short>(first + u);
    word[u] = (static_cast<unsigned>(key[u]) & (SORTED - 1)) | (heads >> u & 1 ? BEGINS : 0);
  }
#pragma unroll
  for (int u = 0; u < EACH; u += 4) {
    *reinterpret_cast<uint2*>(m.word + first + u) = uint2{word[u] | word[u + 1] << 16, word[u + 2] | word[u + 3] << 16};
  }
  if (lane == 0) m.begin[tiles] = static_cast<unsigned short>(n);
  __syncwarp();
  return tiles;
}

// visit(place, n, start) for entries of a warp's segments that it has at once, some after the others, whose tiles are
// whole; end(tile row, whether its first segment) behind each segment. place: of the first in the order of tiles, among
// all entries. start: of each row, by lane, its first number.
template <typename I, typename Visit, typename End>
__device__ __forceinline__ void visit_segments(FoundEntries<I>& m, const TileRows<I>& a, long long group, Visit visit,
                                               End end) {
  const int lane = lane_id();
  long long segment = group * a.each;
  const long long all = a.first_segment(a.tile_rows), last = segment + a.each < all ? segment + a.each : all;
  int tile_row = a.tile_row_of(segment);
  long long first = a.first_segment(tile_row), next = a.first_segment(tile_row + 1);
  for (; segment < last; ++segment) {
    while (next <= segment) {
      first = next;
      next = a.first_segment(++tile_row + 1);
    }
    const long long parts = next - first, part = segment - first;
    I at = a.entry(static_cast<long long>(tile_row) * TILE + (lane < TILE ? lane : TILE));
    I stop = __shfl_down_sync(FULL_MASK, at, 1), place = __shfl_sync(FULL_MASK, at, 0);
    long long left = __shfl_sync(FULL_MASK, at, TILE) - place;
    const bool whole = left <= SORTED;
    if (whole && part) continue;
    if (!whole) {  // as far as its longest row is through
      const I begun = at, length = stop - at, longest = warp_max(length);
      const int owner = __ffs(static_cast<int>(__ballot_sync(FULL_MASK, length == longest))) - 1;
      const I begin = __shfl_sync(FULL_MASK, at, owner);
      const auto column = [&](long long of) {
        return a.col_idx[begin + static_cast<I>(static_cast<long long>(longest) * of / parts)] / TILE * TILE;
      };
      const auto sum = [](long long of_row) { return __shfl_sync(FULL_MASK, group_sum<WARP>(of_row), 0); };
      if (part + 1 < parts) stop = entry_from(a.col_idx, at, stop, column(part + 1), I(0));
      if (part) at = entry_from(a.col_idx, at, stop, column(part), I(0));
      place += static_cast<I>(sum(at - begun));
      left = sum(stop - at);
    }
    while (left > 0) {
      I take = stop - at;
      int start = static_cast<int>(at - place), n = static_cast<int>(left);
      if (left > SORTED) {  // of each row its share of what fits, then all before the first tile that is not whole
        constexpr int LEAST = TILE + 1;  // ends beyond the first tile
        const long long share = LEAST + (SORTED - TILE * LEAST) * static_cast<long long>(take) / left;
        const I most = share < take ? static_cast<I>(share) : take;
        const int behind = warp_min(most < take ? a.col_idx[at + most - 1] / TILE : 0x7fffffff);
        take = entry_from(a.col_idx, at, at + most, behind * TILE, I(0)) - at;
      }
      if (!whole) {
        const int through = group_scan<WARP>(static_cast<int>(take));
        start = through - static_cast<int>(take);
        n = __shfl_sync(FULL_MASK, through, WARP - 1);
      }
      __syncwarp();
      if (lane < TILE) m.shift[lane] = at - static_cast<I>(start);
      __syncwarp();
      visit(place, n, start);
      place += static_cast<I>(n);
      at += take;
      left -= n;
    }
    end(tile_row, part == 0);
  }
}

// See Rules in spmvbench/formats/tile/convert.py. te, th: squares with the sign of the threshold. hyb_rows: rows that
// have to reach a column of the ELL part of a HYB tile: all, or all but one.
struct Rules {
  int coo;
  int dns;
  double te;
  double th;
  int hyb_rows;
  int hyb_min_width;
};

// What there is to know of a tile: entries, its first in order, format | width << 3, and entries in the tail of HYB.
struct Described {
  int entries;
  int begin;
  int kind;
  int tail;
  bool inside;  // one more than there are otherwise
};

// The format and the tail of a tile that has neither few nor many entries. masks: its rows'.
__device__ __forceinline__ void choose(const Rules& rules, const unsigned* masks, Described& tile) {
  int squares = 0, longest = 0, full = 0, shortest = TILE, second = TILE;
  unsigned some = 0, every = 0xffffffffu;
#pragma unroll
  for (int j = 0; j < TILE / 2; ++j) {
    some |= masks[j];
    every &= masks[j];
#pragma unroll
    for (int shift = 0; shift < 2 * TILE; shift += TILE) {
      const int length = __popc(masks[j] >> shift & 0xffffu);
      squares += length * length;
      full += length == TILE;
      longest = length > longest ? length : longest;
      const int longer = length > shortest ? length : shortest;
      second = longer < second ? longer : second;
      shortest = length < shortest ? length : shortest;
    }
  }
  const int z = tile.entries;
  const double spread = TILE * squares - z * z, squared = z * z;
  if (full * TILE == z) {
    tile.kind = DNS_ROW | z / TILE << 3;
  } else if (((some | some >> TILE) & 0xffffu) == (every & every >> TILE & 0xffffu)) {
    tile.kind = DNS_COL | z / TILE << 3;
  } else if (spread <= rules.te * squared) {
    tile.kind = ELL | longest << 3;
  } else if (spread < rules.th * squared) {
    tile.kind = CSR;
  } else {
    const int reached = rules.hyb_rows == TILE ? shortest : second;
    const int width = reached > rules.hyb_min_width ? reached : rules.hyb_min_width;
    tile.kind = HYB | width << 3;
    for (int row = 0; row < TILE; ++row) {
      const int length = __popc(masks[row / 2] >> row % 2 * TILE & 0xffffu);
      tile.tail += length > width ? length - width : 0;
    }
  }
}

// Describes tiles `first` to `first + 31`, a lane each. ALL_CSR: no rules. MASKS: the masks of all but COO tiles are
// wanted, not only where they decide.
template <bool ALL_CSR, bool MASKS, typename I>
__device__ __forceinline__ Described describe(FoundEntries<I>& m, const Rules& rules, int first, int tiles) {
  const int lane = lane_id(), tile = first + lane < tiles ? first + lane : tiles;
  const bool inside = tile < tiles;
  const int begin = m.begin[tile], z = inside ? m.begin[tile + 1] - begin : 0;
  const bool coo = !ALL_CSR && z < rules.coo, undecided = !ALL_CSR && inside && !coo && z < rules.dns;
  Described found{z, begin, ALL_CSR ? CSR : coo ? COO : DNS, 0, inside};
  if (!__any_sync(FULL_MASK, MASKS ? inside && !coo : undecided)) return found;
  unsigned* const masks = m.masks + lane * MASK_WORDS;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < TILE / 2; ++j) masks[j] = 0;
  __syncwarp();
  m.visit(first, first + WARP < tiles ? first + WARP - 1 : tiles - 1, [&](int k, int of_tile, bool any) {
    const int place = any ? m.place[k] : 0;
    if (any) atomicOr(m.masks + of_tile * MASK_WORDS + place / (2 * TILE), 1u << place % (2 * TILE));
  });
  __syncwarp();
  if (undecided) choose(rules, masks, found);
  return found;
}

// ---- Where tiles are stored: sums of what they come to, of which each lane of a warp holds one.

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
__device__ __forceinline__ Room room_of(const Described& tile) {
  if (!tile.inside) return {-1, 0, 0, 0, 0, 0, false};
  Room room = {tile.kind & 7, tile.kind >> 3, tile.tail, tile.entries, 0, 0, true};
  const bool padded = room.fmt == ELL || room.fmt == HYB;
  if (DEFERRED) {
    room.stored = room.fmt != COO && (room.fmt != HYB || room.width > 0);
    room.entries = room.stored ? tile.entries - tile.tail : 0;
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

// Where a tile is stored: its start in the values of its format and in what off2 counts, stored tiles before it and
// their entries.
struct Start {
  long long values;
  long long index;
  long long tiles;
  long long entries;
};

// The sum over the warp, in every lane.
__device__ __forceinline__ int warp_sum(int value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return __shfl_sync(FULL_MASK, group_sum<WARP>(value), 0);
#else
  return __reduce_add_sync(FULL_MASK, value);
#endif
}

// Adds a tile of each lane. entries: all of them. sum: lane s holds sum number s. Two sums are in one: 32 tiles have at
// most 32 x 256 of anything.
__device__ __forceinline__ void add_rooms(const Room& room, int entries, int& sum) {
  const int lane = lane_id();
  for (int f = 0; f < FORMATS; ++f) {
    const bool member = room.fmt == f;
    const unsigned members = __ballot_sync(FULL_MASK, member);
    if (!members) continue;
    const int room_of_all = warp_sum(member ? room.values << 16 | room.index : 0);
    const int entries_of_all = warp_sum(member ? entries : 0);
    if (lane == VALUES + f) sum += room_of_all >> 16;
    if (lane == INDEX + f) sum += room_of_all & 0xffff;
    if (lane == ENTRIES + f) sum += entries_of_all;
    if (lane == TILES + f) sum += __popc(members);
  }
  const int stored = warp_sum(room.stored ? room.entries << 16 | 1 : 0);
  if (lane == STORED_TILES) sum += stored & 0xffff;
  if (lane == STORED_ENTRIES) sum += stored >> 16;
}

// Where a tile of each lane is stored. sum: lane s holds sum number s of what comes before, then of these too, but of
// what is stored alone.
__device__ __forceinline__ Start start_of(const Room& room, long long& sum) {
  const int lane = lane_id();
  Start start{};
  for (int f = 0; f < FORMATS; ++f) {
    const bool member = room.fmt == f;
    if (!__any_sync(FULL_MASK, member)) continue;
    const int through = group_scan<WARP>(member ? room.values << 16 | room.index : 0);
    const long long values = __shfl_sync(FULL_MASK, sum, VALUES + f);
    const long long index = __shfl_sync(FULL_MASK, sum, INDEX + f);
    if (member) {
      start.values = values + (through >> 16) - room.values;
      start.index = index + (through & 0xffff) - room.index;
    }
    const int all = __shfl_sync(FULL_MASK, through, WARP - 1);
    if (lane == VALUES + f) sum += all >> 16;
    if (lane == INDEX + f) sum += all & 0xffff;
  }
  const int stored = group_scan<WARP>(room.stored ? room.entries << 16 | 1 : 0);
  start.tiles = __shfl_sync(FULL_MASK, sum, STORED_TILES) + (stored & 0xffff) - room.stored;
  start.entries = __shfl_sync(FULL_MASK, sum, STORED_ENTRIES) + (stored >> 16) - room.entries;
  const int all = __shfl_sync(FULL_MASK, stored, WARP - 1);
  if (lane == STORED_TILES) sum += all & 0xffff;
  if (lane == STORED_ENTRIES) sum += all >> 16;
  return start;
}

// What kernels note, zero before: what is before each kind of sum, and all of them; tiles and entries that are stored;
// the notes of the sum of chunks and of that of rooms; stored tiles of each tile row.
struct Notes {
  unsigned long long* words;
  int chunk_blocks;
  int room_blocks;

  __device__ __forceinline__ unsigned long long* ends() const { return words; }
  __device__ __forceinline__ unsigned long long* stored() const { return words + SUMS + 1; }
  __device__ __forceinline__ unsigned long long* of_chunks() const { return stored() + 2; }
  __device__ __forceinline__ unsigned long long* of_rooms() const { return of_chunks() + OFFSETS_NOTES + chunk_blocks; }
  __device__ __forceinline__ int* tiles() const {
    return reinterpret_cast<int*>(of_rooms() + OFFSETS_NOTES + room_blocks);
  }
};

// A warp takes a group of segments. sums, (SUMS x groups,): of each group, one kind of sum after the other. order: words
// of all entries.
template <typename Key, typename I, bool ALL_CSR, bool DEFERRED>
__global__ void __launch_bounds__(CONVERT_BLOCK, CONVERT_TOGETHER)
    count_room(const TileRows<I> a, int groups, const Rules rules, long long* __restrict__ sums,
               unsigned short* __restrict__ order, const Notes notes) {
  __shared__ FoundEntries<I> of_warp[CONVERT_BLOCK / WARP];
  __shared__ Byte places_of_warp[CONVERT_BLOCK / WARP][SORTED];
  const long long group = global_thread() / WARP;
  if (group >= groups) return;  // the whole warp
  FoundEntries<I>& m = of_warp[threadIdx.x / WARP];
  Byte* const places = places_of_warp[threadIdx.x / WARP];
  int sum = 0, before = 0;
  visit_segments(
      m, a, group,
      [&](I place, int n, int start) {
        const int tiles = n <= 4 * WARP   ? sort_entries<4, Key>(m, places, n, start, a.col_idx)
                          : n <= 8 * WARP ? sort_entries<8, Key>(m, places, n, start, a.col_idx)
                                          : sort_entries<SORTED / WARP, Key>(m, places, n, start, a.col_idx);
        for (int k = lane_id(); k < n; k += WARP) {
          const unsigned word = m.word[k];
          const Byte in_tile = places[word & (SORTED - 1)];
          m.place[k] = in_tile;
          order[place + k] = static_cast<unsigned short>(word | in_tile / TILE << NUMBER_BITS);
        }
        __syncwarp();
        for (int first = 0; first < tiles; first += WARP) {
          const Described tile = describe<ALL_CSR, false>(m, rules, first, tiles);
          add_rooms(room_of<DEFERRED>(tile), tile.entries, sum);
        }
      },
      [&](int tile_row, bool) {
        if (lane_id() == STORED_TILES && sum > before) atomicAdd(notes.tiles() + tile_row, sum - before);
        before = sum;
      });
  if (lane_id() < SUMS) sums[static_cast<long long>(lane_id()) * groups + group] = sum;
  if (lane_id() < SUMS && lane_id() >= STORED_ENTRIES && sum) {
    atomicAdd(notes.stored() + (lane_id() - STORED_ENTRIES), static_cast<unsigned long long>(sum));
  }
}

// ---- Chunks: see chunks_of in spmvbench/formats/tile/tile.py.

// Most tiles of a chunk: low to high, by the tiles for each of `share` warps.
struct Balance {
  int low;
  int high;
  int share;

  __device__ __forceinline__ int of(int tiles) const {
    const int each = tiles / share, least = each > low ? each : low;
    return least < high ? least : high;
  }
};

__device__ __forceinline__ int chunks_of(int tiles, int balance, int least) {
  const int chunks = (tiles + balance - 1) / balance;
  return chunks > least ? chunks : least;
}

constexpr int CHUNK_BITS = 31;  // of a sum of chunks; those of tiles are above

// tile_ptr, and where the chunks of each tile row begin, by the first blocks; the first note: tile rows of several
// chunks; the second: all tiles << CHUNK_BITS | chunks. By the other blocks sums, (SUMS x groups,), become what is before
// each.
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    sum_room(int tile_rows, int groups, long long nnz, const Balance balance, int* __restrict__ tile_ptr,
             int* __restrict__ first_chunk, long long* sums, const Notes notes) {
  if (blockIdx.x >= notes.chunk_blocks) {
    const long long n = static_cast<long long>(SUMS) * groups;
    const auto count = [=](long long at) { return at < n ? sums[at] : 0ll; };
    sum_before<OFFSETS_EACH>(n, notes.of_rooms(), count, [=](long long at, long long before, long long number) {
      const unsigned place = static_cast<unsigned>(at), kind = place / static_cast<unsigned>(groups);
      sums[at] = before;
      if (place == kind * groups) notes.ends()[kind] = static_cast<unsigned long long>(before);
      if (at == n - 1) notes.ends()[SUMS] = static_cast<unsigned long long>(before + number);
    });
    return;
  }
  const int most = balance.of(static_cast<int>(notes.stored()[1]));
  const int least = static_cast<long long>(notes.stored()[0]) == nnz;
  const int* const stored = notes.tiles();
  unsigned long long* const state = notes.of_chunks();
  int several = 0;
  const auto count = [&](long long at) {
    if (at >= tile_rows) return 0ll;
    const int chunks = chunks_of(stored[at], most, least);
    several += chunks > 1;
    return static_cast<long long>(stored[at]) << CHUNK_BITS | chunks;
  };
  sum_before<OFFSETS_EACH>(tile_rows, state, count, [&](long long at, long long before, long long number) {
    tile_ptr[at] = static_cast<int>(before >> CHUNK_BITS);
    first_chunk[at] = static_cast<int>(before & ((1ll << CHUNK_BITS) - 1));
    if (at < tile_rows - 1) return;
    tile_ptr[tile_rows] = static_cast<int>((before + number) >> CHUNK_BITS);
    state[1] = static_cast<unsigned long long>(before + number);
  });
  several = group_sum<WARP>(several);
  if (lane_id() == 0 && several) atomicAdd(state, static_cast<unsigned long long>(several));
}

// The chunks of all tile rows, to be written.
struct Chunks {
  int balance;
  int least;
  const int* __restrict__ tile_ptr;
  const int* __restrict__ first_chunk;
  int* __restrict__ chunk_ptr;
  int* __restrict__ chunk_row;

  __device__ __forceinline__ void cut(int tile_row, bool last) const {
    const int begin = tile_ptr[tile_row], end = tile_ptr[tile_row + 1], first = first_chunk[tile_row];
    const int chunks = chunks_of(end - begin, balance, least), each = chunks ? (end - begin + chunks - 1) / chunks : 0;
    for (int c = lane_id(); c < chunks; c += WARP) {
      chunk_ptr[first + c] = begin + c * each;
      chunk_row[first + c] = tile_row | (chunks > 1 ? 1u << 31 : 0u);
    }
    if (last && lane_id() == 0) chunk_ptr[first + chunks] = end;
  }
};

// ---- Packing.

// The first level, and the arrays of the formats, to be written.
template <typename V, typename O>
struct Packed {
  int* tile_col;
  Byte* fmt;
  Byte* tail;
  O* tile_nnz;
  O* off1;
  O* off2;
  V* csr_val;
  Byte* csr_col;  // zero before: neighbours write to the same word
  Byte* csr_row_ptr;
  V* coo_val;
  Byte* coo_idx;
  V* ell_val;
  Byte* ell_col;
  V* hyb_val;
  Byte* hyb_idx;
  V* dns_val;
  V* dns_row_val;
  Byte* row_id;
  V* dns_col_val;
  Byte* col_id;
};

// What a row, half a warp's lane, writes of a tile that is neither CSR nor COO. columns, next: of the row and of the
// one behind, a bit each. values: of the tile.
template <typename V, typename O>
__device__ __forceinline__ void pack_tile(int kind, O first, O index, unsigned columns, unsigned next, bool inside,
                                          bool deferred, const V* values, const Packed<V, O>& to) {
  const int row = lane_id() % TILE;
  const int width = kind >> 3, length = __popc(columns);
  const int in_head = (kind & 7) == HYB && length > width ? width : length;
  const int in_tail = length - in_head;
  const int through = group_scan<TILE>(in_head << 16 | in_tail);
  if (!inside) return;
  const int heads_before = (through >> 16) - in_head;
  const int tails_before = (through & 0xffff) - in_tail;
  const V* const value = values + heads_before + tails_before;

  const auto take = [](unsigned& of) {  // the first of the columns, 0 if there is none
    const int column = of ? __ffs(static_cast<int>(of)) - 1 : 0;
    of &= of - 1;
    return column;
  };
  // Sixteen slots per column, padded with zeros; every other row writes the columns of two.
  const auto pack_columns = [&](V* slots, Byte* packed) {
    for (int j = 0; j < width; ++j) {
      slots[j * TILE + row] = j < in_head ? value[j] : V(0);
      if (!packed) continue;
      const int both = take(columns) << 4 | take(next);
      if (row % 2 == 0) packed[j * (TILE / 2) + row / 2] = static_cast<Byte>(both);
    }
  };
  switch (kind & 7) {
    case ELL:
      pack_columns(to.ell_val + first, to.ell_col + first / 2);
      break;
    case HYB:
      pack_columns(to.hyb_val + first, to.hyb_idx + index);
      for (int j = 0; j < in_tail && !deferred; ++j) {
        const int slot = tails_before + j;
        to.hyb_val[first + TILE * width + slot] = value[in_head + j];
        to.hyb_idx[index + TILE / 2 * width + slot] = static_cast<Byte>(row << 4 | take(columns));
      }
      break;
    case DNS:
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
      for (int j = 0; row == 0 && j < width; ++j) to.col_id[index + j] = static_cast<Byte>(take(columns));
      break;
  }
}

// Half bytes, the first of two in the high half, in words of eight; of each lane whether it has one, its place and the
// half byte. Neighbours in a word are written at once.
template <typename O>
__device__ __forceinline__ void put_halves(Byte* packed, bool has, O place, int half) {
  const int lane = lane_id(), at = has ? static_cast<int>(place / 8) : -1;
  unsigned word = has ? static_cast<unsigned>(half) << 4 * ((place & 7) ^ 1) : 0;
#pragma unroll
  for (int step = 1; step < 8; step *= 2) {
    const int at_behind = __shfl_down_sync(FULL_MASK, at, step);
    const unsigned behind = __shfl_down_sync(FULL_MASK, word, step);
    if (lane + step < WARP && at_behind == at) word |= behind;
  }
  const int left = __shfl_up_sync(FULL_MASK, at, 1);
  if (has && (lane == 0 || left != at)) atomicOr(reinterpret_cast<unsigned*>(packed) + place / 8, word);
}

// Entries to be packed.
template <typename V, typename I>
struct PackedEntries : FoundEntries<I> {
  V value[SORTED];
  unsigned apart[SORTED / WARP];  // of numbers: which are computed separately

  // Loads n entries and returns how many tiles they have. order: their words.
  __device__ __forceinline__ int load(int n, const unsigned short* __restrict__ order, const int* __restrict__ col_idx,
                                      const V* __restrict__ values) {
    constexpr int EACH = 4;
    const int lane = lane_id();
    int tiles = 0;
    for (int from = lane; from - lane < n; from += EACH * WARP) {
      unsigned found[EACH];
      int column[EACH];
      V loaded[EACH];
#pragma unroll
      for (int u = 0; u < EACH; ++u) found[u] = from + u * WARP < n ? order[from + u * WARP] : 0;
#pragma unroll
      for (int u = 0; u < EACH; ++u) {
        const I entry = this->shift[found[u] >> NUMBER_BITS & 0xf] + static_cast<I>(found[u] & (SORTED - 1));
        const bool any = from + u * WARP < n;
        column[u] = any ? col_idx[entry] : 0;
        loaded[u] = any ? values[entry] : V(0);
      }
#pragma unroll
      for (int u = 0; u < EACH; ++u) {
        const int k = from + u * WARP;
        const unsigned begins = __ballot_sync(FULL_MASK, found[u] & BEGINS);
        if (k < n) {
          if (found[u] & BEGINS) {
            this->begin[tiles + __popc(begins & ((1u << lane) - 1))] = static_cast<unsigned short>(k);
          }
          this->word[k] = static_cast<unsigned short>(found[u]);
          this->place[k] = static_cast<Byte>((found[u] >> NUMBER_BITS & 0xf) << 4 | column[u] % TILE);
          value[k] = loaded[u];
        }
        tiles += __popc(begins);
      }
    }
    if (lane == 0) this->begin[tiles] = static_cast<unsigned short>(n);
    if (lane < SORTED / WARP) apart[lane] = 0;
    __syncwarp();
    return tiles;
  }

  // Marks those that are computed separately, neighbours in a word at once. bits: a bit for each entry.
  __device__ __forceinline__ void mark(int n, int start, unsigned* __restrict__ bits) const {
    const int lane = lane_id();
    for (int from = 0; from < n; from += WARP) {
      const unsigned marks = apart[from / WARP];
      const int row = row_of(start, from + lane);
      const bool inside = from + lane < n;
      const long long entry = inside ? static_cast<long long>(this->shift[row] + (from + lane)) : 0;
      const long long left = __shfl_up_sync(FULL_MASK, entry, 1);
      const bool leads = !inside || lane == 0 || entry % WARP == 0 || entry != left + 1;
      const unsigned behind = __ballot_sync(FULL_MASK, leads) & ~(FULL_MASK >> (WARP - 1 - lane));
      const int length = (behind ? __ffs(static_cast<int>(behind)) - 1 : WARP) - lane;
      const unsigned mine = marks >> lane & (FULL_MASK >> (WARP - length));
      if (inside && leads && mine) atomicOr(bits + entry / WARP, mine << (entry % WARP));
    }
  }
};

// sums: of `sum_room`. order: of `count_room`. apart, zero before: a bit for each entry that is computed separately.
template <typename V, typename I, typename O, bool ALL_CSR, bool DEFERRED>
__global__ void __launch_bounds__(CONVERT_BLOCK, CONVERT_TOGETHER)
    pack_tiles(const TileRows<I> a, int groups, const Rules rules, const V* __restrict__ values,
               const long long* __restrict__ sums, const unsigned short* __restrict__ order, const Chunks chunks,
               const Packed<V, O> to, unsigned* __restrict__ apart) {
  __shared__ PackedEntries<V, I> of_warp[CONVERT_BLOCK / WARP];
  const long long group = global_thread() / WARP;
  if (group >= groups) return;  // the whole warp
  PackedEntries<V, I>& m = of_warp[threadIdx.x / WARP];
  const int lane = lane_id();
  long long sum = 0;
  if (lane < SUMS) {
    const long long* of_kind = sums + static_cast<long long>(lane) * groups;
    sum = of_kind[group] - of_kind[0];
  }
  const auto pack = [&](int first, int tiles) {
    const Described tile = describe<ALL_CSR, true>(m, rules, first, tiles);
    const Room room = room_of<DEFERRED>(tile);
    const Start start = start_of(room, sum);
    if (room.stored) {
      const unsigned word = m.word[tile.begin];
      const I entry = m.shift[word >> NUMBER_BITS & 0xf] + static_cast<I>(word & (SORTED - 1));
      to.tile_col[start.tiles] = a.col_idx[entry] / TILE;
      to.fmt[start.tiles] = static_cast<Byte>(tile.kind);
      to.tail[start.tiles] = static_cast<Byte>(room.tail);
      to.tile_nnz[start.tiles] = static_cast<O>(start.entries);
      to.off1[start.tiles] = static_cast<O>(start.values);
      to.off2[start.tiles] = static_cast<O>(start.index);
    }
    const O values_begin = static_cast<O>(start.values), index_begin = static_cast<O>(start.index);
    const bool csr = __any_sync(FULL_MASK, room.fmt == CSR);
    if (csr || __any_sync(FULL_MASK, room.fmt == COO || (DEFERRED && room.fmt == HYB))) {
      m.visit(first, first + WARP < tiles ? first + WARP - 1 : tiles - 1, [&](int k, int of_tile, bool any) {
        const int kind = __shfl_sync(FULL_MASK, tile.kind, of_tile), fmt = any ? kind & 7 : -1;
        const O slot = __shfl_sync(FULL_MASK, static_cast<O>(values_begin - tile.begin), of_tile) + k;
        const int place = any ? m.place[k] : 0;
        if (fmt == CSR) {
          to.csr_val[slot] = m.value[k];
        } else if (fmt == COO && !DEFERRED) {
          to.coo_val[slot] = m.value[k];
          to.coo_idx[slot] = static_cast<Byte>(place);
        } else if (DEFERRED && (fmt == COO || fmt == HYB)) {
          const unsigned before = fmt == HYB ? m.columns(of_tile, place / TILE) & ((1u << place % TILE) - 1) : 0;
          const int number = m.word[k] & (SORTED - 1);
          if (fmt == COO || __popc(before) >= kind >> 3) atomicOr(m.apart + number / WARP, 1u << number % WARP);
        }
        if (csr) put_halves(to.csr_col, fmt == CSR, slot, place % TILE);
      });
    }
    if (room.fmt == CSR) {  // how many entries are before each row, a byte each
      unsigned words[TILE / 4];
      int before = 0;
#pragma unroll
      for (int row = 0; row < TILE; ++row) {
        words[row / 4] = (row % 4 ? words[row / 4] : 0) | static_cast<unsigned>(before) << row % 4 * 8;
        before += __popc(m.columns(lane, row));
      }
      *reinterpret_cast<uint4*>(to.csr_row_ptr + start.index) = uint4{words[0], words[1], words[2], words[3]};
    }
    for (unsigned listed = __ballot_sync(FULL_MASK, room.stored && room.fmt > COO); listed;) {
      const int one = __ffs(static_cast<int>(listed)) - 1;
      listed &= listed - 1;
      const int two = listed ? __ffs(static_cast<int>(listed)) - 1 : one;
      listed &= listed - 1;
      const int of_tile = lane < TILE ? one : two, begin = __shfl_sync(FULL_MASK, tile.begin, of_tile);
      pack_tile(__shfl_sync(FULL_MASK, tile.kind, of_tile), __shfl_sync(FULL_MASK, values_begin, of_tile),
                __shfl_sync(FULL_MASK, index_begin, of_tile), m.columns(of_tile, lane % TILE),
                m.columns(of_tile, (lane + 1) % TILE), lane < TILE || two > one, DEFERRED, m.value + begin, to);
    }
  };
  visit_segments(
      m, a, group,
      [&](I place, int n, int start) {
        const int tiles = m.load(n, order + place, a.col_idx, values);
        for (int first = 0; first < tiles; first += WARP) pack(first, tiles);
        __syncwarp();
        if (DEFERRED) m.mark(n, start, apart);
      },
      [&](int tile_row, bool head) {
        if (head) chunks.cut(tile_row, tile_row == a.tile_rows - 1);
      });
  if (group == groups - 1) {
    const O entries = static_cast<O>(__shfl_sync(FULL_MASK, sum, STORED_ENTRIES));
    if (lane == STORED_TILES) to.tile_nnz[sum] = entries;
    if (lane == VALUES + CSR && sum % 2) to.csr_val[sum] = V(0);  // pairs are loaded
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
