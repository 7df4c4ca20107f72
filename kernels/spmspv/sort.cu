// y = A x for a sparse x by sorting: products with their rows as keys, sorted digit by digit, runs of a row then
// summed.
#include "counters.cuh"
#include "spmv.cuh"

// The products of all pieces, one after another in any order; their number goes to total[0], which is zero before.
template <typename V, typename I, int PIECE, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    expand_products(int* __restrict__ counters, const I* __restrict__ piece_begin,
                    const int* __restrict__ piece_entries, const V* __restrict__ piece_x,
                    const int* __restrict__ row_idx, const V* __restrict__ values, int* __restrict__ total,
                    int* __restrict__ key, V* __restrict__ product) {
  constexpr int GROUPS = BLOCK / PIECE;
  __shared__ int warp_count[BLOCK / WARP];
  __shared__ int first;
  const int lane = threadIdx.x % PIECE;
  const int warp = threadIdx.x / WARP;
  const int pieces = *static_cast<volatile int*>(counters);
  for (int tile = blockIdx.x * GROUPS; tile < pieces; tile += gridDim.x * GROUPS) {
    const int p = tile + static_cast<int>(threadIdx.x) / PIECE;
    const bool has = p < pieces && lane < piece_entries[p];
    const unsigned having = __ballot_sync(FULL_MASK, has);
    if (lane_id() == 0) warp_count[warp] = __popc(having);
    __syncthreads();
    if (threadIdx.x == 0) {
      int sum = 0;
      for (int w = 0; w < BLOCK / WARP; ++w) {
        const int count = warp_count[w];
        warp_count[w] = sum;
        sum += count;
      }
      first = atomicAdd(total, sum);
    }
    __syncthreads();
    if (has) {
      const I e = piece_begin[p] + lane;
      const int at = first + warp_count[warp] + __popc(having & ((1u << lane_id()) - 1));
      key[at] = row_idx[e];
      product[at] = values[e] * piece_x[p];
    }
    __syncthreads();
  }
  leave(counters, 2);
}

// The products of one block: as many for each, a multiple of BLOCK.
template <int BLOCK>
__device__ __forceinline__ long long share_of(int total) {
  const int tiles = (total + BLOCK - 1) / BLOCK;
  return static_cast<long long>((tiles + gridDim.x - 1) / gridDim.x) * BLOCK;
}

// How often each digit of so many bits occurs in each block's share: counts[digit * blocks + block].
template <int BITS, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    count_digits(const int* __restrict__ total, const int* __restrict__ key, int shift, int* __restrict__ counts) {
  constexpr int DIGITS = 1 << BITS;
  __shared__ int count[DIGITS];
  for (int d = threadIdx.x; d < DIGITS; d += BLOCK) count[d] = 0;
  __syncthreads();
  const int all = total[0];
  const long long share = share_of<BLOCK>(all);
  const long long begin = share * blockIdx.x;
  const long long end = begin + share < all ? begin + share : all;
  for (long long i = begin + threadIdx.x; i < end; i += BLOCK) atomicAdd(count + (key[i] >> shift & (DIGITS - 1)), 1);
  __syncthreads();
  for (int d = threadIdx.x; d < DIGITS; d += BLOCK) counts[d * gridDim.x + blockIdx.x] = count[d];
}

// The sum over the block's threads, in every one of them. Every thread arrives.
template <int BLOCK>
__device__ __forceinline__ int sum_of_block(int value) {
  __shared__ int warp_sum[BLOCK / WARP];
  __syncthreads();
  value = group_sum<WARP>(value);
  if (lane_id() == 0) warp_sum[threadIdx.x / WARP] = value;
  __syncthreads();
  int sum = 0;
  for (int w = 0; w < BLOCK / WARP; ++w) sum += warp_sum[w];
  return sum;
}

