// DASP: rows in classes by their length, each in fragments of 8 rows by 4 slots; see spmvbench/formats/hybrid/dasp.py.
#include "row_sums.cuh"
#include "spmv.cuh"

constexpr int PIECE = 64;  // slots of a piece of a long row
constexpr int FRAGMENT = 32;
constexpr int LONG_BLOCK = 256;  // threads that sum the pieces of a long row

// The operands of the product of a slot.
template <typename V, typename S>
struct Slots {
  const int* __restrict__ columns;
  const S* __restrict__ values;
  const V* __restrict__ x;

  __device__ __forceinline__ V factor(int column) const { return column >= 0 ? load_x(x, column) : V(0); }
};

// COUNT fragments, a slot of each in every lane, in flight; what is at `end` and after is none.
template <typename S, int COUNT>
struct Fragments {
  int column[COUNT];
  S value[COUNT];

  template <typename V>
  __device__ __forceinline__ void load(const Slots<V, S>& a, long long at, long long end) {
#pragma unroll
    for (int f = 0; f < COUNT; ++f) {
      const bool inside = at + f * FRAGMENT < end;
      column[f] = inside ? load_stream(a.columns + at + f * FRAGMENT + lane_id()) : -1;
      value[f] = inside ? load_stream(a.values + at + f * FRAGMENT + lane_id()) : S(0);
    }
  }
};

__device__ __forceinline__ int warps_of(int items) { return (items + WARP - 1) / WARP; }

// The rows of two fragments with two rows per line, the first in the slots below SPLIT, the other in those from it on:
// lane t has the sum of row t of 32.
template <int SPLIT, typename V, typename S>
__device__ __forceinline__ V two_a_line(const Slots<V, S>& a, long long at) {
  const int lane = lane_id();
  Fragments<S, 2> now;
  now.load(a, at, at + 2 * FRAGMENT);
  V mine = 0;
#pragma unroll
  for (int f = 0; f < 2; ++f) {
    const V factor = a.factor(now.column[f]);
    RowSums<V> left, right;
    left.add(now.value[f], lane % 4 < SPLIT ? factor : V(0));
    right.add(now.value[f], lane % 4 < SPLIT ? V(0) : factor);
    const V of_left = left.row(lane % 8);
    const V of_right = right.row(lane % 8);
    if (lane / 16 == f) mine = lane & 8 ? of_right : of_left;
  }
  return mine;
}

// Rows of 4 slots: four fragments, lane t has the sum of row t of 32.
template <typename V, typename S>
__device__ __forceinline__ V one_a_line(const Slots<V, S>& a, long long at) {
  const int lane = lane_id();
  Fragments<S, 4> now;
  now.load(a, at, at + 4 * FRAGMENT);
  V mine = 0;
#pragma unroll
  for (int f = 0; f < 4; ++f) {
    RowSums<V> sums;
    sums.add(now.value[f], a.factor(now.column[f]));
    const V of_row = sums.row(lane % 8);
    if (lane / 8 == f) mine = of_row;
  }
  return mine;
}

// LOOP blocks of 8 medium rows, their fragments as one stream, LOADS of them in flight at a time. Lane 8 i + g has
// the sum of row g of block i.
template <int LOOP, int LOADS, typename V, typename S, typename I>
__device__ __forceinline__ V blocks_of_eight(const Slots<V, S>& a, long long base, int first, int blocks,
                                             const I* __restrict__ block_ptr) {
  const int lane = lane_id();
  const int last = min(first + LOOP, blocks);
  const long long end = block_ptr[last];
  int block = first;
  long long block_end = block_ptr[first + 1];
  V mine = 0;
  RowSums<V> sums;
  const auto finish = [&]() {
    const V of_row = sums.row(lane % 8);
    if (lane / 8 == block - first) mine = of_row;
    sums = RowSums<V>();
    ++block;
    if (block < last) block_end = block_ptr[block + 1];
  };
  for (long long at = block_ptr[first]; at < end; at += LOADS * FRAGMENT) {
    Fragments<S, LOADS> now;
    now.load(a, base + at, base + end);
    V factor[LOADS];
#pragma unroll
    for (int f = 0; f < LOADS; ++f) factor[f] = a.factor(now.column[f]);
#pragma unroll
    for (int f = 0; f < LOADS; ++f) {
      while (block < last && at + f * FRAGMENT >= block_end) finish();
      sums.add(now.value[f], factor[f]);
    }
  }
  while (block < last) finish();
  return mine;
}

