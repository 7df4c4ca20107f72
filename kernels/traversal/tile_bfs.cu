// TileBFS (Ji et al., ICPP 2022): breadth-first search over tiles of bits, whose sparsest lie apart as quads of neighbours.
// A chunk is four tiles side by side. The words of a row of a chunk are its item: masks[4 * item ..], item = chunk * NT +
// row. The pattern is symmetric, so that the words are those of columns too.
//
// Bits are three arrays of `words`: of visited vertices; then of the vertices of even levels and of odd ones, of which one
// holds the frontier, where it is MARKED, and the other none.
#include "traversal.cuh"

// A frontier, one of three that take turns: while one is expanded, the next is made and the one after that cleared.
constexpr int FRONTIERS = 3;
constexpr int NUMBERS = 8;  // of each frontier:
constexpr int SIZE = 0;     // vertices
constexpr int ENTRIES = 1;  // listed: items as they are, quads as ~quad
constexpr int QUADS = 2;    // of its vertices
constexpr int LEVEL = 3;    // of its vertices
constexpr int REST = 4;     // vertices with neighbours in no earlier frontier
constexpr int PULLED = 5;   // whether the level before was pulled
constexpr int MARKED = 6;   // whether the frontier's bits are set, see below

constexpr int SMALL_BLOCK = 1024;
constexpr int LARGE_BLOCK = 256;
constexpr int CHUNK = 4;

enum Kernel { PUSH_CSC = 1, PUSH_CSR = 2, PULL_CSC = 3 };

// The authors' rule. most: 1, 2 or 3 of the kernels may be used. rest: vertices without a level, the frontier's not among.
__device__ __forceinline__ Kernel chosen(int most, bool pulled, int size, int rest, int vertices) {
  if (most == 3 && (pulled || rest <= 0.5 * size)) return PULL_CSC;
  return most == 1 || size < 0.01 * vertices ? PUSH_CSC : PUSH_CSR;
}

// The NT bits of a block of vertices in an array of bits, and an item's four words.
template <int NT>
struct Bits;

template <>
struct Bits<64> {
  using Word = unsigned long long;
  static __device__ __forceinline__ Word get(const unsigned* bits, int block) {
    return reinterpret_cast<const Word*>(bits)[block];
  }
  static __device__ __forceinline__ Word unite(unsigned* bits, int block, Word with) {
    return atomicOr(reinterpret_cast<Word*>(bits) + block, with);
  }
  static __device__ __forceinline__ void item(const Word* __restrict__ masks, long long item, Word* into) {
    const ulonglong2* const from = reinterpret_cast<const ulonglong2*>(masks) + 2 * item;
    const ulonglong2 low = __ldg(from), high = __ldg(from + 1);
    into[0] = low.x, into[1] = low.y, into[2] = high.x, into[3] = high.y;
  }
  static __device__ __forceinline__ int lowest(Word word) { return __ffsll(static_cast<long long>(word)) - 1; }
};

template <>
struct Bits<32> {
  using Word = unsigned;
  static __device__ __forceinline__ Word get(const unsigned* bits, int block) { return bits[block]; }
  static __device__ __forceinline__ Word unite(unsigned* bits, int block, Word with) {
    return atomicOr(bits + block, with);
  }
  static __device__ __forceinline__ void item(const Word* __restrict__ masks, long long item, Word* into) {
    const uint4 four = __ldg(reinterpret_cast<const uint4*>(masks) + item);
    into[0] = four.x, into[1] = four.y, into[2] = four.z, into[3] = four.w;
  }
  static __device__ __forceinline__ int lowest(Word word) { return __ffs(static_cast<int>(word)) - 1; }
};

