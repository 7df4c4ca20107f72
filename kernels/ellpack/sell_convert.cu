// CSR to sliced ELLPACK on the device: what spmvbench/formats/ellpack/sell_convert.py computes by arrays on the host.
#include "largest.cuh"
#include "offsets.cuh"
#include "search.cuh"
#include "sell.cuh"
#include "side_by_side.cuh"

constexpr int CONVERT_BLOCK = 256;
constexpr int MAX_COLUMN = 0x7fffffff;
constexpr int FILL_TOGETHER = 4;  // slots of a thread, at least, whose entries are read before the first is written

template <typename V, typename I>
struct CsrArrays {
  const I* __restrict__ row_ptr;
  const int* __restrict__ col_idx;
  const V* __restrict__ values;
};

// The rows after the places of sliced ELLPACK: all as they are, or `perm`.
template <bool SORTED>
struct Places {
  int rows;
  const int* __restrict__ perm;

  __device__ __forceinline__ int row(int place) const { return SORTED ? perm[place] : place; }

  template <typename I>
  __device__ __forceinline__ int length(const I* __restrict__ row_ptr, long long place) const {
    if (place >= rows) return 0;
    const int from = row(static_cast<int>(place));
    return static_cast<int>(row_ptr[from + 1] - row_ptr[from]);
  }
};

// Where the slots of each slice of `height` rows begin, `across` at each position, of a row `upto` at most. The first note:
// the longest row. LENGTHS: of each place, too.
template <typename I, bool SORTED, bool LENGTHS, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    sell_slots(int rows, int slices, int height, int align, int upto, int across, const I* __restrict__ row_ptr,
               const int* __restrict__ perm, int* __restrict__ lengths, int share, P* __restrict__ ptr,
               unsigned long long* __restrict__ state) {
  const Places<SORTED> places{rows, perm};
  int longest = 0;
  const auto count = [&](long long at) {
    const long long first = at - lane_id();
    int widest = 0;
#pragma unroll 8
    for (int s = 0; s < share; ++s) {
      int width = 0;
      for (int r = lane_id(); r < height; r += WARP) {
        const long long place = (first + s) * height + r;
        const int length = places.length(row_ptr, place);
        if (LENGTHS && place < rows) lengths[place] = length;
        width = width < length ? length : width;
      }
      width = warp_max(width);
      longest = longest < width ? width : longest;
      if (s == lane_id()) widest = width;
    }
    return static_cast<long long>((min(widest, upto) + align - 1) / align * align) * across;
  };
  write_offsets<1>(slices, ptr, state, count, share);
  if (lane_id() == 0) note_most(state, longest);
}

// Fills the slots of `here` rows from place `first` on, `lanes` slots of each side by side in every step; the steps
// from `from` to `to`, `stride` slots apart, the first of all at `slot`. Neighbouring threads fill neighbouring slots.
// here * lanes is a power of two and at most the block, which is one too. Rows hold `limit` entries at most. store(slot, position,
// column, value); column -1 is padding.
template <typename V, typename I, bool SORTED, typename Store>
__device__ __forceinline__ void fill(const CsrArrays<V, I>& a, const Places<SORTED>& places, int limit, long long first,
                                     int here, int lanes, long long slot, long long stride, int from, int to,
                                     Store store) {
  const int across = here * lanes;
  const int j = threadIdx.x % across;
  const long long place = first + j / lanes;
  int length = places.length(a.row_ptr, place);
  length = length < limit ? length : limit;
  const I begin = length ? a.row_ptr[places.row(static_cast<int>(place))] : 0;
  const int apart = static_cast<int>(blockDim.x) / across;
  for (int step = from + static_cast<int>(threadIdx.x) / across; step < to; step += FILL_TOGETHER * apart) {
    int column[FILL_TOGETHER];
    V value[FILL_TOGETHER];
#pragma unroll
    for (int u = 0; u < FILL_TOGETHER; ++u) {
      const int position = (step + u * apart) * lanes + j % lanes;
      const bool entry = position < length;
      // Through L1: threads of a row's other positions read the same sectors.
      column[u] = entry ? a.col_idx[begin + position] : -1;
      value[u] = entry ? a.values[begin + position] : V(0);
    }
#pragma unroll
    for (int u = 0; u < FILL_TOGETHER; ++u) {
      const int at = step + u * apart;
      if (at < to) store(slot + at * stride + j, at * lanes + j % lanes, column[u], value[u]);
    }
  }
}

