// What 0 reaches by following[i] > i: as `chain` of spmvbench/formats/arrays.py finds it by jumps of doubling length.
// The places are cut into segments of SEGMENT; a block each finds where paths leave its segment.
#include "search.cuh"
#include "spmv.cuh"

constexpr int SEGMENT = 8192;
constexpr int CHAIN_BLOCK = 1024;

// exits: the first place after the segment that each place reaches. At most n, the end, which follows itself.
__global__ void __launch_bounds__(CHAIN_BLOCK)
    chain_exits(int n, const int* __restrict__ following, int* __restrict__ exits) {
  __shared__ unsigned short last[2][SEGMENT];  // a place of the segment that each one reaches, the last in the end
  const int first = blockIdx.x * SEGMENT;
  const int here = n - first < SEGMENT ? n - first : SEGMENT;
  for (int i = threadIdx.x; i < here; i += CHAIN_BLOCK) {
    const int next = following[first + i] - first;
    last[0][i] = static_cast<unsigned short>(next < here ? next : i);
  }
  int now = 0;
  __syncthreads();
  for (bool changed = true; changed; now ^= 1) {
    changed = false;
    for (int i = threadIdx.x; i < here; i += CHAIN_BLOCK) {
      const unsigned short one = last[now][i], two = last[now][one];
      last[now ^ 1][i] = two;
      changed |= one != two;
    }
    changed = __syncthreads_or(changed);
  }
  for (int i = threadIdx.x; i < here; i += CHAIN_BLOCK) exits[first + i] = following[first + last[now][i]];
}

constexpr int AHEAD = 16;  // segments whose exits are read together
constexpr int NEAR = 256;  // of each the first places, one of which a path mostly enters

// enters: the first place of each segment that is reached, -1 if none is; by one thread of a block, which reads ahead.
__global__ void __launch_bounds__(CHAIN_BLOCK)
    chain_enters(int n, int segments, const int* __restrict__ exits, int* __restrict__ enters) {
  __shared__ int near[AHEAD][NEAR];
  int at = 0;
  for (int first = 0; first < segments; first += AHEAD) {
    for (int i = threadIdx.x; i < AHEAD * NEAR; i += CHAIN_BLOCK) {
      const long long place = static_cast<long long>(first + i / NEAR) * SEGMENT + i % NEAR;
      near[i / NEAR][i % NEAR] = place < n ? exits[place] : n;
    }
    __syncthreads();
    for (int s = 0; threadIdx.x == 0 && s < AHEAD && first + s < segments; ++s) {
      const int inside = at < n && at / SEGMENT == first + s ? at % SEGMENT : -1;
      enters[first + s] = inside < 0 ? -1 : at;
      if (inside >= 0) at = inside < NEAR ? near[s][inside] : exits[at];
    }
    __syncthreads();
  }
}

// The places of each segment that are reached: how many, or with STORE, from ptr[segment] on, which; then the end, n.
template <bool STORE, typename P>
__global__ void __launch_bounds__(CHAIN_BLOCK)
    chain_places(int n, const int* __restrict__ following, const int* __restrict__ enters, int* __restrict__ counts,
                 const P* __restrict__ ptr, int* __restrict__ places) {
  constexpr unsigned short LEAVES = SEGMENT;
  __shared__ unsigned short next[SEGMENT];
  __shared__ unsigned short reached[SEGMENT];
  __shared__ int count;
  const int segment = blockIdx.x;
  const int first = segment * SEGMENT;
  const int here = n - first < SEGMENT ? n - first : SEGMENT;
  for (int i = threadIdx.x; i < here; i += CHAIN_BLOCK) {
    const int after = following[first + i] - first;
    next[i] = after < here ? static_cast<unsigned short>(after) : LEAVES;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int found = 0;
    if (enters[segment] >= 0) {
      for (int i = enters[segment] - first; i != LEAVES; i = next[i]) reached[found++] = static_cast<unsigned short>(i);
    }
    count = found;
    if (!STORE) counts[segment] = found;
  }
  if (!STORE) return;
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += CHAIN_BLOCK) places[ptr[segment] + i] = first + reached[i];
  if (segment == gridDim.x - 1 && threadIdx.x == 0) places[ptr[segment + 1]] = n;
}
