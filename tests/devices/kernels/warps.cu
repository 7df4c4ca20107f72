// Warps: shuffles, votes, matches and reductions of 32 lanes; row r of the result has the r-th built-in's values.

template <typename T, int WIDTH>
__global__ void shuffles(const T* items, T* result) {
  const int lane = threadIdx.x;
  const T mine = items[lane];
  result[lane] = __shfl_sync(0xffffffffu, mine, lane * 3, WIDTH);
  result[32 + lane] = __shfl_up_sync(0xffffffffu, mine, 3, WIDTH);
  result[64 + lane] = __shfl_down_sync(0xffffffffu, mine, 3, WIDTH);
  result[96 + lane] = __shfl_xor_sync(0xffffffffu, mine, 5, WIDTH);
}

__global__ void votes(const int* items, unsigned* result) {
  const int lane = threadIdx.x;
  const int mine = items[lane];
  const unsigned all = 0xffffffffu;
  result[lane] = __ballot_sync(all, mine > 3);
  result[32 + lane] = __any_sync(all, mine > 3);
  result[64 + lane] = __all_sync(all, mine > 3);
  result[96 + lane] = __match_any_sync(all, mine);
  result[128 + lane] = __reduce_add_sync(all, mine);
  result[160 + lane] = __reduce_min_sync(all, mine);
  result[192 + lane] = __reduce_max_sync(all, mine);
}

// The lower half warp and the upper one go different ways, each with its own mask.
__global__ void halves(const int* items, int* result) {
  const int lane = threadIdx.x;
  if (lane < 16) {
    result[lane] = __shfl_xor_sync(0x0000ffffu, items[lane], 1);
  } else {
    result[lane] = __shfl_xor_sync(0xffff0000u, items[lane], 2);
  }
}

// Lanes at the end leave early; the others go on without them.
__global__ void leavers(int stay, unsigned* result) {
  if (threadIdx.x >= stay) return;
  result[threadIdx.x] = __ballot_sync(0xffffffffu, 1);
}
