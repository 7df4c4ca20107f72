// Globally homogeneous, locally adaptive SpMV on CSR (Steinberger, Zayer, Seidel, ICS'17): equal shares of the entries for
// every block and every thread; in a block, row ends are bits.
#include "shares.cuh"
#include "spmv.cuh"

// The row of the first entry of each block of `share` entries, the last row behind them; y = 0. A thread a row.
template <typename V, typename I>
__global__ void hola_starts(int rows, int share, int blocks, const I* __restrict__ row_ptr, int* __restrict__ start,
                            V* __restrict__ y) {
  const long long row = global_thread();
  long long begin = 0, end = 0;  // the blocks whose first entry the row has
  if (row < rows) {
    y[row] = V(0);
    begin = (static_cast<long long>(row_ptr[row]) + share - 1) / share;
    end = (static_cast<long long>(row_ptr[row + 1]) + share - 1) / share;
  }
  if (row == 0) start[blocks] = rows - 1;
  // A long row's blocks are the whole warp's work.
  for (unsigned owners = __ballot_sync(FULL_MASK, begin < end); owners; owners &= owners - 1) {
    const int lane = __ffs(static_cast<int>(owners)) - 1;
    const long long first = __shfl_sync(FULL_MASK, begin, lane);
    const long long behind = __shfl_sync(FULL_MASK, end, lane);
    for (long long b = first + lane_id(); b < behind; b += WARP) start[b] = static_cast<int>(row - lane_id() + lane);
  }
}

// One block's BLOCK * ITEMS entries. y is zero: the block's first row and its last are added to it by atomics, the
// others stored. col_idx and values are aligned to 16 bytes.
template <typename V, typename I, int BLOCK, int ITEMS>
__global__ void __launch_bounds__(BLOCK)
    hola(I nnz, const int* __restrict__ start, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
         const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  constexpr int SHARE = BLOCK * ITEMS;
  constexpr int PAIRS = ITEMS / 2;
  // A thread reads its pairs back one by one: moved so that neighbouring threads' lie in different banks.
  constexpr int SHIFT = sizeof(V) == 8 ? 3 : 4;
  using Loads = EntryPairs<V, BLOCK, PAIRS>;
  __shared__ __align__(16) typename Loads::Pair pairs[SHARE / 2];
  __shared__ unsigned ends[SHARE / WARP];
  const auto at = [](int pair) { return pair ^ (pair >> SHIFT & (PAIRS - 1)); };

  const long long first = blockIdx.x * static_cast<long long>(SHARE);
  const int entries = static_cast<int>(nnz - first < SHARE ? nnz - first : SHARE);
  const int slots = (entries + 1) / 2;
  Loads loads(first, slots, nnz, col_idx, values);
  const int first_row = start[blockIdx.x], last_row = start[blockIdx.x + 1];
  if (first_row == last_row) {
    const V sum = block_sum<BLOCK>(loads.sum(0, entries, slots, nnz, col_idx, values, x));
    if (threadIdx.x == 0) atomicAdd(y + first_row, sum);
    return;
  }

  // visit(row, k) for the rows that end here, with the place of their last entry: a thread a row.
  const auto for_ends = [&](auto visit) {
    for (int row = first_row + static_cast<int>(threadIdx.x); row <= last_row; row += BLOCK) {
      const I end = row_ptr[row + 1];
      if (end > row_ptr[row] && end <= first + entries) visit(row, static_cast<int>(end - 1 - first));
    }
  };
#pragma unroll 1
  for (int word = threadIdx.x; word < SHARE / WARP; word += BLOCK) ends[word] = 0;
  __syncthreads();
  for_ends([&](int, int k) { atomicOr(ends + k / WARP, 1u << k % WARP); });
  loads.store(slots, nnz, col_idx, values, x, pairs, at);
  __syncthreads();

  V products[ITEMS];
  const int mine = threadIdx.x * ITEMS;
#pragma unroll
  for (int i = 0; i < PAIRS; ++i) {
    typename Loads::Pair pair = {V(0), V(0)};
    if (mine / 2 + i < slots) pair = pairs[at(mine / 2 + i)];
    products[2 * i] = pair.x;
    products[2 * i + 1] = pair.y;
  }
  const unsigned ends_here = ends[mine / WARP] >> mine % WARP & ((1u << ITEMS) - 1);
  // A row's sum takes the place of its last product: each thread writes where it alone has read.
  V* sums = reinterpret_cast<V*>(pairs);
  const auto place = [=](int k) { return 2 * at(k / 2) + k % 2; };
  const V open = sum_runs<BLOCK>(products, ends_here, lanes_back(ends_here != 0),
                                 [=](int i, V sum) { sums[place(mine + i)] = sum; });
  __syncthreads();
  for_ends([&](int row, int k) {
    if (row == first_row || row == last_row) {
      atomicAdd(y + row, sums[place(k)]);
    } else {
      y[row] = sums[place(k)];
    }
  });
  if (threadIdx.x == BLOCK - 1 && row_ptr[last_row + 1] > first + entries && row_ptr[last_row] < first + entries) {
    atomicAdd(y + last_row, open);
  }
}
