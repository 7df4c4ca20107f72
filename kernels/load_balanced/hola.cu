// Globally homogeneous, locally adaptive SpMV on CSR (Steinberger, Zayer, Seidel, ICS'17): equal shares of the entries
// for every block and every thread; in a block, row ends are bits.
#include "shares.cuh"
#include "spmv.cuh"

// Adds what is open after each thread to the sum of the next row that ends in the block. first_end: the place, in sums,
// of the first row that ends in the thread; -1 if none does. A warp with row ends in fewer than half of its lanes adds
// up neighbours first, by a scan; in others every lane has its own atomic in shared memory. Returns, in the last thread,
// what is open after the block. Every thread must call it; sums are not complete before the next barrier.
template <int BLOCK, typename V>
__device__ __forceinline__ V add_open(int first_end, V open, V* sums) {
  constexpr int WARPS = BLOCK / WARP;
  __shared__ int warp_end[WARPS];  // the first of each warp's
  __shared__ V block_open;
  const int lane = lane_id(), warp = threadIdx.x / WARP;
  const unsigned with_ends = __ballot_sync(FULL_MASK, first_end >= 0);
  const unsigned later = with_ends & ~((2u << lane) - 1);
  const int of_later = __shfl_sync(FULL_MASK, first_end, later ? __ffs(static_cast<int>(later)) - 1 : 0);
  const int of_warp = __shfl_sync(FULL_MASK, first_end, with_ends ? __ffs(static_cast<int>(with_ends)) - 1 : 0);
  if (lane == 0) warp_end[warp] = of_warp;
  if (threadIdx.x == 0) block_open = V(0);
  bool adds = true;
  if (__popc(with_ends) < WARP / 2) {
    const int reach = lanes_back(first_end >= 0);
#pragma unroll
    for (int offset = 1; offset < WARP; offset *= 2) {
      const V before = __shfl_up_sync(FULL_MASK, open, offset);
      if (offset <= min(reach, lane)) open += before;
    }
    adds = lane == WARP - 1 || (with_ends >> (lane + 1) & 1u);
  }
  __syncthreads();
  int to = later ? of_later : -1;
#pragma unroll 1
  for (int w = warp + 1; to < 0 && w < WARPS; ++w) to = warp_end[w];
  if (adds) atomicAdd(to >= 0 ? sums + to : &block_open, open);
  __syncthreads();
  return block_open;
}

