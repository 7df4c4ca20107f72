// Breadth-first search over adjacency in quads: every vertex's neighbours are padded to a multiple of four by the last
// one again; in_ptr and in_neighbours are the same of the arcs that come in. A frontier is a list of quads, so that
// threads share the arcs of hubs and of leaves alike; visited vertices are bits. Nobody waits for a host: each kernel
// reads from the frontier's own notes what is to be done with it.
#include "search.cuh"
#include "bfs.cuh"

// A frontier, one of three that alternate: while one is expanded, the next is made and the one after that cleared.
// sizes: its quads in the low half, its vertices in the high half. notes: four numbers each, as below.
constexpr int FRONTIERS = 3;
constexpr int NOTES = 4;
constexpr int LEVEL = 0;    // of its vertices
constexpr int CURRENT = 1;  // which of the two arrays of visited bits holds them and all before them
constexpr int REST = 2;     // vertices with neighbours that no earlier frontier holds
constexpr int LISTED = 3;   // how its quads are known:
constexpr int IN_QUEUE = 1;
constexpr int BY_BITS = 0;    // not yet: its vertices are the difference of the two arrays
constexpr int BY_LEVELS = 2;  // not yet: its vertices are those of the level

__device__ __forceinline__ int quads_in(unsigned long long size) { return static_cast<int>(size & 0xffffffffu); }

__device__ __forceinline__ unsigned long long size_of(int vertices, int quads) {
  return (static_cast<unsigned long long>(vertices) << 32) + static_cast<unsigned>(quads);
}

__device__ __forceinline__ int vertices_in(unsigned long long size) { return static_cast<int>(size >> 32); }

// Levels to -1, visited bits to 0 but for the source, whose quads are the first frontier. PLACED: vertices have places
// of their own, and the source is named by the matrix's number.
template <bool PLACED>
__global__ void bfs_start(const int* __restrict__ source, const int* __restrict__ place, int vertices, int linked,
                          const int* __restrict__ quad_ptr, int* __restrict__ levels, unsigned* __restrict__ visited,
                          int* __restrict__ queue, unsigned long long* __restrict__ sizes, int* __restrict__ notes) {
  int first = *source;
  const bool inside = first >= 0 && first < vertices;
  if (!inside) first = -1;
  if (PLACED && inside) first = place[first];
  const int stride = gridDim.x * blockDim.x;
  for (long long i = global_thread(); i < vertices; i += stride) {
    levels[i] = i == first ? 0 : -1;
    if (i % 32 == 0) visited[i / 32] = inside && first / 32 == i / 32 ? 1u << first % 32 : 0u;
  }
  if (blockIdx.x > 0) return;
  const int begin = inside ? quad_ptr[first] : 0;
  const int quads = inside ? quad_ptr[first + 1] - begin : 0;
  for (int i = threadIdx.x; i < quads; i += blockDim.x) queue[i] = begin + i;
  if (threadIdx.x < FRONTIERS) {
    const bool now = threadIdx.x == 0;
    sizes[threadIdx.x] = now && quads > 0 ? (1ull << 32) + quads : 0ull;
    int* const of = notes + NOTES * threadIdx.x;
    of[LEVEL] = 0;
    of[CURRENT] = 0;
    of[REST] = linked;
    of[LISTED] = IN_QUEUE;
  }
}

