// mBSR: 4 x 4 blocks stored whole, with a bitmap each. See spmvbench/formats/dense_blocks/mbsr.py.
#include "row_sums.cuh"
#include "spmv.cuh"

constexpr int SIDE = 4;
constexpr int PLACES = SIDE * SIDE;
constexpr int MOST = 64;      // blocks of a piece of a block row
constexpr int IN_FLIGHT = 4;  // blocks of a thread that are loaded before the first is used

// A block row, or a piece of one.
struct Item {
  int row, first, end;

  // PIECES: items are pieces of block rows, else block rows. What is after the last item has no blocks.
  template <bool PIECES>
  static __device__ __forceinline__ Item at(long long i, int items, const int2* __restrict__ pieces,
                                            const int* __restrict__ block_ptr) {
    if (i >= items) return {0, 0, 0};
    if (!PIECES) return {static_cast<int>(i), block_ptr[i], block_ptr[i + 1]};
    const int2 piece = pieces[i];
    return {piece.x, piece.y, min(piece.y + MOST, block_ptr[piece.x + 1])};
  }
};

// LANES threads per item, 16 for each of neighbouring blocks: a thread has the same place in all of its blocks.
template <typename V, int LANES, bool PIECES>
__global__ void mbsr_stream(int items, int rows, const int2* __restrict__ pieces, const int* __restrict__ block_ptr,
                            const int* __restrict__ block_col, const unsigned short* __restrict__ maps,
                            const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  constexpr int ACROSS = LANES / PLACES;
  const long long i = global_thread() / LANES;
  const Item item = Item::at<PIECES>(i, items, pieces, block_ptr);
  const int lane = threadIdx.x % LANES, place = lane % PLACES;
  V sum = 0;
  for (int first = item.first + lane / PLACES; first < item.end; first += IN_FLIGHT * ACROSS) {
    int column[IN_FLIGHT];
    bool has[IN_FLIGHT];
    V value[IN_FLIGHT];
    V factor[IN_FLIGHT];
#pragma unroll
    for (int u = 0; u < IN_FLIGHT; ++u) {
      const int block = min(first + u * ACROSS, item.end - 1);
      column[u] = load_stream(block_col + block) * SIDE + place % SIDE;
      has[u] = first + u * ACROSS < item.end && (load_stream(maps + block) >> place & 1);
      value[u] = load_stream(values + static_cast<long long>(block) * PLACES + place);
    }
#pragma unroll
    for (int u = 0; u < IN_FLIGHT; ++u) factor[u] = has[u] ? load_x(x, column[u]) : V(0);
#pragma unroll
    for (int u = 0; u < IN_FLIGHT; ++u) {
      if (has[u]) sum += value[u] * factor[u];
    }
  }
  sum += __shfl_xor_sync(FULL_MASK, sum, 1);
  sum += __shfl_xor_sync(FULL_MASK, sum, 2);
  if (ACROSS > 1) sum += __shfl_xor_sync(FULL_MASK, sum, PLACES);
  const long long row = static_cast<long long>(item.row) * SIDE + place / SIDE;
  if (i >= items || lane >= PLACES || place % SIDE > 0 || row >= rows) return;
  if (PIECES) {
    atomicAdd(y + row, sum);
  } else {
    y[row] = sum;
  }
}

// Adds the sums of a block row, in lanes 0 to 3, to y.
template <bool PIECES, typename V>
__device__ __forceinline__ void add_rows(const Item& item, bool any, int rows, V sum, V* __restrict__ y) {
  const long long row = static_cast<long long>(item.row) * SIDE + lane_id();
  if (!any || lane_id() >= SIDE || row >= rows) return;
  if (PIECES) {
    atomicAdd(y + row, sum);
  } else {
    y[row] += sum;
  }
}

// The authors' kernel for tensor cores: a warp per item, two blocks at a time as the 8 rows of an operand.
template <typename V, bool PIECES>
__global__ void mbsr_tensor(int items, int rows, const int2* __restrict__ pieces, const int* __restrict__ block_ptr,
                            const int* __restrict__ block_col, const unsigned short* __restrict__ maps,
                            const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long i = global_thread() / WARP;
  const Item item = Item::at<PIECES>(i, items, pieces, block_ptr);
  const int lane = lane_id(), place = lane % PLACES;
  RowSums<V> sums;
  for (int first = item.first; first < item.end; first += 2) {
    const int block = first + lane / PLACES;
    V value = 0;
    V factor = 0;
    if (block < item.end) {
      value = load_stream(values + static_cast<long long>(block) * PLACES + place);
      if (load_stream(maps + block) >> place & 1)
        factor = load_x(x, load_stream(block_col + block) * SIDE + lane % SIDE);
    }
    __syncwarp();
    sums.add(value, factor);
  }
  const V upper = sums.row(lane % SIDE);
  const V lower = sums.row(SIDE + lane % SIDE);
  add_rows<PIECES>(item, i < items, rows, upper + lower, y);
}

// The authors' kernel for the cores: a warp per item, four threads per block, each with a row of it.
template <typename V, bool PIECES>
__global__ void mbsr_cores(int items, int rows, const int2* __restrict__ pieces, const int* __restrict__ block_ptr,
                           const int* __restrict__ block_col, const unsigned short* __restrict__ maps,
                           const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long i = global_thread() / WARP;
  const Item item = Item::at<PIECES>(i, items, pieces, block_ptr);
  const int lane = lane_id(), r = lane % SIDE;
  V sum = 0;
  for (int block = item.first + lane / SIDE; block < item.end; block += WARP / SIDE) {
    const unsigned map = load_stream(maps + block);
    const int column = load_stream(block_col + block) * SIDE;
#pragma unroll
    for (int c = 0; c < SIDE; ++c) {
      if (map >> (r * SIDE + c) & 1) {
        sum += load_stream(values + static_cast<long long>(block) * PLACES + r * SIDE + c) * load_x(x, column + c);
      }
    }
  }
  sum += __shfl_down_sync(FULL_MASK, sum, 16);
  sum += __shfl_down_sync(FULL_MASK, sum, 8);
  sum += __shfl_down_sync(FULL_MASK, sum, 4);
  add_rows<PIECES>(item, i < items, rows, sum, y);
}