// Rows of each class, pieces of long rows, and the first slot of each class after the long rows.
struct Classes {
  int long_rows;
  int medium_rows;
  int ones;
  int pairs;
  int fours;
  int twos;
  int empty;
  int pieces;
  long long medium_base;
  long long one_base;
  long long pair_base;
  long long four_base;
  long long two_base;
  long long rest_base;
};

// A warp per piece, LOOP blocks of 8 medium rows, or 32 places. Places are in the order of classes: NATURAL says
// whether y is in the matrix's order. partial: the sum of each piece. rest: entries of medium rows that no fragment
// holds.
template <typename V, typename I, bool NATURAL, int LOOP, int LOADS, typename S = V>
__global__ void dasp_spmv(const Classes classes, const I* __restrict__ block_ptr, const I* __restrict__ rest_ptr,
                          const int* __restrict__ order, const int* __restrict__ columns, const S* __restrict__ values,
                          const V* __restrict__ x, V* __restrict__ y, V* __restrict__ partial) {
  const Slots<V, S> a{columns, values, x};
  const int lane = lane_id();
  long long warp = global_thread() / WARP;
  const auto store = [&](long long place, V sum) { y[NATURAL ? load_stream(order + place) : place] = sum; };

  if (warp < classes.pieces) {
    RowSums<V> sums;
    Fragments<S, 2> now;
    now.load(a, warp * PIECE, (warp + 1) * PIECE);
#pragma unroll
    for (int f = 0; f < 2; ++f) sums.add(now.value[f], a.factor(now.column[f]));
    const V sum = group_sum<8>(sums.row(lane % 8));
    if (lane == 0) partial[warp] = sum;
    return;
  }
  warp -= classes.pieces;
  long long place = classes.long_rows;

  const int blocks = (classes.medium_rows + 7) / 8;
  const int shares = (blocks + LOOP - 1) / LOOP;
  if (warp < shares) {
    const int first = static_cast<int>(warp) * LOOP;
    V sum = blocks_of_eight<LOOP, LOADS>(a, classes.medium_base, first, blocks, block_ptr);
    const long long row = static_cast<long long>(first) * 8 + lane;
    if (lane < 8 * LOOP && row < classes.medium_rows) {
      for (I k = rest_ptr[row]; k < rest_ptr[row + 1]; ++k) {
        sum += load_stream(values + classes.rest_base + k) * load_x(x, load_stream(columns + classes.rest_base + k));
      }
      store(place + row, sum);
    }
    return;
  }
  warp -= shares;
  place += classes.medium_rows;

  // The next places, 32 per warp; whether this one is among their warps.
  const auto take = [&](int places, auto sum_of) {
    if (warp >= warps_of(places)) {
      warp -= warps_of(places);
      place += places;
      return false;
    }
    const V sum = sum_of();
    if (warp * WARP + lane < places) store(place + warp * WARP + lane, sum);
    return true;
  };
  const auto single = [&]() {
    const long long k = warp * WARP + lane;
    return k < classes.ones
               ? load_stream(values + classes.one_base + k) * load_x(x, load_stream(columns + classes.one_base + k))
               : V(0);
  };
  if (take(classes.ones, single)) return;
  if (take(classes.pairs, [&]() { return two_a_line<1>(a, classes.pair_base + warp * (2 * FRAGMENT)); })) return;
  if (take(classes.fours, [&]() { return one_a_line(a, classes.four_base + warp * (4 * FRAGMENT)); })) return;
  if (take(classes.twos, [&]() { return two_a_line<2>(a, classes.two_base + warp * (2 * FRAGMENT)); })) return;
  take(classes.empty, []() { return V(0); });
}

// The pieces of a long row, by a block.
template <typename V, bool NATURAL>
__global__ void __launch_bounds__(LONG_BLOCK) dasp_long(const int* __restrict__ long_ptr, const int* __restrict__ order,
                                                        const V* __restrict__ partial, V* __restrict__ y) {
  __shared__ V of_warp[LONG_BLOCK / WARP];
  const int end = long_ptr[blockIdx.x + 1];
  V sum = 0;
  for (int piece = long_ptr[blockIdx.x] + threadIdx.x; piece < end; piece += LONG_BLOCK) sum += partial[piece];
  sum = group_sum<WARP>(sum);
  if (lane_id() == 0) of_warp[threadIdx.x / WARP] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < LONG_BLOCK / WARP; ++w) sum += of_warp[w];
  y[NATURAL ? order[blockIdx.x] : static_cast<int>(blockIdx.x)] = sum;
}