template <>
struct Bits<16> {
  using Word = unsigned short;
  static __device__ __forceinline__ Word get(const unsigned* bits, int block) {
    return static_cast<Word>(bits[block / 2] >> 16 * (block % 2));
  }
  static __device__ __forceinline__ Word unite(unsigned* bits, int block, Word with) {
    const int shift = 16 * (block % 2);
    return static_cast<Word>(atomicOr(bits + block / 2, static_cast<unsigned>(with) << shift) >> shift);
  }
  static __device__ __forceinline__ void item(const Word* __restrict__ masks, long long item, Word* into) {
    const ushort4 four = __ldg(reinterpret_cast<const ushort4*>(masks) + item);
    into[0] = four.x, into[1] = four.y, into[2] = four.z, into[3] = four.w;
  }
  static __device__ __forceinline__ int lowest(Word word) { return __ffs(static_cast<int>(word)) - 1; }
};

// Levels to -1, the three arrays of bits to 0 but for the source, which is the first frontier.
template <int NT>
__global__ void tile_bfs_start(const int* __restrict__ source, int vertices, int words, int linked,
                               const int* __restrict__ chunk_ptr, const int* __restrict__ quad_ptr,
                               int* __restrict__ levels, unsigned* __restrict__ visited, int* __restrict__ queue,
                               int* __restrict__ numbers) {
  const int first = *source;
  const bool inside = first >= 0 && first < vertices;
  const int stride = gridDim.x * blockDim.x;
  for (long long i = global_thread(); i < vertices; i += stride) levels[i] = inside && i == first ? 0 : -1;
  for (long long w = global_thread(); w < 3ll * words; w += stride) {
    const bool has = inside && w % words == first / 32 && w < 2ll * words;
    visited[w] = has ? 1u << first % 32 : 0u;
  }
  if (blockIdx.x > 0) return;
  const int row = first % NT, block = first / NT;
  const int chunk = inside ? chunk_ptr[block] : 0, items = inside ? chunk_ptr[block + 1] - chunk : 0;
  const int quad = inside ? quad_ptr[first] : 0, quads = inside ? quad_ptr[first + 1] - quad : 0;
  for (int i = threadIdx.x; i < items; i += blockDim.x) queue[i] = (chunk + i) * NT + row;
  for (int i = threadIdx.x; i < quads; i += blockDim.x) queue[items + i] = ~(quad + i);
  if (threadIdx.x < FRONTIERS) {
    const bool now = threadIdx.x == 0;
    int* const of = numbers + NUMBERS * threadIdx.x;
    of[SIZE] = now && items + quads > 0;
    of[ENTRIES] = now ? items + quads : 0;
    of[QUADS] = now ? quads : 0;
    of[LEVEL] = 0;
    of[REST] = linked;
    of[PULLED] = 0;
    of[MARKED] = 1;
  }
}

// What an entry of the queue reaches: four blocks of vertices and their bits, of an item as of a quad of neighbours.
template <int NT>
struct Reached {
  using Word = typename Bits<NT>::Word;
  int block[CHUNK];
  Word mask[CHUNK];

  __device__ __forceinline__ Reached(int entry, const int4* __restrict__ tile_cols, const Word* __restrict__ masks,
                                     const int4* __restrict__ neighbours) {
    const int4 four = __ldg(entry < 0 ? neighbours + ~entry : tile_cols + entry / NT);
    block[0] = four.x, block[1] = four.y, block[2] = four.z, block[3] = four.w;
    if (entry >= 0) {
      Bits<NT>::item(masks, entry, mask);
    } else {
#pragma unroll
      for (int e = 0; e < CHUNK; ++e) {
        mask[e] = static_cast<Word>(Word(1) << block[e] % NT);
        block[e] /= NT;
      }
    }
  }
};