// A block a digit: where each of the `blocks` shares puts its first product of that digit.
template <int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    place_digits(int blocks, const int* __restrict__ counts, int* __restrict__ places) {
  __shared__ int warp_end[BLOCK / WARP];
  const long long mine = static_cast<long long>(blockIdx.x) * blocks;
  int before = 0;
  for (long long i = threadIdx.x; i < mine; i += BLOCK) before += counts[i];
  before = sum_of_block<BLOCK>(before);
  for (int first = 0; first < blocks; first += BLOCK) {
    const int block = first + threadIdx.x;
    const int count = block < blocks ? counts[mine + block] : 0;
    const int end = group_scan<WARP>(count);
    if (lane_id() == WARP - 1) warp_end[threadIdx.x / WARP] = end;
    __syncthreads();
    int earlier = before;
    for (int w = 0; w < static_cast<int>(threadIdx.x) / WARP; ++w) earlier += warp_end[w];
    if (block < blocks) places[mine + block] = earlier + end - count;
    for (int w = 0; w < BLOCK / WARP; ++w) before += warp_end[w];
    __syncthreads();
  }
}

// Every product to its place by this digit; those of one digit stay in order.
template <typename V, int BITS, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    move_products(const int* __restrict__ total, int shift, const int* __restrict__ places, const int* __restrict__ key,
                  const V* __restrict__ product, int* __restrict__ to_key, V* __restrict__ to_product) {
  constexpr int WARPS = BLOCK / WARP;
  constexpr int DIGITS = 1 << BITS;
  __shared__ int next[DIGITS];
  __shared__ int of_warp[WARPS][DIGITS];
  const int warp = threadIdx.x / WARP;
  for (int d = threadIdx.x; d < DIGITS; d += BLOCK) {
    next[d] = places[d * gridDim.x + blockIdx.x];
    for (int w = 0; w < WARPS; ++w) of_warp[w][d] = 0;
  }
  const int all = total[0];
  const long long share = share_of<BLOCK>(all);
  const long long begin = share * blockIdx.x;
  const long long end = begin + share < all ? begin + share : all;
  for (long long tile = begin; tile < end; tile += BLOCK) {
    const long long i = tile + threadIdx.x;
    const int k = i < end ? key[i] : 0;
    const int digit = i < end ? k >> shift & (DIGITS - 1) : DIGITS;
    const unsigned peers = __match_any_sync(FULL_MASK, digit);
    const int rank = __popc(peers & ((1u << lane_id()) - 1));
    __syncthreads();
    if (i < end && rank == 0) of_warp[warp][digit] = __popc(peers);
    __syncthreads();
    for (int d = threadIdx.x; d < DIGITS; d += BLOCK) {
      int at = next[d];
#pragma unroll
      for (int w = 0; w < WARPS; ++w) {
        const int count = of_warp[w][d];
        of_warp[w][d] = at;
        at += count;
      }
      next[d] = at;
    }
    __syncthreads();
    if (i < end) {
      const int at = of_warp[warp][digit] + rank;
      to_key[at] = k;
      to_product[at] = product[i];
    }
    __syncthreads();
    for (int d = threadIdx.x; d < DIGITS; d += BLOCK) {
      for (int w = 0; w < WARPS; ++w) of_warp[w][d] = 0;
    }
  }
}

// Runs of one row summed by a segmented scan; runs that warps share add to y, which is zero, by atomics.
template <typename V>
__global__ void sum_sorted(const int* __restrict__ total, const int* __restrict__ key, const V* __restrict__ product,
                           V* __restrict__ y) {
  const int all = total[0];
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long first = global_thread() - lane_id(); first < all; first += threads) {
    const long long i = first + lane_id();
    const int row = i < all ? key[i] : -1;
    const V sum = warp_segmented_scan(row, i < all ? product[i] : V(0));
    const int next = __shfl_down_sync(FULL_MASK, row, 1);
    if (row >= 0 && (lane_id() == WARP - 1 || next != row)) atomicAdd(y + row, sum);
  }
}
