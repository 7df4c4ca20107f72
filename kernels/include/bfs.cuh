// What searches share: bits of visited vertices, neighbours in quads, and lists that a warp writes together.
#pragma once
#include "spmv.cuh"

constexpr int SMALL_BLOCK = 1024;  // threads of the one block that runs level after level
constexpr int LARGE_BLOCK = 256;   // and of those that all run one
constexpr int LONG = 4;            // entries of a vertex from which on the warp lists them together

// A word that others set bits of at the same time: a bit that is seen is set, one that is not may be. On a GPU the
// nearest cache may answer.
__device__ __forceinline__ unsigned peek(const unsigned* word) {
#ifdef SPMVBENCH_EMULATED
  return *static_cast<const volatile unsigned*>(word);
#else
  return __ldca(word);
#endif
}

// What a thread has found after a quad: up to four new vertices (bits of `which`) with their quads.
struct Found {
  int begin[4];
  int count[4];
  unsigned which;
  int quads;
};

// Tests the neighbours that a quad holds, and gives what is new its level. SHARED: bits are in shared memory and decide
// which thread was first. Else levels do, as the bits of a whole neighbourhood share a few sectors, where atomics would
// wait in line; bits are looked at before, and where a vertex has quads is loaded before the first thread is known.
// SEEN: entries of `seen`, in shared memory, which holds vertices that the block has met: only the thread that met one
// first continues; 0 for none. PITCH: quads of each vertex, so that where they are is no load; 0 if they differ.
template <bool SHARED, int SEEN = 0, int PITCH = 0>
__device__ __forceinline__ Found visit(const int4 quad, unsigned* visited, const int* __restrict__ quad_ptr, int level,
                                       int* __restrict__ levels, int* seen = nullptr) {
  const int vertex[4] = {quad.x, quad.y, quad.z, quad.w};
  bool fresh[4];
  unsigned old[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    fresh[e] = e == 0 || vertex[e] != vertex[e > 0 ? e - 1 : 0];  // padding is the same again
    unsigned* const word = visited + vertex[e] / 32;
    old[e] = ~0u;
    if (fresh[e]) old[e] = SHARED ? atomicOr(word, 1u << vertex[e] % 32) : peek(word);
  }
  Found found = {};
  int end[4] = {};
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    fresh[e] = (old[e] >> vertex[e] % 32 & 1u) == 0;
    if (SEEN > 0 && fresh[e]) fresh[e] = atomicExch(seen + vertex[e] % (SEEN > 0 ? SEEN : 1), vertex[e]) != vertex[e];
    if (fresh[e]) {
      if (SHARED) levels[vertex[e]] = level;
      found.begin[e] = PITCH > 0 ? PITCH * vertex[e] : __ldg(quad_ptr + vertex[e]);
      end[e] = PITCH > 0 ? found.begin[e] + PITCH : __ldg(quad_ptr + vertex[e] + 1);
    }
  }
  if (!SHARED) {
#pragma unroll
    for (int e = 0; e < 4; ++e) fresh[e] = fresh[e] && atomicCAS(levels + vertex[e], -1, level) == -1;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (fresh[e]) atomicOr(visited + vertex[e] / 32, 1u << vertex[e] % 32);
    }
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (fresh[e]) {
      found.count[e] = end[e] - found.begin[e];
      found.quads += found.count[e];
      found.which |= 1u << e;
    }
  }
  return found;
}

// Lists begin, begin + step, ... of every lane of a warp, `count` of them from place `at` on. put(place, entry) stores
// one.
template <typename Put>
__device__ __forceinline__ void list_run(int begin, int count, int step, int at, Put put) {
  if (count < LONG) {
    for (int i = 0; i < count; ++i) put(at + i, begin + i * step);
  }
  for (unsigned many = __ballot_sync(FULL_MASK, count >= LONG); many; many &= many - 1) {
    const int lane = __ffs(many) - 1;
    const int first = __shfl_sync(FULL_MASK, begin, lane), entries = __shfl_sync(FULL_MASK, count, lane);
    const int by = __shfl_sync(FULL_MASK, step, lane), to = __shfl_sync(FULL_MASK, at, lane);
    for (int i = lane_id(); i < entries; i += WARP) put(to + i, first + i * by);
  }
}