// Level after level by one block, with Push-CSC, for as long as that is the rule and a frontier has at most `leave`
// entries. KEPT: visited bits lie in shared memory meanwhile. room: entries that shared memory holds, >= enter.
template <int NT, bool KEPT>
__global__ void __launch_bounds__(SMALL_BLOCK)
    tile_bfs_small(int vertices, int words, int most, int enter, int leave, int room,
                   const int* __restrict__ chunk_ptr, const int4* __restrict__ tile_cols,
                   const typename Bits<NT>::Word* __restrict__ masks, const int* __restrict__ quad_ptr,
                   const int4* __restrict__ neighbours, unsigned* visited, int* __restrict__ levels,
                   int* __restrict__ queue, long long queue_room, int* __restrict__ numbers) {
  using Word = typename Bits<NT>::Word;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  __shared__ int tail[3], sizes[3], quads[3];  // of the frontier that is made, in turns; the next one's are cleared
  int count = numbers[ENTRIES], size = numbers[SIZE], level = numbers[LEVEL];
  int rest = numbers[REST] - size;
  if (size == 0 || count > enter || chosen(most, numbers[PULLED], size, rest, vertices) != PUSH_CSC) return;
  int* here = reinterpret_cast<int*>(dynamic_shared);
  int* there = here + room;
  unsigned* const bits = KEPT ? reinterpret_cast<unsigned*>(here + 2 * room) : visited;
  if (threadIdx.x < 3) tail[threadIdx.x] = sizes[threadIdx.x] = quads[threadIdx.x] = 0;
  unsigned* const of_frontier = visited + static_cast<long long>(1 + (level & 1)) * words;
  for (int w = threadIdx.x; w < words; w += SMALL_BLOCK) {
    of_frontier[w] = 0;
    if (KEPT) bits[w] = visited[w];
  }
  const int* const from = queue + (level & 1) * queue_room;
  for (int i = threadIdx.x; i < count; i += SMALL_BLOCK) here[i] = from[i];
  __syncthreads();

  int turn = 0, quads_found = 0;
  do {
    ++level;
    int* const next = queue + (level & 1) * queue_room;
    for (int first = 0; first < count; first += SMALL_BLOCK) {
      const int i = first + threadIdx.x;
      int block[CHUNK] = {};
      Word fresh[CHUNK] = {};
      int my_entries = 0, my_quads = 0, my_size = 0;
      if (i < count) {
        const int entry = i < room ? here[i] : queue[((level & 1) ^ 1) * queue_room + i];
        const Reached<NT> reached(entry, tile_cols, masks, neighbours);
#pragma unroll
        for (int e = 0; e < CHUNK; ++e) {
          const Word mask = reached.mask[e];
          block[e] = reached.block[e];
          if (mask) fresh[e] = mask & static_cast<Word>(~Bits<NT>::unite(bits, block[e], mask));
        }
#pragma unroll
        for (int e = 0; e < CHUNK; ++e) {
          if (fresh[e] == 0) continue;
          const int items = __ldg(chunk_ptr + block[e] + 1) - __ldg(chunk_ptr + block[e]);
          for (Word left = fresh[e]; left; left &= left - 1) {
            const int vertex = block[e] * NT + Bits<NT>::lowest(left);
            levels[vertex] = level;
            my_quads += __ldg(quad_ptr + vertex + 1) - __ldg(quad_ptr + vertex);
            my_entries += items;
            ++my_size;
          }
        }
        my_entries += my_quads;
      }
      if (!__any_sync(FULL_MASK, my_size > 0)) continue;
      const int through = group_scan<WARP>(my_entries);
      const int size_of_warp = group_sum<WARP>(my_size), quads_of_warp = group_sum<WARP>(my_quads);
      int at = 0;
      if (lane_id() == WARP - 1) at = atomicAdd(&tail[turn], through);
      if (lane_id() == 0) {
        atomicAdd(&sizes[turn], size_of_warp);
        if (quads_of_warp) atomicAdd(&quads[turn], quads_of_warp);
      }
      at = __shfl_sync(FULL_MASK, at, WARP - 1) + through - my_entries;
      const auto put = [&](int entry) {
        if (at < room) {
          there[at] = entry;
        } else {
          next[at] = entry;
        }
        ++at;
      };
#pragma unroll
      for (int e = 0; e < CHUNK; ++e) {
        if (fresh[e] == 0) continue;
        const int begin = __ldg(chunk_ptr + block[e]), end = __ldg(chunk_ptr + block[e] + 1);
        for (Word left = fresh[e]; left; left &= left - 1) {
          const int row = Bits<NT>::lowest(left), vertex = block[e] * NT + row;
          for (int chunk = begin; chunk < end; ++chunk) put(chunk * NT + row);
          const int last = __ldg(quad_ptr + vertex + 1);
          for (int quad = __ldg(quad_ptr + vertex); quad < last; ++quad) put(~quad);
        }
      }
    }
    const int after = (turn + 1) % 3;
    if (threadIdx.x == 0) tail[after] = sizes[after] = quads[after] = 0;
    __syncthreads();
    count = tail[turn], size = sizes[turn], quads_found = quads[turn];
    rest -= size;
    turn = after;
    int* const swapped = here;
    here = there;
    there = swapped;
  } while (size > 0 && count <= leave && chosen(most, false, size, rest, vertices) == PUSH_CSC);

  if (size > 0) {
    int* const to = queue + (level & 1) * queue_room;
    for (int i = threadIdx.x; i < min(count, room); i += SMALL_BLOCK) to[i] = here[i];
    if (KEPT) {
      for (int w = threadIdx.x; w < words; w += SMALL_BLOCK) visited[w] = bits[w];
    }
  }
  if (threadIdx.x == 0) {
    numbers[SIZE] = size;
    numbers[ENTRIES] = count;
    numbers[QUADS] = quads_found;
    numbers[LEVEL] = level;
    numbers[REST] = rest + size;
    numbers[MARKED] = 0;
  }
}

