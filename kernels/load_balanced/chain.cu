// What 0 reaches by following[i] > i: as `chain` of spmvbench/formats/arrays.py finds it by jumps of doubling length.
// The places are cut into segments of SEGMENT; a block each finds where paths leave its segment.
#include "offsets.cuh"
#include "search.cuh"
#include "spmv.cuh"

constexpr int SEGMENT = 8192;
constexpr int CHAIN_BLOCK = 1024;

// last, two of them: a place of the segment that each place reaches, the last in the end, in the one that is returned.
// Every thread of the block arrives.
__device__ __forceinline__ int reach_last(const int* __restrict__ following, int first, int here,
                                          unsigned short (*last)[SEGMENT]) {
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
  return now;
}

// exits: the first place after the segment that each place reaches. At most n, the end, which follows itself.
__global__ void __launch_bounds__(CHAIN_BLOCK)
    chain_exits(int n, const int* __restrict__ following, int* __restrict__ exits) {
  __shared__ unsigned short last[2][SEGMENT];
  const int first = blockIdx.x * SEGMENT;
  const int here = n - first < SEGMENT ? n - first : SEGMENT;
  const int now = reach_last(following, first, here, last);
  for (int i = threadIdx.x; i < here; i += CHAIN_BLOCK) exits[first + i] = following[first + last[now][i]];
}

constexpr int AHEAD = 32;  // segments whose exits are read together
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

constexpr int PART = 256;   // places of a segment that a thread walks
constexpr int SHORT = 512;  // places of a segment that are reached, of which one thread walks all
static_assert(SEGMENT / PART == CHAIN_BLOCK / WARP, "a warp for each part");

constexpr int NOT_ENTERED = -1;
constexpr int MOST_IN_TURN = 16;  // segments, whose blocks wait for each other

// The first place of a segment that is reached, or NOT_ENTERED, in one thread: the block of an earlier segment has told, or
// will. enters: of each segment that plus two, zero before. leave(place): the first place after the segment that a place
// of it reaches; it is told to the segments from there back to this one.
template <typename Leave>
__device__ __forceinline__ int entered(int n, int segment, int segments, int* enters, Leave leave) {
  int word = 0;
  while (segment && !(word = atomicAdd(enters + segment, 0))) __nanosleep(20);
  const int enter = segment ? word - 2 : 0;
  if (enter == NOT_ENTERED) return enter;
  const int exit = leave(enter);
  const int next = exit < n ? exit / SEGMENT : segments;
  if (next < segments) atomicExch(enters + next, exit + 2);
  for (int s = segment + 1; s < next; ++s) atomicExch(enters + s, NOT_ENTERED + 2);
  return enter;
}

// The places that are reached, then the end, n. A block takes a segment, after the places of those before it: see
// offsets.cuh, also for `state`. One thread walks few of them; of more, it finds where paths enter the segment's parts, and
// one for each part walks it. enters: of `chain_enters`; IN_TURN: zero before, blocks find them one after the other.
template <bool IN_TURN>
__global__ void __launch_bounds__(CHAIN_BLOCK)
    chain_places(int n, const int* __restrict__ following, int* __restrict__ enters, int* __restrict__ places,
                 unsigned long long* __restrict__ state) {
  constexpr unsigned short LEAVES = SEGMENT;
  constexpr int PARTS = SEGMENT / PART;
  __shared__ unsigned short room[2][SEGMENT];  // first as `reach_last` needs it
  unsigned short* const next = room[0];
  // A place of the same part that each one reaches, the last in the end.
  unsigned char (*const last)[SEGMENT] = reinterpret_cast<unsigned char (*)[SEGMENT]>(room[1]);
  __shared__ unsigned short few[SHORT];
  __shared__ int enter[PARTS];
  __shared__ int count[PARTS];
  __shared__ int walked, begun, entry;
  __shared__ long long to;  // where the segment's places are stored
  if (threadIdx.x == 0) begun = static_cast<int>(atomicAdd(state + OFFSETS_NOTES - 1, 1ull));
  __syncthreads();
  const int segment = begun;
  const int first = segment * SEGMENT;
  const int here = n - first < SEGMENT ? n - first : SEGMENT;
  if (IN_TURN) {
    const int now = reach_last(following, first, here, room);
    const auto leave = [&](int place) { return following[first + room[now][place - first]]; };
    if (threadIdx.x == 0) entry = entered(n, segment, static_cast<int>(gridDim.x), enters, leave);
  } else if (threadIdx.x == 0) {
    entry = enters[segment];
  }
  __syncthreads();
  const int begin = entry < 0 ? static_cast<int>(LEAVES) : entry - first;
  for (int i = threadIdx.x; i < here; i += CHAIN_BLOCK) {
    const int after = following[first + i] - first;
    next[i] = after < here ? static_cast<unsigned short>(after) : LEAVES;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int found = 0;
    for (int i = begin; i != LEAVES && found <= SHORT; i = next[i], ++found) {
      if (found < SHORT) few[found] = static_cast<unsigned short>(i);
    }
    walked = found;
  }
  __syncthreads();
  const bool whole = walked <= SHORT;
  const int part = threadIdx.x / WARP;
  int now = 0, before = 0, total = walked;
  if (!whole) {
    if (lane_id() == 0) {
      enter[part] = -1;
      count[part] = 0;
    }
    for (int i = threadIdx.x; i < here; i += CHAIN_BLOCK) {
      const int after = next[i];
      last[0][i] = static_cast<unsigned char>(after < here && after / PART == i / PART ? after % PART : i % PART);
    }
    __syncthreads();
    for (bool changed = true; changed; now ^= 1) {
      changed = false;
      for (int i = threadIdx.x; i < here; i += CHAIN_BLOCK) {
        const unsigned char one = last[now][i], two = last[now][i / PART * PART + one];
        last[now ^ 1][i] = two;
        changed |= one != two;
      }
      changed = __syncthreads_or(changed);
    }
    if (threadIdx.x == 0) {
      for (int i = begin; i != LEAVES; i = next[i / PART * PART + last[now][i]]) enter[i / PART] = i;
    }
    __syncthreads();
    if (lane_id() == 0 && enter[part] >= 0) {
      int found = 0;
      for (int i = enter[part]; i != LEAVES && i / PART == part; i = next[i]) {
        last[now ^ 1][part * PART + found++] = static_cast<unsigned char>(i % PART);
      }
      count[part] = found;
    }
    __syncthreads();
    total = 0;
    for (int p = 0; p < PARTS; ++p) {
      if (p < part) before += count[p];
      total += count[p];
    }
  }
  if (part == 0) {
    const long long earlier = look_back(state + OFFSETS_NOTES, segment, total);
    if (lane_id() == 0) to = earlier;
  }
  __syncthreads();
  if (whole) {
    for (int i = threadIdx.x; i < total; i += CHAIN_BLOCK) places[to + i] = first + few[i];
  } else {
    for (int i = lane_id(); i < count[part]; i += WARP) {
      places[to + before + i] = first + part * PART + last[now ^ 1][part * PART + i];
    }
  }
  if (segment == gridDim.x - 1 && threadIdx.x == 0) {
    places[to + total] = n;
    state[OFFSETS_NOTES - 2] = static_cast<unsigned long long>(to + total);
  }
}