// What a block fills of a slice: the first blocks the first PART slots of one slice each, and those after them PART
// slots each of all slots, as far as they are of a slice that has more.
constexpr int PART = 32 * CONVERT_BLOCK;

template <typename P>
struct SlicePart {
  long long slice, slot, slots;  // slot: the first of the slice; slots: of the slice
  long long begin, end;          // of the part, from the slice's first slot on

  // unit: slots that `slice_ptr` counts by.
  __device__ __forceinline__ SlicePart(int slices, const P* __restrict__ slice_ptr, int unit = 1) : slice(blockIdx.x) {
    const long long from = (slice - slices) * PART;
    const bool more = from >= 0;
    if (more) slice = first_behind(slice_ptr, 0, slices + 1, static_cast<P>(from / unit)) - 1;
    slot = slice < slices ? static_cast<long long>(slice_ptr[slice]) * unit : from;  // beyond the last slot is none
    slots = slice < slices ? static_cast<long long>(slice_ptr[slice + 1]) * unit - slot : 0;
    begin = !more ? 0 : from - slot < PART ? PART : from - slot;
    end = more ? from + PART - slot : PART;
    end = end < slots ? end : slots;
  }

  // Steps of `across` slots, for a power of two that divides PART, with all of the slice in one part.
  __device__ __forceinline__ int from(int across) const { return static_cast<int>((begin + across - 1) / across); }
  __device__ __forceinline__ int to(int across) const { return static_cast<int>((end + across - 1) / across); }
};

// Slices of `height` rows: a block for each part. unit: slots that `slice_ptr` counts by.
template <typename V, typename I, typename P, bool SORTED>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    sell_fill(int rows, int slices, int height, int lanes, int unit, const P* __restrict__ slice_ptr,
              const int* __restrict__ perm, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
              const V* __restrict__ values, int* __restrict__ columns, V* __restrict__ slot_values) {
  const SlicePart<P> part(slices, slice_ptr, unit);
  const int across = height * lanes;
  const int width = static_cast<int>(part.slots / height);
  fill(CsrArrays<V, I>{row_ptr, col_idx, values}, Places<SORTED>{rows, perm}, width, part.slice * height, height, lanes,
       part.slot, across, part.from(across), part.to(across), [=](long long at, int, int column, V value) {
         columns[at] = column;
         slot_values[at] = value;
       });
}

// All rows as one slice of `pitch` rows, a multiple of 32, and `width` positions; a row's entries beyond are left out. A
// block takes 32 / lanes rows: what they read again for other positions stays in L1.
template <typename V, typename I, bool SORTED>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    ell_fill(int rows, int pitch, int width, int lanes, const int* __restrict__ perm, const I* __restrict__ row_ptr,
             const int* __restrict__ col_idx, const V* __restrict__ values, int* __restrict__ columns,
             V* __restrict__ slot_values) {
  const int here = WARP / lanes;
  const long long first = static_cast<long long>(blockIdx.x) * here;
  const long long stride = static_cast<long long>(pitch) * lanes;
  fill(CsrArrays<V, I>{row_ptr, col_idx, values}, Places<SORTED>{rows, perm}, width, first, here, lanes, first * lanes,
       stride, 0, (width + lanes - 1) / lanes, [=](long long at, int, int column, V value) {
         columns[at] = column;
         slot_values[at] = value;
       });
}

