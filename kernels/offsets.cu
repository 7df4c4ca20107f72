// Offsets from counts in one pass: exclusive prefix sums by decoupled look-back (Merrill & Garland, NVR-2016-002).
#include "spmv.cuh"

constexpr int OFFSETS_BLOCK = 256;
constexpr int OFFSETS_EACH = 8;   // counts of a thread
constexpr int OFFSETS_NOTES = 4;  // words before those of blocks: two for kernels before, the total, blocks begun

constexpr unsigned long long OWN_SUM = 1ull << 62, WHOLE_SUM = 2ull << 62;  // what a block's word says; 0: nothing yet

// What is before a block's counts, in every lane of its first warp. words: of all blocks, zero before.
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

// In 32 and in 64 bits, for the total alone says which is needed. state: zero, but for its first two words.
template <typename C>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    offsets(long long n, const C* __restrict__ counts, int* __restrict__ narrow, long long* __restrict__ wide,
            unsigned long long* __restrict__ state) {
  constexpr int WARPS = OFFSETS_BLOCK / WARP;
  __shared__ long long of_warp[WARPS];
  __shared__ long long block_and_before[2];
  if (threadIdx.x == 0) block_and_before[0] = static_cast<long long>(atomicAdd(state + 3, 1ull));  // in order of begin
  __syncthreads();
  const long long block = block_and_before[0];
  const int warp = threadIdx.x / WARP;
  const long long first = (block * WARPS + warp) * (WARP * OFFSETS_EACH) + lane_id();

  long long sum[OFFSETS_EACH];
#pragma unroll
  for (int i = 0; i < OFFSETS_EACH; ++i) {
    const long long at = first + i * WARP;
    sum[i] = at < n ? static_cast<long long>(counts[at]) : 0;
  }
  long long total = 0;
#pragma unroll
  for (int i = 0; i < OFFSETS_EACH; ++i) {
    sum[i] = total + group_scan<WARP>(sum[i]);
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
    const long long before = look_back(state + 4, block, all);
    if (lane_id() == 0) block_and_before[1] = before;
  }
  __syncthreads();
  const long long before = block_and_before[1] + inside;
#pragma unroll
  for (int i = 0; i < OFFSETS_EACH; ++i) {
    const long long at = first + i * WARP;
    if (at >= n) continue;
    narrow[at + 1] = static_cast<int>(before + sum[i]);
    wide[at + 1] = before + sum[i];
  }
  if (threadIdx.x == 0 && block == 0) narrow[0] = wide[0] = 0;
  if (threadIdx.x == 0 && block == gridDim.x - 1) state[2] = static_cast<unsigned long long>(before + all);
}
