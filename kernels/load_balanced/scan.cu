// Sums by a segmented scan over tiles of entries, a few neighbouring ones per thread: COO (a row index per entry) and
// ModernGPU's CSR+ (a code per thread; Baxter 2013).
#include "carry.cuh"
#include "shares.cuh"
#include "spmv.cuh"

// COO by blocks that walk `interval` entries each, a multiple of BLOCK * ITEMS, tile by tile. A row's last entry stores
// its sum: exactly one tile sees it; ADD: adds it. What is open at the interval's end is the block's carry.
template <typename V, typename I, int BLOCK, int ITEMS, bool ADD, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    coo_scan(I nnz, long long interval, const int* __restrict__ row_idx, const int* __restrict__ col_idx,
             const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y, int* __restrict__ carry_row,
             V* __restrict__ carry_sum) {
  constexpr int TILE = BLOCK * ITEMS;
  __shared__ V products[TILE];
  __shared__ int rows[TILE + 1];
  __shared__ V open;
  const long long begin = blockIdx.x * interval;
  const long long end = begin + interval < nnz ? begin + interval : nnz;
  const int mine = threadIdx.x * ITEMS;
  if (threadIdx.x == 0) open = V(0);
  for (long long tile = begin; tile < end; tile += TILE) {
    const int count = static_cast<int>(end - tile < TILE ? end - tile : TILE);
    __syncthreads();
    int loaded[ITEMS];  // rows, in flight while the products are
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int k = i * BLOCK + threadIdx.x;
      loaded[i] = k < count ? load_stream(row_idx + tile + k) : -1;
    }
    for_products<BLOCK, ITEMS>(tile, count, col_idx, values, x, [=](int k, V product) { products[k] = product; });
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int k = i * BLOCK + threadIdx.x;
      if (k < count) rows[k] = loaded[i];
    }
    if (threadIdx.x == 0) rows[count] = tile + count < nnz ? row_idx[tile + count] : -1;
    __syncthreads();
    V product[ITEMS];
    unsigned ends = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const bool inside = mine + i < count;
      product[i] = inside ? products[mine + i] : V(0);
      if (inside && rows[mine + i + 1] != rows[mine + i]) ends |= 1u << i;
    }
    if (threadIdx.x == 0) product[0] += open;
    const V behind = sum_runs<BLOCK>(product, ends, lanes_back(ends != 0), [=](int i, V sum) {
      const int row = rows[mine + i];
      y[row] = ADD ? y[row] + sum : sum;
    });
    if (threadIdx.x == BLOCK - 1) open = behind;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    carry_row[blockIdx.x] = row_idx[end - 1];
    carry_sum[blockIdx.x] = open;
  }
}

constexpr unsigned SPLIT = 0x80000000u;  // in limits: the row began before the tile

// The fields of a thread's code.
struct Code {
  unsigned word;
  __device__ __forceinline__ unsigned ends() const { return word & 0x1fff; }     // its entries that end a row
  __device__ __forceinline__ int distance() const { return word >> 13 & 0x7f; }  // threads back to one with an end
  __device__ __forceinline__ int row() const {
    return static_cast<int>(word >> 20);
  }  // of its first entry, in the tile
};

// CSR+ by blocks of BLOCK * ITEMS entries. Rows are those that have entries; row_id gives their numbers where NAMED. A
// carry of row `rows` is none.
template <typename V, int BLOCK, int ITEMS, bool NAMED, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    mgpu(int rows, long long nnz, const unsigned* __restrict__ limits, const unsigned* __restrict__ codes,
         const int* __restrict__ row_id, const int* __restrict__ col_idx, const S* __restrict__ values,
         const V* __restrict__ x, V* __restrict__ y, int* __restrict__ carry_row, V* __restrict__ carry_sum) {
  constexpr int TILE = BLOCK * ITEMS;
  __shared__ V shared[TILE];
  const long long first = blockIdx.x * static_cast<long long>(TILE);
  const int count = static_cast<int>(nnz - first < TILE ? nnz - first : TILE);
  const Code code{load_stream(codes + blockIdx.x * static_cast<long long>(BLOCK) + threadIdx.x)};
  const unsigned next = limits[blockIdx.x + 1];
  const int first_row = limits[blockIdx.x] & ~SPLIT, last_row = next & ~SPLIT;
  for_products<BLOCK, ITEMS>(first, count, col_idx, values, x, [=](int k, V product) { shared[k] = product; });
  __syncthreads();
  V products[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int k = threadIdx.x * ITEMS + i;
    products[i] = k < count ? shared[k] : V(0);
  }
  __syncthreads();
  const V open = sum_runs<BLOCK>(products, code.ends(), code.distance(), [=](int i, V sum) {
    shared[code.row() + __popc(code.ends() & ((1u << i) - 1))] = sum;
  });
  __syncthreads();
  const auto row = [=](int compact) { return NAMED ? row_id[compact] : compact; };
  for (int i = threadIdx.x; i < last_row - first_row; i += BLOCK) y[row(first_row + i)] = shared[i];
  if (threadIdx.x == BLOCK - 1) {
    carry_row[blockIdx.x] = next & SPLIT ? row(last_row) : rows;
    carry_sum[blockIdx.x] = open;
  }
}