// Lists what the lanes of a warp have found; `at` is where the lane's own begin.
template <typename Put>
__device__ __forceinline__ void list(const Found& found, int at, Put put) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    list_run(found.begin[e], found.count[e], 1, at, put);
    at += found.count[e];
  }
}

// The same where each vertex has PITCH quads, a few: they take no turns in the warp. places: those of this warp begin
// where `*tail` was, and all are listed that fall below `room`.
template <int PITCH>
__device__ __forceinline__ void list_few(const Found& found, int* tail, int* entries, int room) {
  const unsigned below = (1u << lane_id()) - 1;
  int place = 0, all = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const unsigned with = __ballot_sync(FULL_MASK, found.which >> e & 1u);
    place += __popc(with & below);
    all += __popc(with);
  }
  int at = 0;
  if (lane_id() == 0) at = atomicAdd(tail, PITCH * all);
  at = __shfl_sync(FULL_MASK, at, 0) + PITCH * place;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (found.which >> e & 1u) {
#pragma unroll
      for (int i = 0; i < PITCH; ++i) {
        if (at < room) entries[at] = found.begin[e] + i;
        ++at;
      }
    }
  }
}

// Whether a bit is set in words that no thread writes at the same time.
__device__ __forceinline__ bool is_set(const unsigned* __restrict__ bits, int vertex) {
  return (__ldg(bits + vertex / 32) >> vertex % 32 & 1u) != 0;
}

// Whether a vertex has a neighbour in `visited`: of the lanes with an open vertex, with its quads begin .. end. Each
// looks at a few quads by itself, then the warp looks at what is left of one after the other.
__device__ __forceinline__ bool finds(bool open, int begin, int end, const int4* __restrict__ neighbours,
                                      const unsigned* __restrict__ visited) {
  constexpr int ALONE = 4;
  const auto any_visited = [=](const int4 quad) {
    const bool a = is_set(visited, quad.x), b = is_set(visited, quad.y);
    const bool c = is_set(visited, quad.z), d = is_set(visited, quad.w);
    return a || b || c || d;
  };
  bool hit = false;
  int quad = begin;
  const int stop = open ? min(end, begin + ALONE) : begin;
  while (!hit && quad < stop) hit = any_visited(__ldg(neighbours + quad++));
  for (unsigned many = __ballot_sync(FULL_MASK, open && !hit && quad < end); many; many &= many - 1) {
    const int lane = __ffs(many) - 1;
    const int from = __shfl_sync(FULL_MASK, quad, lane), to = __shfl_sync(FULL_MASK, end, lane);
    bool any = false;
    for (int first = from; first < to && !any; first += WARP) {
      const int i = first + lane_id();
      any = __any_sync(FULL_MASK, i < to && any_visited(__ldg(neighbours + i)));
    }
    if (lane_id() == lane) hit = any;
  }
  return hit;
}

// Whether a frontier is too much for one block: more entries than shared memory holds, or twice as many as the level
// before had, and many.
__device__ __forceinline__ bool too_many(int count, int before, int room) {
  return count > room || (count > SMALL_BLOCK && count > 2 * before);
}

// Whether pulling is expected to read fewer neighbours than pushing: of a vertex's neighbours one in arcs / pushed is
// in the frontier, so a vertex without a level looks at that many before it finds one.
__device__ __forceinline__ bool pull_pays(int quads, int rest, int all_quads) {
  return static_cast<double>(rest) * all_quads < 4.0 * quads * static_cast<double>(quads);
}

// The device's clock in nanoseconds; 0 if there is none.
__device__ __forceinline__ long long nanoseconds() {
  long long now = 0;
#if defined(__CUDA_ARCH__)
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
#endif
  return now;
}

// Keeps (time, kernel) of each level up to `level` in trace[level], where a launch made several with equal shares of
// the time. noted: the last level that is kept. Kernel 0 is the start, of level 0.
__device__ __forceinline__ void note_levels(int level, int kernel, long long* __restrict__ trace, int capacity,
                                            int* __restrict__ noted) {
  const long long now = nanoseconds();
  const int last = kernel == 0 ? -1 : *noted;
  if (level <= last || level >= capacity) return;
  const long long before = kernel == 0 ? now : trace[2 * last];
  for (int each = last + 1; each <= level; ++each) {
    trace[2 * each] = before + (now - before) * (each - last) / (level - last);
    trace[2 * each + 1] = kernel;
  }
  *noted = level;
}
