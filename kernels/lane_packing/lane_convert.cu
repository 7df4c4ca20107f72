// CSR to tiles of lanes as AdELL has them: what spmvbench/formats/lane_packing/ computes by arrays on the host. Rows, cut
// where they are too long for a warp, are pieces, which fill tiles in their order; a warp takes a tile, a lane a piece.
#include "largest.cuh"
#include "offsets.cuh"
#include "search.cuh"
#include "side_by_side.cuh"
#include "spmv.cuh"

constexpr int LANES_BLOCK = 256;

constexpr int PIECES_SHIFT = 31;  // a number of pieces and one of lanes, both below 2^31, are summed together

// The pieces of each row, of at most `target` entries for each lane of a warp, and their offsets: of each its row, first
// entry and entries, and the lanes that those before it want, of `target` entries each, or all of a warp for those of a row
// that is cut. Notes: rows of several pieces, rows of none.
template <typename I>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    lane_pieces(int rows, int target, const I* __restrict__ row_ptr, int* __restrict__ of_row, int* __restrict__ row_of,
                I* __restrict__ begin, int* __restrict__ length, int* __restrict__ wanted,
                unsigned long long* __restrict__ state) {
  const long long most = static_cast<long long>(target) * WARP;
  int several = 0, none = 0;
  const auto count = [&](long long row) {
    if (row >= rows) return 0ll;
    const long long entries = row_ptr[row + 1] - row_ptr[row];
    const long long pieces = (entries + most - 1) / most;
    several += pieces > 1;
    none += pieces == 0;
    return pieces << PIECES_SHIFT | (pieces > 1 ? pieces * WARP : (entries + target - 1) / target);
  };
  sum_before<OFFSETS_EACH>(rows, state, count, [=](long long row, long long before, long long number) {
    const long long pieces = number >> PIECES_SHIFT;
    long long piece = before >> PIECES_SHIFT, lanes = before & ((1ll << PIECES_SHIFT) - 1);
    of_row[row] = static_cast<int>(piece);
    if (row + 1 == rows) {
      of_row[rows] = static_cast<int>(piece + pieces);
      wanted[piece + pieces] = static_cast<int>(lanes + (number & ((1ll << PIECES_SHIFT) - 1)));
    }
    if (pieces == 0) return;
    I from = row_ptr[row];
    const long long entries = row_ptr[row + 1] - from, each = entries / pieces, more = entries % pieces;
    for (int i = 0; i < pieces; ++i, ++piece, lanes += WARP) {
      const int here = static_cast<int>(each + (i < more));
      row_of[piece] = static_cast<int>(row);
      begin[piece] = from;
      length[piece] = here;
      wanted[piece] = static_cast<int>(lanes);
      from += static_cast<I>(here);
    }
  });
  several = group_sum<WARP>(several);
  none = group_sum<WARP>(none);
  if (lane_id() != 0) return;
  if (several) atomicAdd(state, static_cast<unsigned long long>(several));
  if (none) atomicAdd(state + 1, static_cast<unsigned long long>(none));
}

// The piece after the last that fits a tile with each one; n, for which there is room, where that is none. What is no piece
// has no entries. of_row, wanted: of `lane_pieces`.
__global__ void lane_following(int n, int rows, const int* __restrict__ of_row, const int* __restrict__ wanted,
                               int* __restrict__ length, int* __restrict__ following) {
  const int piece = static_cast<int>(global_thread());
  if (piece >= n) return;
  const int pieces = of_row[rows];
  if (piece >= pieces) {
    length[piece] = 0;
    following[piece] = n;
    return;
  }
  const int last = pieces - piece < WARP ? pieces : piece + WARP;  // each wants one
  const int next = first_behind(wanted, piece + 1, last + 1, wanted[piece] + WARP) - 1;
  following[piece] = next < pieces ? next : n;
}

// The pieces of a tile, one in each of the first lanes. starts: the first piece of each tile, and the end.
template <typename I>
struct TilePieces {
  const int* __restrict__ starts;
  const int* __restrict__ row_of;
  const I* __restrict__ begin;
  const int* __restrict__ length;
};

// What a lane of a tile has: entries of a row from `entry` on. Row -1: none.
template <typename I>
struct LaneShare {
  int row;
  I entry;
  int entries;
  bool ends;  // whether no lane behind has the same piece

  // steps: the most entries of a lane. Every lane of the warp arrives.
  __device__ __forceinline__ LaneShare(const TilePieces<I>& all, long long tile, int steps) {
    const int piece = all.starts[tile] + lane_id();
    const bool any = piece < all.starts[tile + 1];
    const int length = any ? all.length[piece] : 0, row_here = any ? all.row_of[piece] : -1;
    const I begin = any ? all.begin[piece] : I(0);
    const int lanes = (length + steps - 1) / steps, through = group_scan<WARP>(lanes);
    int low = 0;  // pieces whose lanes are all before this one
#pragma unroll
    for (int half = WARP / 2; half > 0; half /= 2) {
      if (__shfl_sync(FULL_MASK, through, low + half - 1) <= lane_id()) low += half;
    }
    const int last = __shfl_sync(FULL_MASK, through, low), taken = last - __shfl_sync(FULL_MASK, lanes, low);
    const int offset = (lane_id() - taken) * steps, left = __shfl_sync(FULL_MASK, length, low) - offset;
    const bool held = lane_id() < last;
    row = __shfl_sync(FULL_MASK, row_here, low);
    entry = __shfl_sync(FULL_MASK, begin, low) + static_cast<I>(offset);
    row = held ? row : -1;
    entries = !held ? 0 : left < steps ? left : steps;
    ends = held && lane_id() == last - 1;
  }
};

