// CB-SpMV: 16 x 16 blocks, each with its indices and values in one stretch of bytes. See
// spmvbench/formats/dense_blocks/cb.py.
#include "spmv.cuh"

constexpr int SIDE = 16;
constexpr int IS_COO = 0;
constexpr int IS_CSR = 1;
constexpr int IS_DENSE = 3;
constexpr int GROUP = 8;  // warps of a thread block
static_assert(WARP == 2 * SIDE, "two lanes take a row");

struct Blocks {
  const int* __restrict__ row;
  const int* __restrict__ col;
  const int* __restrict__ entries;
  const unsigned char* __restrict__ kind;
  const long long* __restrict__ address;
  const unsigned char* __restrict__ pool;
};

// A block: what it is, where it is, and x at its columns.
template <typename V, typename P, bool GATHER>
struct Block {
  int entries, kind;
  const unsigned char* bytes;
  const int* columns;  // with GATHER the columns of its 16 places
  int column;          // else the first of them
  int cols;            // of the matrix
  const V* x;

  // Where the values are, after so many bytes of indices.
  __device__ __forceinline__ const V* values(int indices) const {
    constexpr int SIZE = sizeof(V);
    return reinterpret_cast<const V*>(bytes + (indices + SIZE - 1) / SIZE * SIZE);
  }

  __device__ __forceinline__ V factor(int c) const { return load_x(x, GATHER ? __ldg(columns + c) : column + c); }

  // Of a block by rows or a dense one: the lane's half of row lane / 2.
  __device__ __forceinline__ V half_row() const {
    const int lane = lane_id(), r = lane / 2;
    V sum = 0;
    if (kind == IS_CSR) {
      const V* const value = values(SIDE + 1 + entries);
      const int end = load_stream(bytes + r + 1);
      for (int k = load_stream(bytes + r) + lane % 2; k < end; k += 2) {
        sum += load_stream(value + k) * factor(load_stream(bytes + SIDE + 1 + k));
      }
    } else {
      const V* const value = values(0) + r * SIDE;
#pragma unroll
      for (int c = 0; c < SIDE / 2; ++c) {
        const int at = c * 2 + lane % 2;
        const V found = load_stream(value + at);
        // Zeros may be padding, for which there may be no column.
        if (found != 0) sum += found * factor(at);
      }
    }
    return sum;
  }
};

template <typename V, typename P, bool GATHER>
__device__ __forceinline__ Block<V, P, GATHER> block_at(const Blocks& a, int i, int cols,
                                                        const int* __restrict__ columns,
                                                        const P* __restrict__ columns_ptr, const V* __restrict__ x) {
  const int col = __ldg(a.col + i);
  const int* const own = GATHER ? columns + columns_ptr[__ldg(a.row + i)] + col * SIDE : columns;
  return {__ldg(a.entries + i), __ldg(a.kind + i), a.pool + __ldg(a.address + i), own, col * SIDE, cols, x};
}

// The authors' kernel: a warp per block, an atomic add for each coordinate or row. x of the block's columns goes to shared
// memory first where these are neighbours.
template <typename V, typename P, bool GATHER>
__global__ void __launch_bounds__(GROUP* WARP)
    cb_blocks(int places, int rows, int cols, const Blocks a, const int* __restrict__ columns,
              const P* __restrict__ columns_ptr, const V* __restrict__ x, V* __restrict__ y) {
  __shared__ V staged[GROUP][SIDE];
  const long long i = global_thread() / WARP;
  if (i >= places) return;
  auto block = block_at<V, P, GATHER>(a, static_cast<int>(i), cols, columns, columns_ptr, x);
  if (block.entries == 0) return;
  const int lane = lane_id();
  const long long first_row = static_cast<long long>(__ldg(a.row + i)) * SIDE;
  if (!GATHER) {
    V* const of_warp = staged[threadIdx.x / WARP];
    if (lane < SIDE) of_warp[lane] = block.column + lane < cols ? load_x(x, block.column + lane) : V(0);
    __syncwarp();
    if (block.kind == IS_COO) {
      const V* const value = block.values(block.entries);
      for (int k = lane; k < block.entries; k += WARP) {
        const int at = load_stream(block.bytes + k);
        atomicAdd(y + first_row + at / SIDE, load_stream(value + k) * of_warp[at % SIDE]);
      }
      return;
    }
  } else if (block.kind == IS_COO) {
    const V* const value = block.values(block.entries);
    for (int k = lane; k < block.entries; k += WARP) {
      const int at = load_stream(block.bytes + k);
      atomicAdd(y + first_row + at / SIDE, load_stream(value + k) * block.factor(at % SIDE));
    }
    return;
  }
  V sum = block.half_row();
  sum += __shfl_xor_sync(FULL_MASK, sum, 1);
  const long long row = first_row + lane / 2;
  if (lane % 2 == 0 && row < rows && sum != 0) atomicAdd(y + row, sum);
}

// A warp per item {first block, ~ it if other warps add to its block row; blocks}. Rows of blocks by rows and of dense ones
// are in two lanes each all along; coordinates, sorted by row, are added up by a scan. Many warps hide the latency: loading
// a block ahead takes 64 registers in place of 40, and fem:40:3 fell from 329 to 193 GFLOPS (f64, H200).
template <typename V, typename P, bool GATHER>
__global__ void __launch_bounds__(GROUP* WARP)
    cb_rows(int items, int rows, int cols, const Blocks a, const int2* __restrict__ item,
            const int* __restrict__ columns, const P* __restrict__ columns_ptr, const V* __restrict__ x,
            V* __restrict__ y) {
  __shared__ V of_rows[GROUP][SIDE];
  const long long i = global_thread() / WARP;
  if (i >= items) return;
  const int lane = lane_id();
  const int2 mine = item[i];
  const bool shared = mine.x < 0;
  const int first = shared ? ~mine.x : mine.x;
  V* const of_row = of_rows[threadIdx.x / WARP];
  if (lane < SIDE) of_row[lane] = 0;
  V sum = 0;
  for (int b = first; b < first + mine.y; ++b) {
    const auto block = block_at<V, P, GATHER>(a, b, cols, columns, columns_ptr, x);
    if (block.kind != IS_COO) {
      sum += block.half_row();
      continue;
    }
    const V* const value = block.values(block.entries);
    for (int begin = 0; begin < block.entries; begin += WARP) {
      const int k = begin + lane;
      const bool has = k < block.entries;
      const int at = has ? load_stream(block.bytes + k) : SIDE * SIDE;
      V product = has ? load_stream(value + k) * block.factor(at % SIDE) : V(0);
      product = warp_segmented_scan(at / SIDE, product);
      const int next = __shfl_down_sync(FULL_MASK, at / SIDE, 1);
      __syncwarp();
      if (has && (lane == WARP - 1 || next != at / SIDE)) of_row[at / SIDE] += product;
      __syncwarp();
    }
  }
  __syncwarp();
  sum += __shfl_xor_sync(FULL_MASK, sum, 1);
  const long long row = static_cast<long long>(__ldg(a.row + first)) * SIDE + lane / 2;
  if (lane % 2 > 0 || row >= rows) return;
  sum += of_row[lane / 2];
  if (shared) {
    atomicAdd(y + row, sum);
  } else {
    y[row] = sum;
  }
}