// Sets the bits of what the frontier `now` reaches and is not visited. A piece is some chunks of a row of tiles.
template <int NT>
__global__ void __launch_bounds__(LARGE_BLOCK)
    tile_bfs_expand(int now, int vertices, int words, int most, int pieces, int all_quads,
                    const int* __restrict__ piece_row, const int* __restrict__ piece_ptr,
                    const int4* __restrict__ in_cols, const typename Bits<NT>::Word* __restrict__ in_masks,
                    const int* __restrict__ in_ptr, const int4* __restrict__ in_neighbours,
                    const int4* __restrict__ tile_cols, const typename Bits<NT>::Word* __restrict__ masks,
                    const int4* __restrict__ neighbours, unsigned* bits, const int* __restrict__ queue,
                    long long queue_room, const int* __restrict__ numbers) {
  using Word = typename Bits<NT>::Word;
  const int* const of = numbers + NUMBERS * now;
  const int size = of[SIZE];
  if (size == 0) return;
  const int level = of[LEVEL], rest = of[REST] - size;
  const Kernel kernel = chosen(most, of[PULLED], size, rest, vertices);
  if (kernel == PUSH_CSR && !of[MARKED]) return;
  const unsigned* const visited = bits;
  const unsigned* const frontier = bits + static_cast<long long>(1 + (level & 1)) * words;
  unsigned* const found = bits + static_cast<long long>(2 - (level & 1)) * words;
  const bool pull = all_quads > 0 && kernel != PUSH_CSC && (kernel == PULL_CSC || pull_pays(of[QUADS], rest, all_quads));
  const int warps = gridDim.x * (LARGE_BLOCK / WARP);
  const int warp = blockIdx.x * (LARGE_BLOCK / WARP) + threadIdx.x / WARP;

  if (kernel != PUSH_CSC) {
    // A lane a row of a piece's chunk: Push-CSR looks for the frontier in it, Pull-CSC for any visited vertex.
    constexpr int ROWS = NT < WARP ? NT : WARP;  // of a warp; each has SIDE lanes
    constexpr int SIDE = WARP / ROWS, PARTS = NT / ROWS;
    const unsigned* const wanted = kernel == PULL_CSC ? visited : frontier;
    const int row = lane_id() % ROWS;
    for (int i = warp; i < pieces * PARTS; i += warps) {
      const int piece = i / PARTS, part = i % PARTS;
      const int first_row = __ldg(piece_row + piece) * NT + part * ROWS;
      const bool open = first_row + row < vertices && !is_set(visited, first_row + row);
      const int end = __ldg(piece_ptr + piece + 1);
      bool hit = false;
      for (int first = __ldg(piece_ptr + piece); first < end; first += SIDE) {
        if (!__any_sync(FULL_MASK, open && !hit)) break;
        const int chunk = first + lane_id() / ROWS;
        if (!open || hit || chunk >= end) continue;
        const int4 cols = __ldg(in_cols + chunk);
        const Word a = Bits<NT>::get(wanted, cols.x), b = Bits<NT>::get(wanted, cols.y);
        const Word c = Bits<NT>::get(wanted, cols.z), d = Bits<NT>::get(wanted, cols.w);
        if ((a | b | c | d) == 0) continue;
        Word mask[CHUNK];
        Bits<NT>::item(in_masks, static_cast<long long>(chunk) * NT + part * ROWS + row, mask);
        hit = ((mask[0] & a) | (mask[1] & b) | (mask[2] & c) | (mask[3] & d)) != 0;
      }
      unsigned hits = __ballot_sync(FULL_MASK, hit);
      if (ROWS < WARP) hits = (hits | hits >> ROWS % WARP) & ((1u << ROWS % WARP) - 1);
      if (hits && lane_id() == 0) atomicOr(found + first_row / 32, hits << first_row % 32);
    }
  }
  if (pull) {
    for (int w = warp; w < words; w += warps) {
      const int vertex = 32 * w + lane_id();
      const bool open = vertex < vertices && !is_set(visited, vertex);
      if (!__any_sync(FULL_MASK, open)) continue;
      const int begin = open ? __ldg(in_ptr + vertex) : 0, end = open ? __ldg(in_ptr + vertex + 1) : 0;
      const unsigned hits = __ballot_sync(FULL_MASK, finds(open, begin, end, in_neighbours, visited));
      if (hits && lane_id() == 0) atomicOr(found + w, hits);
    }
  } else if (kernel != PULL_CSC) {
    const int entries = of[ENTRIES];
    const int* const from = queue + (level & 1) * queue_room;
    for (long long i = global_thread(); i < entries; i += static_cast<long long>(gridDim.x) * LARGE_BLOCK) {
      const int entry = from[i];
      if (entry >= 0 && kernel != PUSH_CSC) continue;  // Push-CSR has been there
      const Reached<NT> reached(entry, tile_cols, masks, neighbours);
#pragma unroll
      for (int e = 0; e < CHUNK; ++e) {
        const Word mask = reached.mask[e];
        const Word fresh = mask ? mask & static_cast<Word>(~Bits<NT>::get(visited, reached.block[e])) : Word(0);
        if (fresh) Bits<NT>::unite(found, reached.block[e], fresh);
      }
    }
  }
}

