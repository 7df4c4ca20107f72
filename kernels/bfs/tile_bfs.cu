// TileBFS (Ji et al., ICPP 2022): breadth-first search over tiles of bits; the sparsest are stored separately, as quads
// of neighbours. A chunk is four tiles side by side. The words of a row of a chunk are its item: masks[4 * item ..],
// item = chunk * NT + row. What comes in (in_*) is stored separately where it is not what goes out.
//
// Bits are three arrays of `words`: of visited vertices; then two that alternate, with those of the frontier, once it
// is SETTLED, and with what is found. rows: of each row of tiles its first chunk, how many it has, and the bits, in two
// words, of the vertices that have quads.
#include "bfs.cuh"

// A frontier, one of three that alternate: while one is expanded, the next is made and the one after that cleared.
constexpr int FRONTIERS = 3;
constexpr int NUMBERS = 8;  // of each frontier:
constexpr int SIZE = 0;     // vertices
constexpr int ENTRIES = 1;  // listed: items as they are, quads as ~quad
constexpr int QUADS = 2;    // of its vertices
constexpr int LEVEL = 3;    // of its vertices
constexpr int REST = 4;     // vertices with neighbours in no earlier frontier
constexpr int PULLED = 5;   // whether the level before was pulled
constexpr int SETTLED =
    6;  // whether the frontier's bits are set and its entries listed; else it is known by levels alone

constexpr int CHUNK = 4;

enum Kernel { PUSH_CSC = 1, PUSH_CSR = 2, PULL_CSC = 3 };

