// Rows in bins by powers of two of their length: short rows padded in shared memory, long ones cut. See
// spmvbench/formats/csr/lrb.py.
#include "csr.cuh"
#include "shares.cuh"

constexpr int LRB_BLOCK = 256;  // threads
constexpr int PLACES = 1024;    // products of a block of short rows
constexpr int ROUNDS = 3;       // entries of a row that is cut, for each thread of its blocks
constexpr int SHARE = ROUNDS * LRB_BLOCK;

// Rows of a block of short rows, whose bin holds up to 2^bin entries.
constexpr int short_rows(int bin) { return LRB_BLOCK << bin < PLACES ? LRB_BLOCK : PLACES >> bin; }

// Rows of up to 2^BIN entries: product p of the block is entry p % 2^BIN of its row p / 2^BIN, 0 after the row's end.
// A thread then adds up a row.
template <typename V, typename I, int BIN, typename S = V>
__global__ void __launch_bounds__(LRB_BLOCK)
    lrb_short(int rows, const int* __restrict__ list, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
              const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  constexpr int WIDTH = 1 << BIN, ROWS = short_rows(BIN);
  __shared__ V products[ROWS * WIDTH];
  const long long first = static_cast<long long>(blockIdx.x) * ROWS;
#pragma unroll
  for (int i = 0; i < ROWS * WIDTH / LRB_BLOCK; ++i) {
    const int p = i * LRB_BLOCK + threadIdx.x;
    const long long place = first + p / WIDTH;
    V product = 0;
    if (place < rows) {
      const int row = list[place];
      const I k = row_ptr[row] + p % WIDTH;
      if (k < row_ptr[row + 1]) product = load_stream(values + k) * load_x(x, load_stream(col_idx + k));
    }
    products[p] = product;
  }
  __syncthreads();
  const long long place = first + threadIdx.x;
  if (threadIdx.x >= ROWS || place >= rows) return;
  V sum = 0;
#pragma unroll
  for (int i = 0; i < WIDTH; ++i) sum += products[threadIdx.x * WIDTH + i];
  y[list[place]] = sum;
}

// Rows that are cut: `blocks` blocks for each, as many as the longest of the bin may need. y is zero in these rows.
template <typename V, typename I, typename S = V>
__global__ void __launch_bounds__(LRB_BLOCK)
    lrb_long(int blocks, I nnz, const int* __restrict__ list, const I* __restrict__ row_ptr,
             const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
             V* __restrict__ y) {
  const int row = list[blockIdx.x / blocks];
  const long long begin = row_ptr[row] + static_cast<long long>(blockIdx.x % blocks) * SHARE;
  const long long row_end = row_ptr[row + 1];
  if (begin >= row_end) return;  // the whole block
  const long long end = begin + SHARE < row_end ? begin + SHARE : row_end;
  V sum = lane_sum<LRB_BLOCK, 1>(static_cast<I>(begin), static_cast<I>(end), nnz, threadIdx.x, col_idx, values, x);
  sum = block_sum<LRB_BLOCK>(sum);
  if (threadIdx.x == 0) atomicAdd(y + row, sum);
}