// Slices of rows first_row[s] to first_row[s + 1]: a block for each part.
template <typename V, typename I, typename P>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    sell_var_fill(int rows, int slices, const int* __restrict__ first_row, const P* __restrict__ slice_ptr,
                  const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const V* __restrict__ values,
                  int* __restrict__ columns, V* __restrict__ slot_values) {
  const SlicePart<P> part(slices, slice_ptr);
  if (part.begin >= part.end) return;
  const int first = first_row[part.slice];
  const int height = first_row[part.slice + 1] - first;
  const int width = static_cast<int>(part.slots / height);
  fill(CsrArrays<V, I>{row_ptr, col_idx, values}, Places<false>{rows, nullptr}, width, first, height, 1, part.slot,
       height, part.from(height), part.to(height), [=](long long at, int, int column, V value) {
         columns[at] = column;
         slot_values[at] = value;
       });
}

// Where slices of 32, 64, 128 or 256 rows begin: a warp for each 256 rows merges pairs of slices where their slots and
// the price of one are no more than those of the halves. height and slots, for each 32 rows: of the slice that begins
// there, or 0.
template <typename I>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    sell_var_cuts(int rows, int blocks, long long price, const I* __restrict__ row_ptr, int* __restrict__ height,
                  long long* __restrict__ slots) {
  constexpr int GROUPS = CONVERT_BLOCK / WARP;
  const long long block = global_thread() / WARP;
  if (block >= blocks) return;  // the whole warp
  const Places<false> places{rows, nullptr};
  int width[GROUPS];
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    width[g] = warp_max(places.length(row_ptr, block * CONVERT_BLOCK + g * WARP + lane_id()));
  }
  if (lane_id() != 0) return;
  int tall[GROUPS];
  long long size[GROUPS], cost[GROUPS];
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    tall[g] = WARP;
    size[g] = static_cast<long long>(width[g]) * WARP;
    const bool begins = block * CONVERT_BLOCK + g * WARP < rows;  // what is after the last row is no slice
    cost[g] = size[g] + (begins ? price : 0);
  }
#pragma unroll
  for (int half = 1; half < GROUPS; half *= 2) {
#pragma unroll
    for (int g = 0; g < GROUPS; g += 2 * half) {
      width[g] = width[g] < width[g + half] ? width[g + half] : width[g];
      const long long merged = static_cast<long long>(width[g]) * (2 * half * WARP);
      cost[g] += cost[g + half];
      if (merged + price > cost[g]) continue;
      cost[g] = merged + price;
      for (int part = g; part < g + 2 * half; ++part) tall[part] = size[part] = 0;
      tall[g] = 2 * half * WARP;
      size[g] = merged;
    }
  }
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    height[block * GROUPS + g] = tall[g];
    slots[block * GROUPS + g] = size[g];
  }
}

