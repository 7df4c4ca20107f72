// CSR5's descriptors; see spmvbench/formats/csr/csr5.py.
#pragma once
#include "overlap.cuh"
#include "spmv.cuh"

constexpr unsigned DIRTY = 0x80000000u;  // in tile_ptr: some row that begins in the tile has no entries

__host__ __device__ constexpr int bits_for(int n) {
  int bits = 1;
  while ((1 << bits) < n) ++bits;
  return bits;
}

// A lane's bits, from the highest on: y_offset, seg_offset and a flag per step, in words of 32.
template <int SIGMA>
struct Descriptor {
  static constexpr int OFFSET_BITS = bits_for(WARP * SIGMA);
  static constexpr int HEAD_BITS = OFFSET_BITS + 5;  // y_offset and seg_offset are before the flags
  static constexpr int PACKETS = (HEAD_BITS + SIGMA + 31) / 32;
};

// In place of an array whose values are all the same.
template <typename V>
struct Same {
  V value;

  __device__ __forceinline__ Same operator+(long long) const { return *this; }
};

template <typename V>
__device__ __forceinline__ V load_stream(const Same<V>& all) {
  return all.value;
}

// In place of an array of values: their numbers, of type K, among the known ones.
template <typename V, typename K>
struct Coded {
  const V* __restrict__ known;
  const K* __restrict__ number;

  __device__ __forceinline__ Coded operator+(long long n) const { return {known, number + n}; }
};

// A value that is looked up where it is used: numbers are in flight until then.
template <typename V, typename K>
struct Code {
  const V* known;
  K number;
};

template <typename V, typename K>
__device__ __forceinline__ Code<V, K> load_stream(const Coded<V, K>& at) {
  return {at.known, load_stream(at.number)};
}

template <typename V, typename K, typename X>
__device__ __forceinline__ auto operator*(const Code<V, K>& code, X x) {
  return code.known[code.number] * x;
}

// The arrays of the format; see spmvbench/formats/csr/csr5.py. C: type of the columns. M: the values, `Same` or `Coded`.
template <typename V, typename C = int, typename M = const V*>
struct Tiles {
  const unsigned* __restrict__ tile_ptr;
  const unsigned* __restrict__ tile_desc;
  const int* __restrict__ empty_ptr;
  const int* __restrict__ empty_offset;
  const C* __restrict__ col_idx;
  M values;
};

// BATCH steps of a lane, in flight.
template <typename V, int BATCH, typename S>
struct Batch {
  int columns[BATCH];
  S values[BATCH];
  V products[BATCH];

  // The matrix's part; STEPS are left.
  template <typename C, typename M>
  __device__ __forceinline__ void load(const Tiles<V, C, M>& a, long long at, int steps) {
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (u < steps) {
        columns[u] = load_stream(a.col_idx + at + u * WARP);
        values[u] = load_stream(a.values + at + u * WARP);
      }
    }
  }

  template <typename X>
  __device__ __forceinline__ void gather(X x, int steps) {
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (u < steps) products[u] = values[u] * load_x(x, columns[u]);
    }
  }
};

// One tile, by one warp. Rows that are within a lane are stored to y (ADD: added to it). Rows that a lane leaves open
// come with what the lanes after it have of them: last(row, sum); the tile's last row may go on in the next tile. The
// row of the tile's first entry, which may have begun in an earlier tile too, is separate, in lane 0: first(row, sum,
// begins here). BATCH steps are loaded at a time, each batch before the one before it is used. OVERLAPS: the launch may
// overlap with the one before. The wait keeps loads behind it, so that others do without.
template <bool ADD, bool OVERLAPS, typename V, int SIGMA, int BATCH, typename C, typename M, typename X, typename Y,
          typename Last, typename First>