constexpr int STEPS_SHIFT = 32;  // a number of steps and one of 32 bytes are summed together

// The steps with which a tile's pieces fit its lanes, as few as that takes, up to `most`; offsets of its slots; the row of
// each lane, and bit l for lane l where a part of a cut row ends. PACKED: the bytes of a tile's differences of columns along
// its lanes, 1, 2 or 4, and offsets of them all. of_row, noted: of `lane_pieces`, whose notes are those of this kernel.
template <typename I, bool PACKED, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    lane_steps(int tiles, int most, const int* __restrict__ starts, const int* __restrict__ row_of,
               const I* __restrict__ begin, const int* __restrict__ length, const int* __restrict__ of_row,
               const unsigned long long* __restrict__ noted, const int* __restrict__ col_idx,
               int* __restrict__ lane_row, unsigned* __restrict__ adds, unsigned char* __restrict__ width,
               long long* __restrict__ byte_ptr, int share, P* __restrict__ ptr,
               unsigned long long* __restrict__ state) {
  const TilePieces<I> all{starts, row_of, begin, length};
  const auto count = [=](long long at) {
    long long number = 0;
    for (int s = 0; s < share; ++s) {
      const long long tile = at - lane_id() + s;
      if (tile >= tiles) break;  // the whole warp
      const int piece = starts[tile] + lane_id();
      const int here = piece < starts[tile + 1] ? length[piece] : 0;
      int low = 1, high = most;
      for (int left = most; left > 0; left /= 2) {
        const int middle = (low + high) / 2;
        const bool fits = __shfl_sync(FULL_MASK, group_sum<WARP>((here + middle - 1) / middle), 0) <= WARP;
        low = fits ? low : middle + 1 < high ? middle + 1 : high;
        high = fits ? middle : high;
      }
      const LaneShare<I> lane(all, tile, high);
      lane_row[tile * WARP + lane_id()] = lane.row;
      const bool part = lane.ends && of_row[lane.row + 1] - of_row[lane.row] > 1;
      const unsigned parts = __ballot_sync(FULL_MASK, part);
      if (lane_id() == 0) adds[tile] = parts;
      int each = 0, largest = 0;
      for (int from = 0; PACKED && from < high; from += SIDE) {
        side_by_side(lane.entry, lane.entries, from, [&](int, bool held, int, int position, I entry) {
          const int column = held ? col_idx[entry] : 0;
          const int before = column_before(col_idx, from, held, entry, column);
          const int difference = held && position ? column - before : 0;
          largest = largest < difference ? difference : largest;
        });
      }
      if (PACKED) {
        largest = warp_max(largest);
        each = largest < 256 ? 1 : largest < 65536 ? 2 : 4;
        if (lane_id() == 0) width[tile] = static_cast<unsigned char>(each);
      }
      if (s == lane_id()) {
        number = static_cast<long long>(high) << STEPS_SHIFT | static_cast<long long>(each) * (high - 1);
      }
    }
    return number;
  };
  const auto store = [=](long long at, long long sum) {
    ptr[at] = static_cast<P>((sum >> STEPS_SHIFT) * WARP);
    if (PACKED) byte_ptr[at] = (sum & ((1ll << STEPS_SHIFT) - 1)) * WARP;
  };
  sum_before<1>(
      tiles, state, count, [=](long long at, long long before, long long number) { store(at + 1, before + number); },
      share);
  if (blockIdx.x == 0 && threadIdx.x == 0) store(0, 0);
  if (blockIdx.x == 0 && threadIdx.x < 2) state[threadIdx.x] = noted[threadIdx.x];
}

// The slots: a warp for each tile. PACKED: columns are a first one for each lane, then differences of `width` bytes each
// from byte_ptr on; otherwise one a slot.
template <typename V, typename I, typename S, bool PACKED>
__global__ void __launch_bounds__(LANES_BLOCK)
    lane_fill(int tiles, const S* __restrict__ slots, const int* __restrict__ starts, const int* __restrict__ row_of,
              const I* __restrict__ begin, const int* __restrict__ length, const int* __restrict__ col_idx,
              const V* __restrict__ from, const unsigned char* __restrict__ width,
              const long long* __restrict__ byte_ptr, int* __restrict__ columns, unsigned char* __restrict__ bytes,
              V* __restrict__ values) {
  const long long tile = global_thread() / WARP;
  if (tile >= tiles) return;  // the whole warp
  const long long first = slots[tile];
  const int steps = static_cast<int>((slots[tile + 1] - first) / WARP);
  const LaneShare<I> share(TilePieces<I>{starts, row_of, begin, length}, tile, steps);
  const int each = PACKED ? width[tile] : 0;
  __shared__ Side<V> sides[LANES_BLOCK / WARP];
  int before = 0;
  const auto store = [&](int step, bool held, int column, V value) {
    const long long slot = first + static_cast<long long>(step) * WARP + lane_id();
    values[slot] = value;
    if (!PACKED) {
      columns[slot] = column;
    } else if (step == 0) {
      columns[tile * WARP + lane_id()] = column;
    } else {
      const int difference = held ? column - before : 0;
      unsigned char* const to = bytes + byte_ptr[tile];
      const long long at = static_cast<long long>(step - 1) * WARP + lane_id();
      if (each == 1) {
        to[at] = static_cast<unsigned char>(difference);
      } else if (each == 2) {  // as all of a tile's bytes, from a multiple of 32 on
        reinterpret_cast<unsigned short*>(to)[at] = static_cast<unsigned short>(difference);
      } else {
        reinterpret_cast<int*>(to)[at] = difference;
      }
    }
    before = column;
  };
  sides[threadIdx.x / WARP].each(share.entry, share.entries, 0, steps, col_idx, from, store);
}