// One block's BLOCK * ITEMS entries; start and y are as tile_starts in tiles.cu leaves them. The block's first row and
// its last are added to y by atomics, the others stored. col_idx and values are aligned to 16 bytes. SCAN: open sums of
// threads are combined by a scan over the block; else as add_open does. ORDERED: all rows that end here are stored, and
// carry[block] is what is open after the last one, for carry_ordered.
template <typename V, typename I, int BLOCK, int ITEMS, bool SCAN, bool ORDERED, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    hola(int rows, I nnz, const int* __restrict__ start, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
         const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y, V* __restrict__ carry) {
  constexpr int SHARE = BLOCK * ITEMS;
  constexpr int PAIRS = ITEMS / 2;
  constexpr int EARLY = 2;  // rows of a thread whose pointers are loaded together with the entries
  // A thread reads its pairs back one by one: moved so that neighbouring threads' are in different banks.
  constexpr int SHIFT = sizeof(V) == 8 ? 3 : 4;
  using Loads = EntryPairs<V, BLOCK, PAIRS, S>;
  using Pair = typename Loads::Pair;
  __shared__ __align__(16) Pair pairs[SHARE / 2];
  __shared__ unsigned ends[SHARE / WARP];
  const auto at = [](int pair) { return pair ^ (pair >> SHIFT & (PAIRS - 1)); };

  const long long first = blockIdx.x * static_cast<long long>(SHARE);
  const int entries = static_cast<int>(nnz - first < SHARE ? nnz - first : SHARE);
  const int slots = (entries + 1) / 2;
  const int first_row = start[blockIdx.x], last_row = min(start[blockIdx.x + 1], rows - 1);
  Loads loads(first, slots, nnz, col_idx, values);
  if (first_row == last_row) {
    const V sum = block_sum<BLOCK>(loads.sum(0, entries, slots, nnz, col_idx, values, x));
    if (threadIdx.x > 0) return;
    if constexpr (ORDERED) {
      const bool ends_here = row_ptr[first_row + 1] <= first + entries;
      if (ends_here) y[first_row] = sum;
      carry[blockIdx.x] = ends_here ? V(0) : sum;
    } else {
      atomicAdd(y + first_row, sum);
    }
    return;
  }
  // After a thread's last row both pointers are its end: it is passed over as an empty one.
  I row_begin[EARLY], row_end[EARLY];
  const int own_row = first_row + static_cast<int>(threadIdx.x);
#pragma unroll
  for (int u = 0; u < EARLY; ++u) {
    const int row = own_row + u * BLOCK;
    row_begin[u] = row_ptr[min(row, last_row + 1)];
    row_end[u] = row_ptr[min(row, last_row) + 1];
  }
  Pair gathered[PAIRS];
  loads.gather(x, gathered);

  // visit(row, k) for the rows that end here, with the place of their last entry.
  const auto visit_end = [=](int row, I begin, I end, auto visit) {
    if (end > begin && end <= first + entries) visit(row, static_cast<int>(end - 1 - first));
  };
  const auto for_ends = [&](auto visit) {
#pragma unroll
    for (int u = 0; u < EARLY; ++u) visit_end(own_row + u * BLOCK, row_begin[u], row_end[u], visit);
#pragma unroll 1
    for (int row = own_row + EARLY * BLOCK; row <= last_row; row += BLOCK) {
      visit_end(row, row_ptr[row], row_ptr[row + 1], visit);
    }
  };
#pragma unroll 1
  for (int word = threadIdx.x; word < SHARE / WARP; word += BLOCK) ends[word] = 0;
  __syncthreads();
  for_ends([&](int, int k) { atomicOr(ends + k / WARP, 1u << k % WARP); });
#pragma unroll
  for (int i = 0; i < PAIRS; ++i) {
    const int pair = i * BLOCK + static_cast<int>(threadIdx.x);
    if (pair < loads.count) pairs[at(pair)] = {loads.values[i].x * gathered[i].x, loads.values[i].y * gathered[i].y};
  }
  if (loads.count < slots && threadIdx.x == 0) {  // the matrix's last entry is alone
    pairs[at(loads.count)] = {values[nnz - 1] * load_x(x, col_idx[nnz - 1]), V(0)};
  }
  __syncthreads();

  // A row's sum takes the place of its last product: each thread writes where it alone has read.
  V* sums = reinterpret_cast<V*>(pairs);
  const auto place = [=](int k) { return 2 * at(k / 2) + k % 2; };
  const int mine = threadIdx.x * ITEMS;
  const unsigned ends_here = ends[mine / WARP] >> mine % WARP & ((1u << ITEMS) - 1);
  V open = 0;
#pragma unroll
  for (int i = 0; i < PAIRS; ++i) {
    if (mine / 2 + i < slots) {
      Pair pair = pairs[at(mine / 2 + i)];
      pair.x += open;
      pair.y += ends_here >> 2 * i & 1 ? V(0) : pair.x;
      open = ends_here >> (2 * i + 1) & 1 ? V(0) : pair.y;
      pairs[at(mine / 2 + i)] = pair;
    }
  }
  const int first_end = ends_here ? place(mine + __ffs(static_cast<int>(ends_here)) - 1) : -1;
  if constexpr (SCAN) {
    const V carry = open_before<BLOCK>(open, lanes_back(ends_here != 0));
    if (ends_here) sums[first_end] += carry;
  } else {
    open = add_open<BLOCK>(first_end, open, sums);
  }
  __syncthreads();
  for_ends([&](int row, int k) {
    if (!ORDERED && (row == first_row || row == last_row)) {
      atomicAdd(y + row, sums[place(k)]);
    } else {
      y[row] = sums[place(k)];
    }
  });
  if (threadIdx.x < BLOCK - 1) return;
  const bool goes_on = row_ptr[last_row + 1] > first + entries && row_ptr[last_row] < first + entries;
  if constexpr (ORDERED) {
    carry[blockIdx.x] = goes_on ? open : V(0);
  } else if (goes_on) {
    atomicAdd(y + last_row, open);
  }
}