__device__ __forceinline__ void sum_tile(const Tiles<V, C, M>& a, int tile, X x, Y y, Last last, First first) {
  constexpr int OFFSET_BITS = Descriptor<SIGMA>::OFFSET_BITS;
  constexpr int HEAD_BITS = Descriptor<SIGMA>::HEAD_BITS;
  constexpr int PACKETS = Descriptor<SIGMA>::PACKETS;
  const int lane = lane_id();
  const long long at = static_cast<long long>(tile) * (WARP * SIGMA) + lane;

  Batch<V, BATCH, decltype(load_stream(a.values))> batch;
  batch.load(a, at, SIGMA);
  const unsigned* packet = a.tile_desc + static_cast<long long>(tile) * (PACKETS * WARP) + lane;
  const unsigned head = load_stream(packet);
  unsigned flags = head << HEAD_BITS;  // bit 31 - i: a row begins at step i
  if (PACKETS == 2) flags |= load_stream(packet + WARP) >> (32 - HEAD_BITS);
  const unsigned word = a.tile_ptr[tile];
  const int start = word & ~DIRTY;
  const bool begins = flags & 0x80000000u;
  if constexpr (OVERLAPS) wait_for_previous();  // entries are in flight; rows are stored from here on
  const int* empty = word & DIRTY ? a.empty_offset + a.empty_ptr[tile] : nullptr;

  // The tile's first entry opens a segment whether its row begins there or not.
  int slot = head >> (32 - OFFSET_BITS);
  if (lane == 0) flags |= 0x80000000u;
  const unsigned flagged = __ballot_sync(FULL_MASK, flags != 0);
  const auto row = [&] { return start + 1 + (empty ? empty[slot] : slot); };

  bool leading =
      lane == 0 || !begins;  // before the lane's own first row: belongs to a lane before, or to the first row
  V lead = 0;
  V sum = 0;
#pragma unroll
  for (int done = 0; done < SIGMA; done += BATCH) {
    Batch<V, BATCH, decltype(load_stream(a.values))> next;
    if (done + BATCH < SIGMA) next.load(a, at + (done + BATCH) * WARP, SIGMA - done - BATCH);
    batch.gather(x, SIGMA - done);
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const int step = done + u;
      if (step >= SIGMA) break;
      if (step > 0 && flags & (0x80000000u >> step)) {
        if (leading) {
          lead = sum;
        } else {
          if constexpr (ADD) {
            atomicAdd(y + row(), sum);
          } else {
            put<false>(y + row(), sum);
          }
          ++slot;
        }
        leading = false;
        sum = 0;
      }
      sum += batch.products[u];
    }
    if (done + BATCH < SIGMA) batch = next;
  }
  if (leading) {
    lead = sum;
    sum = 0;
  }

  // To a lane's last row belong the leads of the lanes that follow, up to the first with a flag. The paper takes a
  // difference of prefix sums, at distance seg_offset; that loses digits where rows differ in size. This sums the same
  // lanes alone, and the ballot gives the distance to those that have no flag themselves.
  V leads = lead;
  if (flagged != FULL_MASK) {
    const int reach = __ffs(static_cast<int>((flagged >> lane) | (1u << (WARP - 1 - lane)))) - 1;
#pragma unroll
    for (int offset = 1; offset < WARP; offset *= 2) {
      const V behind = __shfl_down_sync(FULL_MASK, leads, offset);
      if (offset <= reach) leads += behind;
    }
  }
  V following = __shfl_down_sync(FULL_MASK, leads, 1);
  if (lane == WARP - 1) following = 0;
  if (!leading) last(row(), sum + following);
  if (lane == 0) first(start, leading ? lead + following : lead, begins);
}

// A row's entries from `tail` on, by one warp: what is after the last whole tile is plain CSR. Lane 0 has the sum.
template <typename V, typename I, typename C, typename M, typename X>
__device__ __forceinline__ V sum_tail(const I* __restrict__ row_ptr, int row, I tail, const Tiles<V, C, M>& a, X x) {
  const I begin = row_ptr[row] < tail ? tail : row_ptr[row];
  const I end = row_ptr[row + 1];
  V sum = 0;
  for (I k = begin + lane_id(); k < end; k += WARP) {
    sum += load_stream(a.values + k) * load_x(x, load_stream(a.col_idx + k));
  }
  return group_sum<WARP>(sum);
}

// What csr5_share does with a row that a tile's end cuts. ADDED: its parts are added to y by atomics, and y is zero
// there. ALL_ADDED: so are all rows. CARRIED: the tile that it ends in stores it; a carry is what a tile leaves open
// of the row that the next one begins in, for carry_ordered.
constexpr int ADDED = 0, ALL_ADDED = 1, CARRIED = 2;

// Where rows within a tile go: to an epilogue, else to y.
template <typename V, typename Y>
__device__ __forceinline__ Y whole_rows(V*, Y whole) {
  return whole;
}
template <typename V>
__device__ __forceinline__ V* whole_rows(V* y, V*) {
  return y;
}

// The work of one warp if all is one launch: a tile or, after the tiles, a row of the tail. A row within one tile is
// stored in y. whole: an epilogue that takes it instead; if CARRIED the carries. OVERLAPS: as above.
template <int CUT, bool OVERLAPS, int SIGMA, int BATCH, typename V, typename I, typename C, typename M, typename X,
          typename Y = V*>
__device__ __forceinline__ void csr5_share(long long warp, int rows, int tiles, int first_row,
                                           const I* __restrict__ row_ptr, const Tiles<V, C, M>& a, X x,
                                           V* __restrict__ y, Y whole = Y()) {
  const auto into = whole_rows(y, whole);
  if (warp < tiles) {
    const int tile = static_cast<int>(warp);
    const int next_row = a.tile_ptr[tile + 1] & ~DIRTY;
    bool is_open = false;
    const auto finish = [&](int row, V sum, bool begins) {
      if (CUT != ALL_ADDED && (begins || CUT == CARRIED) && row != next_row) {
        put<false>(into + row, sum);
      } else if constexpr (CUT == CARRIED) {
        whole[tile] = sum;
        is_open = true;
      } else {
        atomicAdd(y + row, sum);
      }
    };
    sum_tile<CUT == ALL_ADDED, OVERLAPS, V, SIGMA, BATCH>(
        a, tile, x, into, [&](int row, V sum) { finish(row, sum, true); }, finish);
    if constexpr (CUT == CARRIED) {
      if (!__any_sync(FULL_MASK, is_open) && lane_id() == 0) whole[tile] = V(0);
    }
    return;
  }
  const long long row = first_row + (warp - tiles);
  if (row >= rows) return;
  const I tail = static_cast<I>(tiles) * (WARP * SIGMA);
  const V sum = sum_tail<V, I>(row_ptr, static_cast<int>(row), tail, a, x);
  if (lane_id() > 0) return;
  if constexpr (OVERLAPS) wait_for_previous();
  if (CUT == ALL_ADDED || (CUT == ADDED && row_ptr[row] < tail)) {
    atomicAdd(y + row, sum);
  } else {
    put<false>(into + row, sum);
  }
}