// Makes a frontier of the bits that were found: levels, visited bits, its size, and its entries where the next level may
// want them. Of a frontier that is not marked but has to be, the bits are set, and no more.
template <int NT>
__global__ void __launch_bounds__(LARGE_BLOCK)
    tile_bfs_settle(int now, int vertices, int words, int most, const int* __restrict__ chunk_ptr,
                    const int* __restrict__ quad_ptr, unsigned* __restrict__ bits, int* __restrict__ levels,
                    int* __restrict__ queue, long long queue_room, int* __restrict__ numbers) {
  constexpr int WARPS = LARGE_BLOCK / WARP;
  __shared__ int3 totals[2][WARPS];
  __shared__ int from;
  __shared__ bool with_items;
  int* const of = numbers + NUMBERS * now;
  int* const to = numbers + NUMBERS * ((now + 1) % FRONTIERS);
  int* const clear = numbers + NUMBERS * ((now + 2) % FRONTIERS);
  const bool last = blockIdx.x == 0 && threadIdx.x == 0;
  const int size = of[SIZE];
  if (last) clear[SIZE] = clear[ENTRIES] = clear[QUADS] = 0;
  if (size == 0) return;
  const int level = of[LEVEL], rest = of[REST] - size;
  const Kernel kernel = chosen(most, of[PULLED], size, rest, vertices);
  unsigned* const frontier = bits + static_cast<long long>(1 + (level & 1)) * words;
  unsigned* const found = bits + static_cast<long long>(2 - (level & 1)) * words;
  const int warp = threadIdx.x / WARP;

  if (kernel == PUSH_CSR && !of[MARKED]) {
    for (int w = blockIdx.x * WARPS + warp; w < words; w += gridDim.x * WARPS) {
      const int vertex = 32 * w + lane_id();
      const unsigned marks = __ballot_sync(FULL_MASK, vertex < vertices && levels[vertex] == level);
      if (lane_id() == 0) frontier[w] = marks;
    }
    if (last) {
      for (int i = 0; i < NUMBERS; ++i) to[i] = of[i];
      to[MARKED] = 1;
    }
    return;
  }
  if (last) {
    to[LEVEL] = level + 1;
    to[REST] = rest;
    to[PULLED] = kernel == PULL_CSC;
    to[MARKED] = 1;
  }

  int* const queued = queue + ((level & 1) ^ 1) * queue_room;
  const auto put = [=](int place, int entry) { queued[place] = entry; };
  int turn = 0;
  for (int first = blockIdx.x * WARPS; first < words; first += gridDim.x * WARPS) {
    const int w = first + warp;
    const unsigned fresh = w < words ? found[w] : 0u;
    if (w < words && lane_id() == 0) {
      frontier[w] = 0;
      if (fresh) bits[w] |= fresh;
    }
    if (!__syncthreads_or(fresh != 0)) continue;
    const int vertex = 32 * w + lane_id();
    const bool mine = (fresh >> lane_id() & 1u) != 0;
    int chunk = 0, items = 0, quad = 0, quads = 0;
    if (mine) {
      levels[vertex] = level + 1;
      chunk = __ldg(chunk_ptr + vertex / NT);
      items = __ldg(chunk_ptr + vertex / NT + 1) - chunk;
      quad = __ldg(quad_ptr + vertex);
      quads = __ldg(quad_ptr + vertex + 1) - quad;
    }
    const int items_through = group_scan<WARP>(items), quads_through = group_scan<WARP>(quads);
    if (lane_id() == WARP - 1) totals[turn][warp] = make_int3(__popc(fresh), items_through, quads_through);
    __syncthreads();
    int items_before = 0, quads_before = 0;
    int3 total = make_int3(0, 0, 0);
#pragma unroll
    for (int other = 0; other < WARPS; ++other) {
      if (other == warp) items_before = total.y, quads_before = total.z;
      total.x += totals[turn][other].x, total.y += totals[turn][other].y, total.z += totals[turn][other].z;
    }
    turn ^= 1;
    const bool listed = kernel != PULL_CSC;  // which the next level is too then
    if (threadIdx.x == 0) {
      const int before = atomicAdd(to + SIZE, total.x);
      atomicAdd(to + QUADS, total.z);
      with_items = most == 1 || before < 0.01 * vertices;  // else the next level is no Push-CSC
      if (listed) from = atomicAdd(to + ENTRIES, (with_items ? total.y : 0) + total.z);
    }
    __syncthreads();
    if (!listed || fresh == 0) continue;
    int at = from + quads_before + quads_through - quads;
    if (with_items) {
      at += items_before + items_through - items;
      list_run(chunk * NT + vertex % NT, items, NT, at, put);
      at += items;
    }
    list_run(~quad, quads, -1, at, put);
  }
}