// As `sell_slots`, for slices of 32 rows, and the base columns of each, cut into one piece, two, or (PIECES = 0) both ways.
// Where a piece's columns spread too far for 16 bits, its base is -1. units: of 32 half words that the columns of a slice
// take. The second and third note: positions in 32 bits, of one piece and of two.
template <typename I, int PIECES, bool SORTED, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    sell_local_slots(int rows, int slices, const int* __restrict__ perm, const I* __restrict__ row_ptr,
                     const int* __restrict__ col_idx, int* __restrict__ bases_of_one, int* __restrict__ units_of_one,
                     int* __restrict__ bases_of_two, int* __restrict__ units_of_two, int share, P* __restrict__ ptr,
                     unsigned long long* __restrict__ state) {
  const Places<SORTED> places{rows, perm};
  int longest = 0;
  long long wide_of_one = 0, wide_of_two = 0;
  const auto count = [&](long long at) {
    int own = 0;
#pragma unroll 4
    for (int s = 0; s < share; ++s) {
      const long long slice = at - lane_id() + s, place = slice * WARP + lane_id();
      const int length = places.length(row_ptr, place);
      const I begin = length ? row_ptr[places.row(static_cast<int>(place))] : 0;
      const int width = warp_max(length);
      const auto cut = [&](int pieces, int* bases, int* units) {
        const int half = (width + pieces - 1) / pieces;
        int wide = 0;
        for (int p = 0; p < pieces; ++p) {
          const int from = p * half;
          const int to = length < from + half ? length : from + half;
          const int lowest = warp_min(from < to ? col_idx[begin + from] : MAX_COLUMN);
          const int highest = warp_max(from < to ? col_idx[begin + to - 1] : -1);
          const bool spread = highest - lowest >= LOCAL_PADDING;
          if (spread) wide += (width < from + half ? width : from + half) - from;
          if (lane_id() == 0 && slice < slices) bases[slice * pieces + p] = spread ? -1 : highest < 0 ? 0 : lowest;
        }
        if (lane_id() == 0 && slice < slices) units[slice] = width + wide;
        return static_cast<long long>(wide);
      };
      if (PIECES != 2) wide_of_one += cut(1, bases_of_one, units_of_one);
      if (PIECES != 1) wide_of_two += cut(2, bases_of_two, units_of_two);
      longest = longest < width ? width : longest;
      if (s == lane_id()) own = width;
    }
    return static_cast<long long>(own) * WARP;
  };
  write_offsets<1>(slices, ptr, state, count, share);
  if (lane_id() == 0) note_most(state, longest);
  add_once(state + 1, lane_id() == 0 ? wide_of_one : 0);
  add_once(state + 2, lane_id() == 0 ? wide_of_two : 0);
}

// Slices of 32 rows, cut into `pieces`: a block for each part; where its columns go: see sell_local.cu.
template <typename V, typename I, typename P, bool SORTED>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    sell_local_fill(int rows, int slices, int pieces, bool any_wide, const P* __restrict__ slice_ptr,
                    const int* __restrict__ bases, const P* __restrict__ column_ptr, const int* __restrict__ perm,
                    const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const V* __restrict__ values,
                    unsigned short* __restrict__ columns, V* __restrict__ slot_values) {
  const SlicePart<P> part(slices, slice_ptr);
  if (part.begin >= part.end) return;
  const long long slice = part.slice;
  const int width = static_cast<int>(part.slots / WARP);
  const int half = (width + pieces - 1) / pieces;
  const long long first_unit = any_wide ? static_cast<long long>(column_ptr[slice]) : part.slot / WARP;
  const long long second_unit = first_unit + (bases[slice * pieces] < 0 ? 2 * half : half);
  fill(CsrArrays<V, I>{row_ptr, col_idx, values}, Places<SORTED>{rows, perm}, width, slice * WARP, WARP, 1, part.slot,
       WARP, part.from(WARP), part.to(WARP), [=](long long at, int position, int column, V value) {
         const int piece = position >= half ? 1 : 0;
         const int base = bases[slice * pieces + piece];
         unsigned short* unit = columns + (piece ? second_unit : first_unit) * WARP;
         const int inside = (position - piece * half) * WARP + lane_id();
         slot_values[at] = value;
         if (base < 0) {
           reinterpret_cast<int*>(unit)[inside] = column;
         } else {
           unit[inside] = static_cast<unsigned short>(column < 0 ? LOCAL_PADDING : column - base);
         }
       });
}

// How the warps of `ell-warp-k2` take a group of 32 places, whose first row is the longest: no thread has more than
// `threshold` slots unless 32 threads per row are too few for that.
struct Group {
  int lanes;  // threads per row
  int width;  // slots of a thread
  int warps;

  template <typename I>
  __device__ __forceinline__ Group(long long group, int places, int threshold, const I* __restrict__ row_ptr,
                                   const int* __restrict__ perm) {
    const int row = perm[group * WARP];
    const int longest = static_cast<int>(row_ptr[row + 1] - row_ptr[row]);
    const int least = (longest + WARP - 1) / WARP;
    const int most = threshold > least ? threshold : least;
    for (lanes = 1; lanes * most < longest; lanes *= 2) {
    }
    width = (longest + lanes - 1) / lanes;
    const long long left = places - group * WARP;
    warps = static_cast<int>(((left < WARP ? left : WARP) * lanes + WARP - 1) / WARP);
  }
};