// The authors' rule. most: 1, 2 or 3 of the kernels may be used. rest: vertices that still have no level.
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
  using Wide = unsigned long long;  // for shuffles
  static __device__ __forceinline__ Word get(const unsigned* bits, int block) {
    return reinterpret_cast<const Word*>(bits)[block];
  }
  static __device__ __forceinline__ Word unite(unsigned* bits, int block, Word with) {
    return atomicOr(reinterpret_cast<Word*>(bits) + block, with);
  }
  // Shared memory has atomics on 32 bits.
  static __device__ __forceinline__ Word unite_shared(unsigned* bits, int block, Word with) {
    const unsigned low = static_cast<unsigned>(with), high = static_cast<unsigned>(with >> 32);
    const unsigned old_low = low ? atomicOr(bits + 2 * block, low) : 0u;
    const unsigned old_high = high ? atomicOr(bits + 2 * block + 1, high) : 0u;
    return static_cast<Word>(old_high) << 32 | old_low;
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
  using Wide = unsigned;  // for shuffles
  static __device__ __forceinline__ Word get(const unsigned* bits, int block) { return bits[block]; }
  static __device__ __forceinline__ Word unite(unsigned* bits, int block, Word with) {
    return atomicOr(bits + block, with);
  }
  static __device__ __forceinline__ Word unite_shared(unsigned* bits, int block, Word with) {
    return unite(bits, block, with);
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
  using Wide = unsigned;  // for shuffles
  static __device__ __forceinline__ Word get(const unsigned* bits, int block) {
    return static_cast<Word>(bits[block / 2] >> 16 * (block % 2));
  }
  static __device__ __forceinline__ Word unite(unsigned* bits, int block, Word with) {
    const int shift = 16 * (block % 2);
    return static_cast<Word>(atomicOr(bits + block / 2, static_cast<unsigned>(with) << shift) >> shift);
  }
  static __device__ __forceinline__ Word unite_shared(unsigned* bits, int block, Word with) {
    return unite(bits, block, with);
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
                               const int4* __restrict__ rows, const int* __restrict__ quad_ptr,
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
  const int chunk = inside ? rows[block].x : 0, items = inside ? rows[block].y : 0;
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
    of[SETTLED] = 1;
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

// Level after level by one block, with Push-CSC, from a frontier of at most `enter` entries for as long as that is the
// rule and entries are not too many. room: what shared memory holds. KEPT: visited bits are in shared memory meanwhile.
template <int NT, bool KEPT>
__global__ void __launch_bounds__(SMALL_BLOCK)
    tile_bfs_small(int vertices, int words, int most, int enter, int room, const int4* __restrict__ rows,
                   const int4* __restrict__ tile_cols, const typename Bits<NT>::Word* __restrict__ masks,
                   const int* __restrict__ quad_ptr, const int4* __restrict__ neighbours, unsigned* visited,
                   int* __restrict__ levels, const int* __restrict__ queue, int* __restrict__ numbers) {
  using Word = typename Bits<NT>::Word;
  using Wide = typename Bits<NT>::Wide;
  constexpr int ALONE = 32;  // entries that a lane lists by itself
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  __shared__ int tail[3], sizes[3];  // of the frontier that is made, alternating; the next one's are cleared
  int count = numbers[ENTRIES], size = numbers[SIZE], level = numbers[LEVEL];
  int rest = numbers[REST] - size;
  if (size == 0 || count > enter || !numbers[SETTLED]) return;
  if (chosen(most, numbers[PULLED], size, rest, vertices) != PUSH_CSC) return;
  int* here = reinterpret_cast<int*>(dynamic_shared);
  int* there = here + room;
  unsigned* const bits = KEPT ? reinterpret_cast<unsigned*>(here + 2 * room) : visited;
  if (threadIdx.x < 3) tail[threadIdx.x] = sizes[threadIdx.x] = 0;
  unsigned* const of_frontier = visited + words;
  for (int w = threadIdx.x; w < words; w += SMALL_BLOCK) {
    of_frontier[w] = 0;
    if (KEPT) bits[w] = visited[w];
  }
  for (int i = threadIdx.x; i < count; i += SMALL_BLOCK) here[i] = queue[i];
  __syncthreads();

  int iteration = 0, before = 0;
  do {
    ++level;
    for (int first = 0; first < count; first += SMALL_BLOCK) {
      const int i = first + threadIdx.x;
      int block[CHUNK] = {};
      int4 of_block[CHUNK] = {};
      Word fresh[CHUNK] = {};
      int my_entries = 0, my_size = 0;
      const auto quads_from = [&](int e, int row, int& quad) {
        if ((static_cast<unsigned>(row < 32 ? of_block[e].z : of_block[e].w) >> row % 32 & 1u) == 0) return 0;
        const int vertex = block[e] * NT + row;
        quad = __ldg(quad_ptr + vertex);
        return __ldg(quad_ptr + vertex + 1) - quad;
      };
      if (i < count) {
        const Reached<NT> reached(here[i], tile_cols, masks, neighbours);
#pragma unroll
        for (int e = 0; e < CHUNK; ++e) {
          const Word mask = reached.mask[e];
          block[e] = reached.block[e];
          if (mask == 0) continue;
          fresh[e] = KEPT ? Bits<NT>::unite_shared(bits, block[e], mask) : Bits<NT>::unite(bits, block[e], mask);
        }
#pragma unroll
        for (int e = 0; e < CHUNK; ++e) {
          fresh[e] = reached.mask[e] & static_cast<Word>(~fresh[e]);  // it held what was there before
          if (fresh[e]) of_block[e] = __ldg(rows + block[e]);
        }
#pragma unroll
        for (int e = 0; e < CHUNK; ++e) {
          for (Word left = fresh[e]; left; left &= left - 1) {
            const int row = Bits<NT>::lowest(left);
            int quad;
            levels[block[e] * NT + row] = level;
            my_entries += of_block[e].y + quads_from(e, row, quad);
            ++my_size;
          }
        }
      }
      if (!__any_sync(FULL_MASK, my_size > 0)) continue;
      const int through = group_scan<WARP>(my_entries), size_of_warp = group_sum<WARP>(my_size);
      int at = 0;
      if (lane_id() == WARP - 1) at = atomicAdd(&tail[iteration], through);
      if (lane_id() == 0) atomicAdd(&sizes[iteration], size_of_warp);
      at = __shfl_sync(FULL_MASK, at, WARP - 1);
      if (at > room) continue;  // too many: they are not listed here
      at += through - my_entries;
      const auto put = [&](int place, int entry) {
        if (place < room) there[place] = entry;
      };
      if (my_entries <= ALONE) {
        int place = at;
#pragma unroll
        for (int e = 0; e < CHUNK; ++e) {
          for (Word left = fresh[e]; left; left &= left - 1) {
            const int row = Bits<NT>::lowest(left);
            for (int k = 0; k < of_block[e].y; ++k) put(place++, (of_block[e].x + k) * NT + row);
            int quad = 0;
            const int quads = quads_from(e, row, quad);
            for (int k = 0; k < quads; ++k) put(place++, ~(quad + k));
          }
        }
      }
      for (unsigned many = __ballot_sync(FULL_MASK, my_entries > ALONE); many; many &= many - 1) {
        const int lane = __ffs(many) - 1;
        int place = __shfl_sync(FULL_MASK, at, lane);
#pragma unroll
        for (int e = 0; e < CHUNK; ++e) {
          const int its_block = __shfl_sync(FULL_MASK, block[e], lane);
          const int its_begin = __shfl_sync(FULL_MASK, of_block[e].x, lane);
          const int its_items = __shfl_sync(FULL_MASK, of_block[e].y, lane);
          for (Wide left = __shfl_sync(FULL_MASK, static_cast<Wide>(fresh[e]), lane); left; left &= left - 1) {
            const int row = Bits<NT>::lowest(static_cast<Word>(left)), vertex = its_block * NT + row;
            for (int k = lane_id(); k < its_items; k += WARP) put(place + k, (its_begin + k) * NT + row);
            place += its_items;
            const int from_quad = __ldg(quad_ptr + vertex), own = __ldg(quad_ptr + vertex + 1) - from_quad;
            for (int k = lane_id(); k < own; k += WARP) put(place + k, ~(from_quad + k));
            place += own;
          }
        }
      }
    }
    const int after = (iteration + 1) % 3;
    if (threadIdx.x == 0) tail[after] = sizes[after] = 0;
    __syncthreads();
    before = count;
    count = tail[iteration], size = sizes[iteration];
    rest -= size;
    iteration = after;
    int* const swapped = here;
    here = there;
    there = swapped;
  } while (size > 0 && !too_many(count, before, room) && chosen(most, false, size, rest, vertices) == PUSH_CSC);

  if (KEPT && size > 0) {
    for (int w = threadIdx.x; w < words; w += SMALL_BLOCK) visited[w] = bits[w];
  }
  if (threadIdx.x == 0) {
    numbers[SIZE] = size;
    numbers[LEVEL] = level;
    numbers[REST] = rest + size;
    numbers[SETTLED] = 0;
  }
}

// Unites the words of neighbouring lanes that have the same chunk; the last of them has it all, the others nothing.
template <int NT>
__device__ __forceinline__ void unite_run(int chunk, typename Bits<NT>::Word (&word)[CHUNK]) {
  using Word = typename Bits<NT>::Word;
  using Wide = typename Bits<NT>::Wide;
  const int before = __shfl_up_sync(FULL_MASK, chunk, 1), behind = __shfl_down_sync(FULL_MASK, chunk, 1);
  if (!__any_sync(FULL_MASK, lane_id() > 0 && before == chunk)) return;
#pragma unroll
  for (int offset = 1; offset < WARP; offset *= 2) {
    const bool same = __shfl_up_sync(FULL_MASK, chunk, offset) == chunk && lane_id() >= offset;
#pragma unroll
    for (int e = 0; e < CHUNK; ++e) {
      const Wide other = __shfl_up_sync(FULL_MASK, static_cast<Wide>(word[e]), offset);
      if (same) word[e] |= static_cast<Word>(other);
    }
  }
  if (lane_id() < WARP - 1 && behind == chunk) {
#pragma unroll
    for (int e = 0; e < CHUNK; ++e) word[e] = 0;
  }
}

// The arcs that come in: pieces of rows of tiles, tiles as in BitTiles, and quads of the extracted entries.
template <typename Word>
struct Incoming {
  const int* piece_row;
  const int* piece_ptr;
  const int4* cols;
  const Word* masks;
  const int* quad_ptr;
  const int4* neighbours;
  const int4* rows;
};

// Sets the bits of what a frontier reaches and is not visited. iteration: of the loop's body; it gives which frontier,
// and which half of the queue and of the bits. A piece is some chunks of a row of tiles.
template <int NT>
__global__ void __launch_bounds__(LARGE_BLOCK)
    tile_bfs_expand(int iteration, int vertices, int words, int most, int pieces, int all_quads,
                    const Incoming<typename Bits<NT>::Word> in, const int4* __restrict__ tile_cols,
                    const typename Bits<NT>::Word* __restrict__ masks, const int4* __restrict__ neighbours,
                    unsigned* bits, const int* __restrict__ queue, long long queue_room,
                    const int* __restrict__ numbers) {
  using Word = typename Bits<NT>::Word;
  using Wide = typename Bits<NT>::Wide;
  // All loads for the first steps are issued at once, whatever the steps will be.
  const int* const from = queue + iteration % 2 * queue_room;
  const long long at = global_thread();
  int entry = at < queue_room ? from[at] : 0;
  const int* const of = numbers + NUMBERS * (iteration % FRONTIERS);
  const int size = of[SIZE], entries = of[ENTRIES], quads = of[QUADS], rest = of[REST] - size;
  const bool pulled = of[PULLED], settled = of[SETTLED];
  if (size == 0) return;
  const Kernel kernel = chosen(most, pulled, size, rest, vertices);
  if (kernel != PULL_CSC && !settled) return;
  const unsigned* const visited = bits;
  const unsigned* const frontier = bits + static_cast<long long>(1 + iteration % 2) * words;
  unsigned* const found = bits + static_cast<long long>(2 - iteration % 2) * words;
  const bool may_pull = all_quads > 0 && kernel != PUSH_CSC;
  const bool pull = may_pull && (kernel == PULL_CSC || pull_pays(quads, rest, all_quads));
  const int warps = gridDim.x * (LARGE_BLOCK / WARP);
  const int warp = blockIdx.x * (LARGE_BLOCK / WARP) + threadIdx.x / WARP;

  if (kernel != PUSH_CSC) {
    // A thread per row of the tiles: Push-CSR looks for the frontier in it, Pull-CSC for any visited vertex. Before that,
    // a lane per chunk, to leave out those whose columns hold nothing that is wanted.
    constexpr int ROWS = NT < WARP ? NT : WARP, PARTS = NT / ROWS;
    const unsigned* const wanted = kernel == PULL_CSC ? visited : frontier;
    for (int i = warp; i < pieces * PARTS; i += warps) {
      const int piece = i / PARTS, row = i % PARTS * ROWS + lane_id();
      const int first_vertex = __ldg(in.piece_row + piece) * NT + i % PARTS * ROWS, vertex = first_vertex + lane_id();
      const bool open = lane_id() < ROWS && vertex < vertices && !is_set(visited, vertex);
      if (!__any_sync(FULL_MASK, open)) continue;
      const int first = __ldg(in.piece_ptr + piece), chunks = __ldg(in.piece_ptr + piece + 1) - first;
      Word want[CHUNK] = {};
      if (lane_id() < chunks) {
        const int4 cols = __ldg(in.cols + first + lane_id());
        want[0] = Bits<NT>::get(wanted, cols.x), want[1] = Bits<NT>::get(wanted, cols.y);
        want[2] = Bits<NT>::get(wanted, cols.z), want[3] = Bits<NT>::get(wanted, cols.w);
      }
      bool hit = false;
      const bool wants = (want[0] | want[1] | want[2] | want[3]) != 0;
      for (unsigned some = __ballot_sync(FULL_MASK, wants); some; some &= some - 1) {
        const int chunk = __ffs(some) - 1;
        Word mask[CHUNK] = {};
        if (open && !hit) Bits<NT>::item(in.masks, static_cast<long long>(first + chunk) * NT + row, mask);
#pragma unroll
        for (int e = 0; e < CHUNK; ++e) {
          const Word both = mask[e] & static_cast<Word>(__shfl_sync(FULL_MASK, static_cast<Wide>(want[e]), chunk));
          hit = hit || both != 0;
        }
        if (!__any_sync(FULL_MASK, open && !hit)) break;
      }
      const unsigned hits = __ballot_sync(FULL_MASK, hit);
      if (hits && lane_id() == 0) atomicOr(found + first_vertex / 32, hits << first_vertex % 32);
    }
  }
  if (pull) {
    for (int w = warp; w < words; w += warps) {
      const int vertex = 32 * w + lane_id();
      const bool open = vertex < vertices && !is_set(visited, vertex);
      if (!__any_sync(FULL_MASK, open)) continue;
      const int begin = open ? __ldg(in.quad_ptr + vertex) : 0, end = open ? __ldg(in.quad_ptr + vertex + 1) : 0;
      const unsigned hits = __ballot_sync(FULL_MASK, finds(open, begin, end, in.neighbours, visited));
      if (hits && lane_id() == 0) atomicOr(found + w, hits);
    }
  } else if (kernel != PULL_CSC) {
    const long long stride = static_cast<long long>(warps) * WARP;
    for (long long first = at - lane_id(); first < entries; first += stride) {
      const long long i = first + lane_id();
      int block[CHUNK] = {};
      Word fresh[CHUNK] = {};
      int chunk = -1 - lane_id();
      if (i < entries && (entry < 0 || kernel == PUSH_CSC)) {  // items were done by Push-CSR
        if (entry >= 0) chunk = entry / NT;
        const Reached<NT> reached(entry, tile_cols, masks, neighbours);
#pragma unroll
        for (int e = 0; e < CHUNK; ++e) {
          block[e] = reached.block[e];
          if (reached.mask[e]) fresh[e] = reached.mask[e] & static_cast<Word>(~Bits<NT>::get(visited, block[e]));
        }
      }
      if (i + stride < entries) entry = from[i + stride];
      unite_run<NT>(chunk, fresh);
#pragma unroll
      for (int e = 0; e < CHUNK; ++e) {
        if (fresh[e]) Bits<NT>::unite(found, block[e], fresh[e]);
      }
    }
  }
}

// Makes a frontier of the bits that were found: levels, visited bits, its size, and its entries where the next level
// may want them. Of a frontier that is known by levels alone, bits and entries are made, and no more.
template <int NT>
__global__ void __launch_bounds__(LARGE_BLOCK)
    tile_bfs_settle(int iteration, int vertices, int words, int most, const int4* __restrict__ rows,
                    const int* __restrict__ quad_ptr, unsigned* __restrict__ bits, int* __restrict__ levels,
                    int* __restrict__ queue, long long queue_room, int* __restrict__ numbers) {
  constexpr int WARPS = LARGE_BLOCK / WARP;
  __shared__ int3 totals[2][WARPS];
  __shared__ int from, found_in_block;
  const int warp = threadIdx.x / WARP;
  unsigned* const frontier = bits + static_cast<long long>(1 + iteration % 2) * words;
  unsigned* const found = bits + static_cast<long long>(2 - iteration % 2) * words;
  int* const queued = queue + (1 - iteration % 2) * queue_room;
  // All loads for the first steps are issued at once, whatever the steps will be.
  int w = blockIdx.x * WARPS + warp;
  unsigned fresh = w < words ? found[w] : 0u;
  const int* const of = numbers + NUMBERS * (iteration % FRONTIERS);
  int* const to = numbers + NUMBERS * ((iteration + 1) % FRONTIERS);
  int* const clear = numbers + NUMBERS * ((iteration + 2) % FRONTIERS);
  const int size = of[SIZE], level = of[LEVEL], rest = of[REST] - size;
  const bool was_pulled = of[PULLED], settled = of[SETTLED];
  const bool last = blockIdx.x == 0 && threadIdx.x == 0;
  if (last) clear[SIZE] = clear[ENTRIES] = clear[QUADS] = 0;
  if (size == 0) return;
  const bool pulled = chosen(most, was_pulled, size, rest, vertices) == PULL_CSC;  // all levels are from here on
  const bool told = !pulled && !settled;
  const int made = told ? level : level + 1;
  if (last) {
    to[LEVEL] = made;
    to[REST] = told ? rest + size : rest;
    to[PULLED] = pulled;
    to[SETTLED] = 1;
  }
  const auto put = [=](int place, int entry) { queued[place] = entry; };
  if (threadIdx.x == 0) found_in_block = 0;
  __syncthreads();

  int side = 0;
  for (int first = blockIdx.x * WARPS; first < words; first += gridDim.x * WARPS, w += gridDim.x * WARPS) {
    const int vertex = 32 * w + lane_id();
    if (first != static_cast<int>(blockIdx.x) * WARPS) fresh = w < words ? found[w] : 0u;
    if (told) fresh = __ballot_sync(FULL_MASK, w < words && vertex < vertices && levels[vertex] == level);
    const bool mine = (fresh >> lane_id() & 1u) != 0;
    const int vertices_of_warp = __popc(fresh);
    if (w < words && lane_id() == 0) {
      frontier[w] = 0;
      if (fresh && told) found[w] = fresh;
      if (fresh && !told) bits[w] |= fresh;
    }
    if (mine && !told) levels[vertex] = made;
    if (pulled) {
      if (fresh && lane_id() == 0) atomicAdd(&found_in_block, vertices_of_warp);
      continue;
    }
    if (!__syncthreads_or(fresh != 0)) continue;
    int chunk = 0, items = 0, quad = 0, quads = 0;
    if (mine) {
      const int4 row = __ldg(rows + vertex / NT);
      chunk = row.x, items = row.y;
      if (static_cast<unsigned>(vertex % NT < 32 ? row.z : row.w) >> vertex % 32 % NT & 1u) {
        quad = __ldg(quad_ptr + vertex);
        quads = __ldg(quad_ptr + vertex + 1) - quad;
      }
    }
    const int items_through = group_scan<WARP>(items), quads_through = group_scan<WARP>(quads);
    const int through = items_through + quads_through;
    if (lane_id() == WARP - 1) totals[side][warp] = make_int3(vertices_of_warp, through, quads_through);
    __syncthreads();
    int before = 0;
    int3 total = make_int3(0, 0, 0);
#pragma unroll
    for (int other = 0; other < WARPS; ++other) {
      if (other == warp) before = total.y;
      total.x += totals[side][other].x, total.y += totals[side][other].y, total.z += totals[side][other].z;
    }
    side ^= 1;
    if (threadIdx.x == 0) from = atomicAdd(to + ENTRIES, total.y);
    if (threadIdx.x == WARP) atomicAdd(to + SIZE, total.x);
    if (threadIdx.x == 2 * WARP) atomicAdd(to + QUADS, total.z);
    __syncthreads();
    if (fresh == 0) continue;
    // Items of one chunk next to each other: their words go to the same four blocks, and are united on the way.
    const int begin = from + before, all_items = __shfl_sync(FULL_MASK, items_through, WARP - 1);
    const int most_items = NT < WARP ? 0 : all_items / vertices_of_warp;  // of each: they share a row of tiles
    if (NT >= WARP && (most_items <= WARP || vertices_of_warp >= WARP / 2)) {
      const int rank = __popc(fresh & ((1u << lane_id()) - 1));
      if (mine) {
        for (int k = 0; k < items; ++k) put(begin + k * vertices_of_warp + rank, (chunk + k) * NT + vertex % NT);
      }
    } else {
      list_run(chunk * NT + vertex % NT, items, NT, begin + items_through - items, put);
    }
    list_run(~quad, quads, -1, begin + all_items + quads_through - quads, put);
  }
  if (pulled) {
    __syncthreads();
    if (threadIdx.x == 0 && found_in_block) atomicAdd(to + SIZE, found_in_block);
  }
}

// kernel=paper: the authors' threads. Bits are four arrays of `words`: of visited vertices, of those visited before the
// level, and two that alternate, of the frontier and of what is found. The queue has the frontier's vertices.
template <int NT>
__global__ void tile_bfs_paper_start(const int* __restrict__ source, int vertices, int words, int* __restrict__ levels,
                                     unsigned* __restrict__ bits, int* __restrict__ queue, int* __restrict__ numbers) {
  const int first = *source;
  const bool inside = first >= 0 && first < vertices;
  const int stride = gridDim.x * blockDim.x;
  for (long long i = global_thread(); i < vertices; i += stride) levels[i] = inside && i == first ? 0 : -1;
  for (long long w = global_thread(); w < 4ll * words; w += stride) {
    const bool has = inside && w % words == first / 32 && w < 3ll * words;
    bits[w] = has ? 1u << first % 32 : 0u;
  }
  if (blockIdx.x > 0) return;
  if (threadIdx.x == 0 && inside) queue[0] = first;
  if (threadIdx.x < FRONTIERS) {
    int* const of = numbers + NUMBERS * threadIdx.x;
    of[SIZE] = threadIdx.x == 0 && inside;
    of[LEVEL] = of[PULLED] = 0;
    of[REST] = vertices;
    of[SETTLED] = 1;
  }
}

// What a block of vertices has of the visited ones, while others set bits.
template <int NT>
__device__ __forceinline__ typename Bits<NT>::Word seen_of(const unsigned* visited, int block) {
  using Word = typename Bits<NT>::Word;
  if constexpr (NT == 64) {
    return static_cast<Word>(peek(visited + 2 * block + 1)) << 32 | peek(visited + 2 * block);
  } else {
    return static_cast<Word>(peek(visited + block * NT / 32) >> block * NT % 32);
  }
}

// What a lane reaches: the vertices of a block that it is the first to visit get their level, their bits and a place in
// the queue. Every lane of a warp must call it; `reached` may be 0.
template <int NT>
__device__ __forceinline__ void take_new(int block, typename Bits<NT>::Word reached, int level, unsigned* visited,
                                         unsigned* __restrict__ found, int* __restrict__ levels,
                                         int* __restrict__ queued, int* __restrict__ size) {
  using Word = typename Bits<NT>::Word;
  Word mine = 0;
  if (reached) reached &= static_cast<Word>(~seen_of<NT>(visited, block));
  if (reached) mine = reached & static_cast<Word>(~Bits<NT>::unite(visited, block, reached));
  if (mine) Bits<NT>::unite(found, block, mine);
  const int count = __popcll(static_cast<unsigned long long>(mine)), through = group_scan<WARP>(count);
  int at = 0;
  if (lane_id() == WARP - 1 && through) at = atomicAdd(size, through);
  at = __shfl_sync(FULL_MASK, at, WARP - 1) + through - count;
  for (Word left = mine; left; left &= left - 1) {
    const int vertex = block * NT + Bits<NT>::lowest(left);
    levels[vertex] = level;
    queued[at++] = vertex;
  }
}

// One level. Push-CSC: a warp per vertex of the frontier, a lane per tile of its column of tiles. Push-CSR: a warp per
// piece of a row of tiles, a lane per tile. Pull-CSC: a warp per unvisited vertex, a lane per tile of its row of tiles.
// Extracted entries are pushed by the warp of a vertex of the frontier, or pulled by that of the unvisited one.
template <int NT>
__global__ void __launch_bounds__(LARGE_BLOCK)
    tile_bfs_paper_expand(int iteration, int vertices, int words, int most, int pieces,
                          const Incoming<typename Bits<NT>::Word> in, const int4* __restrict__ rows,
                          const int* __restrict__ tile_cols, const typename Bits<NT>::Word* __restrict__ masks,
                          const int* __restrict__ quad_ptr, const int* __restrict__ neighbours, unsigned* bits,
                          int* __restrict__ levels, int* __restrict__ queue, int* __restrict__ numbers) {
  using Word = typename Bits<NT>::Word;
  const int* const of = numbers + NUMBERS * (iteration % FRONTIERS);
  int* const to = numbers + NUMBERS * ((iteration + 1) % FRONTIERS);
  const int size = of[SIZE], level = of[LEVEL] + 1;
  if (size == 0) return;
  const Kernel kernel = chosen(most, of[PULLED], size, of[REST] - size, vertices);
  unsigned* const visited = bits;
  const unsigned* const before = bits + words;
  const unsigned* const frontier = bits + static_cast<long long>(2 + iteration % 2) * words;
  unsigned* const found = bits + static_cast<long long>(3 - iteration % 2) * words;
  const int* const from = queue + iteration % 2 * static_cast<long long>(vertices);
  int* const queued = queue + (1 - iteration % 2) * static_cast<long long>(vertices);
  const int warps = gridDim.x * (LARGE_BLOCK / WARP);
  const int warp = blockIdx.x * (LARGE_BLOCK / WARP) + threadIdx.x / WARP;
  const auto take = [&](int block, Word reached) {
    take_new<NT>(block, reached, level, visited, found, levels, queued, to + SIZE);
  };
  if (kernel == PULL_CSC) {
    for (int w = warp; w < words; w += warps) {
      const int in_word = vertices - 32 * w;
      if (in_word <= 0) continue;
      const unsigned all = in_word >= 32 ? FULL_MASK : (1u << in_word) - 1;
      for (unsigned open = ~before[w] & all; open; open &= open - 1) {
        const int vertex = 32 * w + __ffs(static_cast<int>(open)) - 1, row = vertex % NT;
        bool hit = false;
        const int4 here = in.rows[vertex / NT];
        for (int first = 0; first < 4 * here.y && !hit; first += WARP) {
          const int tile = first + lane_id(), chunk = here.x + tile / CHUNK;
          bool mine = false;
          if (tile < 4 * here.y) {
            const Word mask = in.masks[(static_cast<long long>(chunk) * NT + row) * CHUNK + tile % CHUNK];
            const int column = reinterpret_cast<const int*>(in.cols)[chunk * CHUNK + tile % CHUNK];
            mine = mask && (mask & Bits<NT>::get(before, column)) != 0;
          }
          hit = __any_sync(FULL_MASK, mine);
        }
        const int end = in.quad_ptr[vertex + 1] * 4;
        for (int first = in.quad_ptr[vertex] * 4; first < end && !hit; first += WARP) {
          const int i = first + lane_id();
          hit = __any_sync(FULL_MASK,
                           i < end && is_set(before, reinterpret_cast<const int*>(in.neighbours)[i < end ? i : first]));
        }
        take(vertex / NT, hit && lane_id() == 0 ? static_cast<Word>(Word(1) << row) : Word(0));
      }
    }
    return;
  }
  if (kernel == PUSH_CSR) {
    for (int piece = warp; piece < pieces; piece += warps) {
      const int end = in.piece_ptr[piece + 1] * CHUNK;
      for (int first = in.piece_ptr[piece] * CHUNK; first < end; first += WARP) {
        const int tile = first + lane_id();
        Word reached = 0;
        if (tile < end) {
          const Word wanted = Bits<NT>::get(frontier, reinterpret_cast<const int*>(in.cols)[tile]);
          const Word* const words_of = in.masks + static_cast<long long>(tile / CHUNK) * NT * CHUNK + tile % CHUNK;
          for (int row = 0; wanted && row < NT; ++row) {
            if (words_of[row * CHUNK] & wanted) reached |= static_cast<Word>(Word(1) << row);
          }
        }
        take(in.piece_row[piece], reached);
      }
    }
  }
  for (int i = warp; i < size; i += warps) {
    const int vertex = from[i], row = vertex % NT;
    const int4 here = rows[vertex / NT];
    for (int first = 0; kernel == PUSH_CSC && first < 4 * here.y; first += WARP) {
      const int tile = first + lane_id(), chunk = here.x + tile / CHUNK;
      const bool has = tile < 4 * here.y;
      take(has ? tile_cols[chunk * CHUNK + tile % CHUNK] : 0,
           has ? masks[(static_cast<long long>(chunk) * NT + row) * CHUNK + tile % CHUNK] : Word(0));
    }
    const int end = quad_ptr[vertex + 1] * 4;
    for (int first = quad_ptr[vertex] * 4; first < end; first += WARP) {
      const int at = first + lane_id(), neighbour = at < end ? neighbours[at] : 0;
      take(neighbour / NT, at < end ? static_cast<Word>(Word(1) << neighbour % NT) : Word(0));
    }
  }
}

// Ends a level: what is found becomes the frontier.
template <int NT>
__global__ void __launch_bounds__(LARGE_BLOCK)
    tile_bfs_paper_settle(int iteration, int vertices, int words, int most, unsigned* __restrict__ bits,
                          int* __restrict__ numbers) {
  const int* const of = numbers + NUMBERS * (iteration % FRONTIERS);
  int* const to = numbers + NUMBERS * ((iteration + 1) % FRONTIERS);
  const int size = of[SIZE], rest = of[REST] - size;
  if (global_thread() == 0) {
    numbers[NUMBERS * ((iteration + 2) % FRONTIERS) + SIZE] = 0;
    if (size > 0) {
      to[LEVEL] = of[LEVEL] + 1;
      to[REST] = rest;
      to[PULLED] = chosen(most, of[PULLED], size, rest, vertices) == PULL_CSC;
    }
  }
  if (size == 0) return;
  const int stride = gridDim.x * LARGE_BLOCK;
  for (long long w = global_thread(); w < words; w += stride) {
    bits[words + w] = bits[w];
    bits[(2 + iteration % 2) * static_cast<long long>(words) + w] = 0;
  }
}

// Notes the levels that were done: of frontier 0 by one block, or of the one that `iteration` made; -2 is the start.
__global__ void tile_bfs_note(int iteration, int vertices, int most, const int* __restrict__ numbers,
                              long long* __restrict__ trace, int capacity, int* __restrict__ noted) {
  const int* const of = numbers + NUMBERS * (max(iteration, 0) % FRONTIERS);
  if (iteration >= 0 && of[SIZE] == 0) return;
  const int level = iteration < 0 ? of[LEVEL] : numbers[NUMBERS * ((iteration + 1) % FRONTIERS) + LEVEL];
  const int kernel = iteration == -2   ? 0
                     : iteration == -1 ? PUSH_CSC
                                       : chosen(most, of[PULLED], of[SIZE], of[REST] - of[SIZE], vertices);
  note_levels(iteration == -2 ? 0 : level, kernel, trace, capacity, noted);
}