// Level after level by one block, from a frontier of at most `enter` quads until one has none or too many. room: what
// shared memory holds. KEPT: visited bits are in shared memory meanwhile. PITCH: quads of each vertex; 0 if they differ.
template <bool KEPT, int PITCH>
__global__ void __launch_bounds__(SMALL_BLOCK)
    bfs_small(int words, int enter, int room, const int* __restrict__ quad_ptr, const int4* __restrict__ neighbours,
              unsigned* visited, int* __restrict__ levels, const int* __restrict__ queue,
              unsigned long long* __restrict__ sizes, int* __restrict__ notes) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  __shared__ int tail[3];  // of the frontier that is made, alternating: the next one's is cleared at the same time
  __shared__ int all_found;
  const unsigned long long size = sizes[0];
  int count = quads_in(size);
  const int listed = notes[LISTED];
  if (count == 0 || count > enter || listed == BY_LEVELS) return;
  int level = notes[LEVEL];
  unsigned* const global_bits = visited + static_cast<long long>(notes[CURRENT]) * words;
  const unsigned* const other_bits = visited + static_cast<long long>(1 - notes[CURRENT]) * words;
  int* here = reinterpret_cast<int*>(dynamic_shared);
  int* there = here + room;
  unsigned* const bits = KEPT ? reinterpret_cast<unsigned*>(here + 2 * room) : global_bits;

  if (threadIdx.x == 0) tail[0] = tail[1] = tail[2] = all_found = 0;
  __syncthreads();
  if (KEPT) {
    for (int w = threadIdx.x; w < words; w += SMALL_BLOCK) bits[w] = global_bits[w];
  }
  if (listed == IN_QUEUE) {
    for (int i = threadIdx.x; i < count; i += SMALL_BLOCK) here[i] = queue[i];
  } else {
    for (int w = threadIdx.x; w < words; w += SMALL_BLOCK) {
      for (unsigned fresh = global_bits[w] & ~other_bits[w]; fresh; fresh &= fresh - 1) {
        const int vertex = 32 * w + __ffs(fresh) - 1;
        const int begin = quad_ptr[vertex], quads = quad_ptr[vertex + 1] - begin;
        const int at = atomicAdd(&tail[2], quads);
        for (int i = 0; i < quads; ++i) here[at + i] = begin + i;
      }
    }
  }
  __syncthreads();

  int found_vertices = 0;
  int iteration = 0, before = 0;
  do {
    ++level;
    for (int first = 0; first < count; first += SMALL_BLOCK) {
      const int i = first + threadIdx.x;
      Found found = {};
      if (i < count) found = visit<KEPT, 0, PITCH>(__ldg(neighbours + here[i]), bits, quad_ptr, level, levels);
      if (!__any_sync(FULL_MASK, found.which != 0)) continue;
      found_vertices += __popc(found.which);
      if (PITCH > 0) {
        list_few<PITCH>(found, &tail[iteration], there, room);
        continue;
      }
      const int through = group_scan<WARP>(found.quads);
      int at = 0;
      if (lane_id() == WARP - 1) at = atomicAdd(&tail[iteration], through);
      at = __shfl_sync(FULL_MASK, at, WARP - 1);
      if (at > room) continue;  // too many: they are not listed here
      list(found, at + through - found.quads, [=](int place, int quad) {
        if (place < room) there[place] = quad;
      });
    }
    const int after = (iteration + 1) % 3;
    if (threadIdx.x == 0) tail[after] = 0;
    __syncthreads();
    before = count;
    count = tail[iteration];
    iteration = after;
    int* const swapped = here;
    here = there;
    there = swapped;
  } while (count > 0 && !too_many(count, before, room));

  if (count > 0) {
    if (KEPT) {
      for (int w = threadIdx.x; w < words; w += SMALL_BLOCK) global_bits[w] = bits[w];
    }
    const int of_warp = group_sum<WARP>(found_vertices);
    if (lane_id() == 0) atomicAdd(&all_found, of_warp);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    notes[LEVEL] = level;
    notes[REST] -= vertices_in(size) + all_found;  // this frontier's own are taken off too: its size names none
    notes[LISTED] = BY_LEVELS;
    sizes[0] = count;
  }
}