// Of each warp the place of its first row, the threads per row and the offset of its slots. The total: 2^WARPS_SHIFT times
// the warps, and the slots.
constexpr int WARPS_SHIFT = 35;
constexpr int WARPS_EACH = 1;  // groups of a thread

template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    warps_cut(int places, int groups, int threshold, const I* __restrict__ row_ptr, const int* __restrict__ perm,
              int* __restrict__ first_place, unsigned char* __restrict__ lanes, P* __restrict__ ptr,
              unsigned long long* __restrict__ state) {
  const auto of = [=](long long group) { return Group(group, places, threshold, row_ptr, perm); };
  const auto count = [=](long long at) {
    if (at >= groups) return 0ll;
    const Group group = of(at);
    return static_cast<long long>(group.warps) << WARPS_SHIFT |
           static_cast<long long>(group.warps) * WARP * group.width;
  };
  sum_before<WARPS_EACH>(groups, state, count, [=](long long at, long long before, long long) {
    const Group group = of(at);
    long long warp = before >> WARPS_SHIFT, slot = before & ((1ll << WARPS_SHIFT) - 1);
    for (int w = 0; w < group.warps; ++w, ++warp) {
      first_place[warp] = static_cast<int>(at * WARP) + w * (WARP / group.lanes);
      lanes[warp] = static_cast<unsigned char>(group.lanes);
      ptr[warp] = static_cast<P>(slot);
      slot += static_cast<long long>(WARP) * group.width;
    }
    if (at + 1 == groups) ptr[warp] = static_cast<P>(slot);
  });
  if (groups == 0 && threadIdx.x == 0) ptr[0] = 0;
}

// The slots of the warps of `ell-warp-k2`: one warp each for the first STEPS steps, and those after them STEPS each of all
// steps, as far as they are of a warp that has more. A thread has neighbouring entries of its row, one per step. perm: the
// row of each place. lanes: threads per row.
constexpr int STEPS = 64;

template <typename V, typename I, typename P>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    warps_fill(int warps, int places, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
               const V* __restrict__ from, const int* __restrict__ perm, const P* __restrict__ warp_ptr,
               const int* __restrict__ first_place, const unsigned char* __restrict__ lanes, int* __restrict__ columns,
               V* __restrict__ values) {
  __shared__ Side<V> sides[CONVERT_BLOCK / WARP];
  long long warp = global_thread() / WARP;
  const long long part = (warp - warps) * STEPS * WARP;  // the first slot of a part that is no warp's first
  if (part >= 0) warp = first_behind(warp_ptr, 0, warps + 1, static_cast<P>(part)) - 1;
  if (warp >= warps) return;
  const long long begin = warp_ptr[warp];
  const int width = static_cast<int>((warp_ptr[warp + 1] - begin) / WARP);
  int step = 0, end = STEPS;
  if (part >= 0) {
    step = static_cast<int>((part - begin) / WARP);
    end = step + STEPS;
    step = step < STEPS ? STEPS : step;
  }
  end = end < width ? end : width;
  if (step >= end) return;
  const int here = lanes[warp];
  const int place = first_place[warp] + lane_id() / here;
  const int row = place < places ? perm[place] : -1;
  const I entry = row < 0 ? I(0) : row_ptr[row] + static_cast<I>(lane_id() % here) * width;
  const I left = row < 0 ? I(0) : row_ptr[row + 1] - entry;
  const int length = left < 0 ? 0 : left < width ? static_cast<int>(left) : width;
  const auto store = [&](int at, bool, int column, V value) {
    const long long slot = begin + static_cast<long long>(at) * WARP + lane_id();
    columns[slot] = column;
    values[slot] = value;
  };
  sides[threadIdx.x / WARP].each(entry, length, step, end, col_idx, from, store);
}
