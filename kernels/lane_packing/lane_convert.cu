// CSR to tiles of lanes as AdELL has them: what spmvbench/formats/lane_packing/ computes by arrays on the host. Rows, cut
// where they are too long for a warp, are pieces, which fill tiles in their order; a warp takes a tile, a lane a piece.
#include "largest.cuh"
#include "offsets.cuh"
#include "search.cuh"
#include "side_by_side.cuh"
#include "spmv.cuh"

constexpr int LANES_BLOCK = 256;

// Offsets of the pieces of each row, of at most `most` entries. Notes: rows of several pieces, rows of none.
template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    lane_pieces(int rows, int most, const I* __restrict__ row_ptr, P* __restrict__ ptr,
                unsigned long long* __restrict__ state) {
  int several = 0, none = 0;
  write_offsets<OFFSETS_EACH>(rows, ptr, state, [&](long long row) {
    if (row >= rows) return 0ll;
    const long long pieces = (row_ptr[row + 1] - row_ptr[row] + most - 1) / most;
    several += pieces > 1;
    none += pieces == 0;
    return pieces;
  });
  several = group_sum<WARP>(several);
  none = group_sum<WARP>(none);
  if (lane_id() != 0) return;
  if (several) atomicAdd(state, static_cast<unsigned long long>(several));
  if (none) atomicAdd(state + 1, static_cast<unsigned long long>(none));
}

// Row, first entry and entries of each piece, and offsets of the lanes that it wants: of `target` entries each, or all of
// a warp for those of a row that is cut.
template <typename I, typename F, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    lane_wanted(int rows, int pieces, int target, const I* __restrict__ row_ptr, const F* __restrict__ first,
                int* __restrict__ row_of, I* __restrict__ begin, int* __restrict__ length, P* __restrict__ ptr,
                unsigned long long* __restrict__ state) {
  int row = -1;  // of the thread's piece before: pieces ascend
  write_offsets<OFFSETS_EACH>(pieces, ptr, state, [&](long long piece) {
    if (piece >= pieces) return 0ll;
    row = row < 0 ? first_behind(first, 0, rows + 1, static_cast<F>(piece)) - 1
                  : row_from(first, row, rows, static_cast<F>(piece));
    const long long times = first[row + 1] - first[row], number = piece - first[row];
    const long long entries = row_ptr[row + 1] - row_ptr[row], each = entries / times, more = entries % times;
    const int here = static_cast<int>(each + (number < more));
    row_of[piece] = row;
    begin[piece] = row_ptr[row] + static_cast<I>(number * each + (number < more ? number : more));
    length[piece] = here;
    return times > 1 ? static_cast<long long>(WARP) : (here + target - 1) / target;
  });
}

// The piece after the last that fits a tile with each one. before: lanes wanted by those before.
template <typename P>
__global__ void lane_following(int pieces, const P* __restrict__ before, int* __restrict__ following) {
  const int piece = static_cast<int>(global_thread());
  if (piece >= pieces) return;
  const int last = pieces - piece < WARP ? pieces : piece + WARP;  // each wants one
  following[piece] = first_behind(before, piece + 1, last + 1, before[piece] + WARP) - 1;
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

// The steps with which a tile's pieces fit its lanes, as few as that takes, up to `most`; offsets of its slots; the row of
// each lane, and bit l for lane l where a part of a cut row ends. pieces: of each row, their offsets.
template <typename I, typename F, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    lane_steps(int tiles, int most, int rounds, const int* __restrict__ starts, const int* __restrict__ row_of,
               const I* __restrict__ begin, const int* __restrict__ length, const F* __restrict__ pieces,
               int* __restrict__ lane_row, unsigned* __restrict__ adds, int share, P* __restrict__ ptr,
               unsigned long long* __restrict__ state) {
  const TilePieces<I> all{starts, row_of, begin, length};
  const auto count = [=](long long at) {
    long long slots = 0;
    for (int s = 0; s < share; ++s) {
      const long long tile = at - lane_id() + s;
      if (tile >= tiles) break;  // the whole warp
      const int piece = starts[tile] + lane_id();
      const int here = piece < starts[tile + 1] ? length[piece] : 0;
      int low = 1, high = most;
      for (int round = 0; round < rounds; ++round) {
        const int middle = (low + high) / 2;
        const bool fits = __shfl_sync(FULL_MASK, group_sum<WARP>((here + middle - 1) / middle), 0) <= WARP;
        low = fits ? low : middle + 1 < high ? middle + 1 : high;
        high = fits ? middle : high;
      }
      const LaneShare<I> lane(all, tile, high);
      lane_row[tile * WARP + lane_id()] = lane.row;
      const bool part = lane.ends && pieces[lane.row + 1] - pieces[lane.row] > 1;
      const unsigned parts = __ballot_sync(FULL_MASK, part);
      if (lane_id() == 0) adds[tile] = parts;
      if (s == lane_id()) slots = static_cast<long long>(WARP) * high;
    }
    return slots;
  };
  write_offsets<1>(tiles, ptr, state, count, share);
}

// The bytes of a tile's differences of columns along its lanes, 1, 2 or 4, and offsets of them all.
template <typename I, typename S, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    lane_widths(int tiles, const S* __restrict__ slots, const int* __restrict__ starts, const int* __restrict__ row_of,
                const I* __restrict__ begin, const int* __restrict__ length, const int* __restrict__ col_idx,
                unsigned char* __restrict__ width, int share, P* __restrict__ ptr,
                unsigned long long* __restrict__ state) {
  const TilePieces<I> all{starts, row_of, begin, length};
  const auto count = [=](long long at) {
    long long bytes = 0;
    for (int s = 0; s < share; ++s) {
      const long long tile = at - lane_id() + s;
      if (tile >= tiles) break;  // the whole warp
      const int steps = static_cast<int>((slots[tile + 1] - slots[tile]) / WARP);
      const LaneShare<I> lane(all, tile, steps);
      int most = 0;
      for (int from = 0; from < steps; from += SIDE) {
        side_by_side(lane.entry, lane.entries, from, [&](int, bool held, int, int position, I entry) {
          const int column = held ? col_idx[entry] : 0;
          const int before = column_before(col_idx, from, held, entry, column);
          const int difference = held && position ? column - before : 0;
          most = most < difference ? difference : most;
        });
      }
      most = warp_max(most);
      const int each = most < 256 ? 1 : most < 65536 ? 2 : 4;
      if (s != lane_id()) continue;
      width[tile] = static_cast<unsigned char>(each);
      bytes = static_cast<long long>(each) * WARP * (steps - 1);
    }
    return bytes;
  };
  write_offsets<1>(tiles, ptr, state, count, share);
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