// One level by all blocks: a frontier makes the one after it, or where it is not listed the same, listed. iteration: of
// the loop's body; it gives which frontier, and which half of the queue. PULL: vertices without a level may look for a
// neighbour that has one, where that pays.
template <bool PULL, int SEEN>
__global__ void __launch_bounds__(LARGE_BLOCK)
    bfs_level(int iteration, int vertices, int scanned, int words, int all_quads, const int* __restrict__ quad_ptr,
              const int4* __restrict__ neighbours, const int* __restrict__ in_ptr,
              const int4* __restrict__ in_neighbours, unsigned* visited, int* __restrict__ levels,
              int* __restrict__ queue, long long queue_room, unsigned long long* __restrict__ sizes,
              int* __restrict__ notes) {
  constexpr int WARPS = LARGE_BLOCK / WARP;
  const int now = iteration % FRONTIERS, following = (iteration + 1) % FRONTIERS;
  const int* const from = queue + iteration % 2 * queue_room;
  int* const to = queue + (1 - iteration % 2) * queue_room;
  // All loads for the first steps are issued at once, whatever the steps will be.
  long long i = global_thread();
  int quad = i < queue_room ? from[i] : 0;
  const unsigned long long size = sizes[now];
  const int* const of = notes + NOTES * now;
  const int level_now = of[LEVEL], current = of[CURRENT], rest_before = of[REST], listed = of[LISTED];
  const int quads = quads_in(size);
  const bool last = blockIdx.x == 0 && threadIdx.x == 0;  // writes what is one number
  if (last) sizes[(iteration + 2) % FRONTIERS] = 0;
  if (quads == 0) return;
  const int rest = rest_before - vertices_in(size);
  const bool pull = PULL && (listed == BY_BITS || pull_pays(quads, rest, all_quads));
  const bool relist = !pull && listed == BY_LEVELS;
  const int level = level_now + !relist;
  if (last) {
    int* const noted = notes + NOTES * following;
    noted[LEVEL] = level;
    noted[CURRENT] = pull ? 1 - current : current;
    noted[REST] = rest;
    noted[LISTED] = pull ? BY_BITS : IN_QUEUE;
  }
  unsigned* const bits = visited + static_cast<long long>(current) * words;
  const int warp = threadIdx.x / WARP;

  if (pull) {
    __shared__ int found_by_warp[2][WARPS];
    unsigned* const new_bits = visited + static_cast<long long>(1 - current) * words;
    int found_vertices = 0, found_quads = 0;
    for (int w = blockIdx.x * WARPS + warp; w < words; w += gridDim.x * WARPS) {
      const unsigned old = __ldg(bits + w);
      const int vertex = 32 * w + lane_id();
      const bool open = vertex < scanned && (old >> lane_id() & 1u) == 0;
      const int begin = open ? __ldg(in_ptr + vertex) : 0, end = open ? __ldg(in_ptr + vertex + 1) : 0;
      const bool hit = finds(open, begin, end, in_neighbours, bits);
      if (hit) {
        levels[vertex] = level;
        ++found_vertices;
        found_quads += __ldg(quad_ptr + vertex + 1) - __ldg(quad_ptr + vertex);
      }
      const unsigned fresh = __ballot_sync(FULL_MASK, hit);
      if (lane_id() == 0) new_bits[w] = old | fresh;
    }
    const int vertices_of_warp = group_sum<WARP>(found_vertices), quads_of_warp = group_sum<WARP>(found_quads);
    if (lane_id() == 0) {
      found_by_warp[0][warp] = vertices_of_warp;
      found_by_warp[1][warp] = quads_of_warp;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned long long sum = 0;
#pragma unroll
      for (int w = 0; w < WARPS; ++w) sum += size_of(found_by_warp[0][w], found_by_warp[1][w]);
      if (sum) atomicAdd(sizes + following, sum);
    }
    return;
  }

  // What a block finds is listed by all of its threads, a quad each: some of them find much more than others.
  constexpr int MOST_TOGETHER = 4 * LARGE_BLOCK;
  __shared__ int quads_by_warp[2][WARPS], vertices_by_warp[2][WARPS];
  __shared__ int begins[4 * LARGE_BLOCK], places[4 * LARGE_BLOCK];
  __shared__ int listed_from;
  __shared__ int seen[SEEN > 0 ? SEEN : 1];
  if (SEEN > 0) {
    for (int k = threadIdx.x; k < SEEN; k += LARGE_BLOCK) seen[k] = -1;
    __syncthreads();
  }
  const long long stride = static_cast<long long>(gridDim.x) * LARGE_BLOCK;
  const int all = relist ? vertices : quads;
  int side = 0;
  for (long long first = i - threadIdx.x; first < all; first += stride, side ^= 1) {
    i = first + threadIdx.x;
    Found found = {};
    if (relist) {
      if (i < all && levels[i] == level) {
        found.begin[0] = __ldg(quad_ptr + i);
        found.quads = found.count[0] = __ldg(quad_ptr + i + 1) - found.begin[0];
        found.which = 1;
      }
    } else if (i < all) {
      found = visit<false, SEEN>(__ldg(neighbours + quad), bits, quad_ptr, level, levels, seen);
    }
    if (i + stride < all && !relist) quad = from[i + stride];
    const int mine = __popc(found.which);
    const int quads_through = group_scan<WARP>(found.quads), vertices_through = group_scan<WARP>(mine);
    if (lane_id() == WARP - 1) {
      quads_by_warp[side][warp] = quads_through;
      vertices_by_warp[side][warp] = vertices_through;
    }
    __syncthreads();
    int place = quads_through - found.quads, k = vertices_through - mine;
    int total = 0, total_vertices = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      if (w == warp) place += total, k += total_vertices;
      total += quads_by_warp[side][w];
      total_vertices += vertices_by_warp[side][w];
    }
    if (total_vertices == 0) continue;
    if (threadIdx.x == 0) {
      listed_from = quads_in(atomicAdd(sizes + following, size_of(relist ? 0 : total_vertices, total)));
    }
    if (total > MOST_TOGETHER) {  // long lists are for warps, vertex by vertex
      __syncthreads();
      if (__any_sync(FULL_MASK, mine > 0)) list(found, listed_from + place, [=](int at, int entry) { to[at] = entry; });
      continue;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (found.which >> e & 1u) {
        begins[k] = found.begin[e];
        places[k++] = place;
        place += found.count[e];
      }
    }
    __syncthreads();
    for (int t = threadIdx.x; t < total; t += LARGE_BLOCK) {
      const int owner = first_behind(places, 0, total_vertices, t) - 1;
      to[listed_from + t] = begins[owner] + t - places[owner];
    }
  }
}

// Notes the levels that were done: of frontier 0 by one block, or of the one that `iteration` made; -2 is the start.
__global__ void bfs_note(int iteration, const unsigned long long* __restrict__ sizes, const int* __restrict__ notes,
                         long long* __restrict__ trace, int capacity, int* __restrict__ noted) {
  if (iteration >= 0 && quads_in(sizes[iteration % FRONTIERS]) == 0) return;
  const int* const of = notes + (iteration < 0 ? 0 : NOTES * ((iteration + 1) % FRONTIERS));
  const int kernel = iteration == -2 ? 0 : iteration >= 0 && of[LISTED] == BY_BITS ? 3 : 1;
  note_levels(iteration == -2 ? 0 : of[LEVEL], kernel, trace, capacity, noted);
}
