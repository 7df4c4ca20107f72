// Exclusive prefix sums in one pass, of numbers that the kernel itself counts: decoupled look-back (Merrill & Garland,
// NVR-2016-002). spmvbench/formats/conversion.py launches such kernels.
#pragma once
#include "spmv.cuh"

constexpr int OFFSETS_BLOCK = 256;
constexpr int OFFSETS_EACH = 8;   // numbers of a thread, where counting one takes few loads
constexpr int OFFSETS_NOTES = 5;  // words before those of blocks: three for the kernel, the total, blocks begun

constexpr unsigned long long OWN_SUM = 1ull << 62, WHOLE_SUM = 2ull << 62;  // what a block's word says; 0: nothing yet

// What is before a block's numbers, in every lane of its first warp. words: of all blocks, zero before.
__device__ __forceinline__ long long look_back(unsigned long long* words, long long block, long long total) {
  if (lane_id() == 0) atomicExch(words + block, (block ? OWN_SUM : WHOLE_SUM) | total);
  long long before = 0;
  for (long long last = block - 1; last >= 0; last -= WARP) {
    unsigned long long word = WHOLE_SUM;
    if (last >= lane_id()) {
      while (!((word = atomicAdd(words + (last - lane_id()), 0ull)) >> 62)) __nanosleep(20);
    }
    __syncwarp();
    const unsigned whole = __ballot_sync(FULL_MASK, word >> 62 == 2);
    const int needed = whole ? __ffs(static_cast<int>(whole)) : WARP;
    const long long sum = lane_id() < needed ? static_cast<long long>(word & (OWN_SUM - 1)) : 0;
    before += __shfl_sync(FULL_MASK, group_sum<WARP>(sum), 0);
    if (whole) break;
  }
  if (lane_id() == 0 && block) atomicExch(words + block, WHOLE_SUM | (before + total));
  return before;
}

// each(at, sum before, number) for each of n places. count(at): its number, below 2^62 in all; whole warps ask it for 32
// neighbours, beyond n too, where it gives 0. A block takes EACH * OFFSETS_BLOCK places; or EACH * `share` a warp, where the
// warp counts one place after the other, for the first of its 32 neighbours. state: zero before, but for the first three
// words; the fourth will be the total.
template <int EACH, typename Count, typename Each>
__device__ __forceinline__ void sum_before(long long n, unsigned long long* __restrict__ state, Count count, Each each,
                                           int share = WARP) {
  constexpr int WARPS = OFFSETS_BLOCK / WARP;
  __shared__ long long of_warp[WARPS];
  __shared__ long long block_and_before[2];
  if (threadIdx.x == 0)
    block_and_before[0] = static_cast<long long>(atomicAdd(state + OFFSETS_NOTES - 1, 1ull));  // in order of begin
  __syncthreads();
  const long long block = block_and_before[0];
  const int warp = threadIdx.x / WARP;
  const long long first = (block * WARPS + warp) * (share * EACH) + lane_id();

  long long number[EACH], sum[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const long long found = count(first + i * share);
    number[i] = lane_id() < share ? found : 0;
  }
  long long total = 0;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    sum[i] = total + group_scan<WARP>(number[i]);
    total = __shfl_sync(FULL_MASK, sum[i], WARP - 1);
  }
  if (lane_id() == 0) of_warp[warp] = total;
  __syncthreads();
  long long inside = 0, all = 0;
  for (int w = 0; w < WARPS; ++w) {
    if (w < warp) inside += of_warp[w];
    all += of_warp[w];
  }
  if (warp == 0) {
    const long long before = look_back(state + OFFSETS_NOTES, block, all);
    if (lane_id() == 0) block_and_before[1] = before;
  }
  __syncthreads();
  const long long before = block_and_before[1] + inside;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const long long at = first + i * share;
    if (at < n && lane_id() < share) each(at, before + sum[i] - number[i], number[i]);
  }
  if (threadIdx.x == 0 && block == gridDim.x - 1) {
    state[OFFSETS_NOTES - 2] = static_cast<unsigned long long>(block_and_before[1] + all);
  }
}

// The sums, with the total at the end. ptr: (n + 1,).
template <int EACH, typename P, typename Count>
__device__ __forceinline__ void write_offsets(long long n, P* __restrict__ ptr, unsigned long long* __restrict__ state,
                                              Count count, int share = WARP) {
  sum_before<EACH>(
      n, state, count,
      [&](long long at, long long before, long long number) { ptr[at + 1] = static_cast<P>(before + number); }, share);
  if (blockIdx.x == 0 && threadIdx.x == 0) ptr[0] = 0;
}
