// CSR to diagonals on the device; see spmvbench/formats/dia/dia.py.
#include "largest.cuh"
#include "offsets.cuh"
#include "private_counts.cuh"
#include "search.cuh"
#include "side_by_side.cuh"
#include "spmv.cuh"

constexpr int NONE = 0x7fffffff;  // above every diagonal

constexpr int PIECE = 32;  // entries of the longest row of a hack for each warp that walks it

// Offsets of the warps that walk each hack: one, and more where a row is long.
template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    hdi_parts(int rows, int hacks, const I* __restrict__ row_ptr, P* __restrict__ ptr,
              unsigned long long* __restrict__ state) {
  write_offsets<1>(hacks, ptr, state, [=](long long at) {
    int parts = 0;
#pragma unroll 8
    for (int h = 0; h < WARP; ++h) {
      const long long row = (at - lane_id() + h) * WARP + lane_id();
      const int longest = warp_max(row < rows ? static_cast<int>(row_ptr[row + 1] - row_ptr[row]) : 0);
      if (h == lane_id()) parts = longest > PIECE ? (longest + PIECE - 1) / PIECE : 1;
    }
    return at < hacks ? parts : 0ll;
  });
}

// The hack and the diagonals, from `first` on and before `end`, that a warp walks. Equal shares of the entries of its
// longest row cut a hack. hack: -1 where there is none.
template <typename I, typename P>
struct HackPart {
  long long hack = -1, parts;  // of all hacks
  bool begins = true;          // whether it is the first of its hack
  int first = -NONE, end = NONE;

  __device__ __forceinline__ HackPart(long long part, int rows, int hacks, const P* __restrict__ part_ptr,
                                      const I* __restrict__ row_ptr, const int* __restrict__ col_idx)
      : parts(part_ptr[hacks]) {
    if (part >= parts) return;
    hack = part;
    if (parts == hacks) return;
    hack = first_behind_of_warp(part_ptr, 0, hacks + 1, static_cast<P>(part)) - 1;
    const long long here = part_ptr[hack + 1] - part_ptr[hack], own = part - part_ptr[hack];
    begins = own == 0;
    if (here == 1) return;
    const long long row = hack * WARP + lane_id();
    const int length = row < rows ? static_cast<int>(row_ptr[row + 1] - row_ptr[row]) : 0;
    const int longest = warp_max(length);
    const int lane = __ffs(static_cast<int>(__ballot_sync(FULL_MASK, length == longest))) - 1;
    const long long cut = hack * WARP + lane;
    const int* columns = col_idx + row_ptr[cut];
    if (own > 0) first = static_cast<int>(columns[own * longest / here] - cut);
    if (own + 1 < here) end = static_cast<int>(columns[(own + 1) * longest / here] - cut);
  }

  // The first entry of the lane's row from `first` on, of those from `begin` to before `end`.
  __device__ __forceinline__ I entry(int row, I begin, I end, const int* __restrict__ col_idx) const {
    const long long column = static_cast<long long>(row) + first;
    if (first == -NONE || column <= 0) return begin;
    return column < NONE ? entry_from(col_idx, begin, end, static_cast<int>(column), I(0)) : end;
  }
};

constexpr int HDI_BLOCK = 256;

// Offsets of the diagonals of each part of a hack, of which there are at most n: a warp for each. Columns of a row ascend,
// and so do the diagonals col - row of its entries.
template <typename I, typename P, typename D>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    hdi_count(int rows, int hacks, long long n, const P* __restrict__ part_ptr, const I* __restrict__ row_ptr,
              const int* __restrict__ col_idx, D* __restrict__ ptr, unsigned long long* __restrict__ state) {
  const auto count = [=](long long at) {
    const HackPart<I, P> here(at - lane_id(), rows, hacks, part_ptr, row_ptr, col_idx);
    long long diagonals = 0;
    if (here.hack < 0) return diagonals;  // the whole warp
    const int row = static_cast<int>(here.hack * WARP + lane_id());
    const I end = row < rows ? row_ptr[row + 1] : I(0);
    I entry = row < rows ? here.entry(row, row_ptr[row], end, col_idx) : I(0);
    int own = entry < end ? col_idx[entry] - row : NONE;
    for (int diagonal; (diagonal = warp_min(own)) < here.end; ++diagonals) {
      if (own != diagonal) continue;
      ++entry;
      own = entry < end ? col_idx[entry] - row : NONE;
    }
    return diagonals;
  };
  write_offsets<1>(n, ptr, state, count, 1);
}

// Those diagonals, and where each hack begins. ptr: of the parts.
template <typename V, typename I, typename P, typename D>
__global__ void __launch_bounds__(HDI_BLOCK)
    hdi_fill(int rows, int hacks, const P* __restrict__ part_ptr, const D* __restrict__ ptr,
             const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const V* __restrict__ csr_values,
             I* __restrict__ hack_ptr, int* __restrict__ offset, V* __restrict__ values) {
  __shared__ Side<V> sides[HDI_BLOCK / WARP];
  const long long part = global_thread() / WARP;
  const HackPart<I, P> here(part, rows, hacks, part_ptr, row_ptr, col_idx);
  if (here.hack < 0) return;  // the whole warp
  long long d = ptr[part];
  if (lane_id() == 0) {
    if (here.begins) hack_ptr[here.hack] = static_cast<I>(d);
    if (part + 1 == here.parts) hack_ptr[hacks] = static_cast<I>(ptr[part + 1]);
  }
  const int row = static_cast<int>(here.hack * WARP + lane_id());
  const I end = row < rows ? row_ptr[row + 1] : I(0);
  const I begin = row < rows ? here.entry(row, row_ptr[row], end, col_idx) : I(0);
  for (Walk<V, I> walk(sides[threadIdx.x / WARP], begin, end, col_idx, csr_values);; ++d) {
    const int own = walk.any() ? walk.column() - row : NONE, diagonal = warp_min(own);
    if (diagonal >= here.end) return;
    values[d * WARP + lane_id()] = own == diagonal ? walk.value() : V(0);
    if (lane_id() == 0) offset[d] = diagonal;
    walk.at += own == diagonal;
  }
}

constexpr int SHARE = 8192;       // entries of a block that takes entries, not rows
constexpr int REST_BLOCK = 256;   // its threads
constexpr int SIZES_BLOCK = 256;  // threads of one that takes rows

constexpr int TOGETHER = 4;  // entries of a thread that are read before the first is used

// What a block does with its share of all entries, of which each warp takes neighbours. The rows of both are found once.
template <typename I>
struct EntryShare {
  const I* __restrict__ row_ptr;
  const int* __restrict__ col_idx;
  I begin, first, last;  // of the block, and of the warp, before `last`
  int low, high;         // rows: behind the first's, and behind the last's

  __device__ __forceinline__ EntryShare(I nnz, int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx)
      : row_ptr(row_ptr), col_idx(col_idx), begin(static_cast<I>(blockIdx.x) * SHARE) {
    const I end = nnz - begin < SHARE ? nnz : begin + SHARE;
    low = first_behind_of_warp(row_ptr, 0, rows, begin);
    high = first_behind_of_warp(row_ptr, low, rows, end - 1);
    const I of_warp = SHARE / (blockDim.x / WARP);
    first = begin + static_cast<I>(threadIdx.x / WARP) * of_warp;
    last = first + of_warp < end ? first + of_warp : end;
  }

  // use(entry, column, row) for each of the warp's entries; whole warps use it, with row -1 beyond the last.
  template <typename Use>
  __device__ __forceinline__ void each(Use use) const {
    int row = -1;
    for (I from = first; from < last; from += TOGETHER * WARP) {
      int column[TOGETHER];
#pragma unroll
      for (int u = 0; u < TOGETHER; ++u) {
        const I k = from + u * WARP + lane_id();
        column[u] = k < last ? load_stream(col_idx + k) : 0;
      }
#pragma unroll
      for (int u = 0; u < TOGETHER; ++u) {
        const I k = from + u * WARP + lane_id();
        if (k < last) row = row < 0 ? first_behind(row_ptr, low, high, k) - 1 : row_from(row_ptr, row, high, k);
        use(k, column[u], k < last ? row : -1);
      }
    }
  }
};

constexpr int LONG = 256;  // entries of a row from which a block reads them together

// meet(diagonal, row) for the entries of a block's `share` rows, in which a lane meets the diagonals of its last entries
// again. parts: of the positions, for a warp each. All threads of the block arrive.
template <typename I, typename Meet>
__device__ __forceinline__ void each_diagonal(int rows, int share, int parts, const I* __restrict__ row_ptr,
                                              const int* __restrict__ col_idx, Meet meet) {
  const int begin = static_cast<int>(blockIdx.x) * share, end = rows - begin < share ? rows : begin + share;
  bool any_long = false;
  const int warp = threadIdx.x / WARP;
  for (int first = begin + warp / parts * WARP; first < end; first += SIZES_BLOCK / parts) {
    const int row = first + lane_id();
    const I entry = row < end ? row_ptr[row] : I(0);
    const I all = row < end ? row_ptr[row + 1] - entry : I(0);
    const int length = all < LONG ? static_cast<int>(all) : LONG;
    any_long |= all > LONG;
    const int width = warp_max(length);
    for (int from = warp % parts * SIDE; from < width; from += parts * SIDE) {
      int diagonal[SIDE], owner[SIDE];
      side_by_side(entry, length, from, [&](int i, bool here, int lane, int, I at) {
        owner[i] = first + lane;
        diagonal[i] = here ? load_stream(col_idx + at) - owner[i] : NONE;
      });
#pragma unroll
      for (int i = 0; i < SIDE; ++i) {
        if (diagonal[i] != NONE) meet(diagonal[i], owner[i]);
      }
    }
  }
  if (__syncthreads_or(any_long)) {
    for (int row = begin; row < end; ++row) {
      for (I at = row_ptr[row] + LONG + static_cast<I>(threadIdx.x); at < row_ptr[row + 1]; at += SIZES_BLOCK) {
        meet(load_stream(col_idx + at) - row, row);
      }
    }
  }
}

// Adds to `held`, zero before, how many entries each diagonal has, by diagonal + rows - 1.
template <typename I>
__global__ void __launch_bounds__(SIZES_BLOCK) dia_sizes(int rows, int share, int parts, const I* __restrict__ row_ptr,
                                                         const int* __restrict__ col_idx, int* __restrict__ held) {
  __shared__ PrivateCounts own;
  int* const counts = held + (rows - 1);
  int luck = 0, last = NONE, times = 0;
  const auto meet = [&](int diagonal, int) {
    if (diagonal != last) {
      if (times) own.add(last, counts, luck, times);
      last = diagonal;
      times = 0;
    }
    ++times;
  };
  own.begin();
  each_diagonal(rows, share, parts, row_ptr, col_idx, meet);
  meet(NONE, 0);
  own.end(counts);
}

constexpr int MOST = 16;  // unknowns of a node

// An entry on diagonal k = col - row is on block diagonal floor(k / d) or on the next one, of blocks of d rows and columns:
// bit d - 1 of `seen`, zero before, or bit MOST + d - 1, by k + rows - 1. widths: bit d - 1 of those in question.
template <typename I>
__global__ void __launch_bounds__(SIZES_BLOCK)
    cds_see(int rows, int share, int parts, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
            int* __restrict__ seen, unsigned widths) {
  int last = NONE;
  unsigned bits = 0;
  const auto meet = [&](int diagonal, int row) {
    if (diagonal != last) {
      if (bits) {
        int* const word = seen + (rows - 1) + last;
        // What is read may be old, and then is less.
        if (bits & ~*static_cast<volatile int*>(word)) atomicOr(word, static_cast<int>(bits));
      }
      last = diagonal;
      bits = widths & 1;
    }
    const unsigned below = row, column = row + diagonal;
#pragma unroll
    for (unsigned d = 2; d <= MOST; ++d) {
      if (widths >> (d - 1) & 1) bits |= (column % d < below % d ? 1u << MOST : 1u) << (d - 1);
    }
  };
  each_diagonal(rows, share, parts, row_ptr, col_idx, meet);
  meet(NONE, 0);
}

// Of the diagonals k = d * block .. d * block + d - 1 the first that was seen lists `block` and the next one, where they were
// seen and the diagonals before have not listed them.
struct BlockDiagonals {
  int block, number = 0;  // the first, and how many follow it

  __device__ __forceinline__ BlockDiagonals(int n, int rows, int d, long long at, const int* __restrict__ seen) {
    unsigned own = at < n ? seen[at] : 0;
    if (!own) return;
    const int least = (rows - 1) / d + 1;  // below 0 there are no more blocks
    const unsigned up = static_cast<unsigned>(at - (rows - 1) + static_cast<long long>(least) * d);
    const long long begin = at - up % d, end = begin + d < n ? begin + d : n;
    unsigned earlier = 0;
    for (long long k = begin < d ? 0 : begin - d; k < begin; ++k) earlier |= seen[k];
    for (long long k = begin < 0 ? 0 : begin; k < end; ++k) {
      if (k < at && seen[k]) return;
      own |= seen[k];
    }
    const auto next = [=](unsigned word) { return static_cast<int>(word >> (MOST + d - 1) & 1); };
    const int fresh = own >> (d - 1) & ~next(earlier) & 1;
    block = static_cast<int>(up / d) - least + (fresh ? 0 : 1);
    number = fresh + next(own);
  }
};

// How many block diagonals there are of each width, (MOST,), zero before.
__global__ void __launch_bounds__(SIZES_BLOCK)
    cds_count(int n, int rows, const int* __restrict__ seen, unsigned widths, unsigned long long* __restrict__ counts) {
  __shared__ unsigned own[MOST];
  if (threadIdx.x < MOST) own[threadIdx.x] = 0;
  __syncthreads();
  for (long long at = global_thread(); at < n; at += static_cast<long long>(gridDim.x) * SIZES_BLOCK) {
    if (!seen[at]) continue;
    for (int d = 1; d <= MOST; ++d) {
      const int number = widths >> (d - 1) & 1 ? BlockDiagonals(n, rows, d, at, seen).number : 0;
      if (number) atomicAdd(own + (d - 1), number);
    }
  }
  __syncthreads();
  if (threadIdx.x < MOST && own[threadIdx.x]) atomicAdd(counts + threadIdx.x, own[threadIdx.x]);
}

// Those of one width, ascending.
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    cds_list(int n, int rows, const int* __restrict__ seen, int width, int* __restrict__ offset,
             unsigned long long* __restrict__ state) {
  const auto listed = [=](long long at) { return BlockDiagonals(n, rows, width, at, seen); };
  sum_before<OFFSETS_EACH>(
      n, state, [=](long long at) { return static_cast<long long>(listed(at).number); },
      [=](long long at, long long before, long long number) {
        if (!number) return;
        const int block = listed(at).block;
        for (int i = 0; i < number; ++i) offset[before + i] = block + i;
      });
}

// The diagonals that are kept, ascending. held: entries of each, by diagonal + rows - 1. theta: kept from this share of its
// places, half of the rows at least; 0: where it takes fewer bytes than its entries, each with a column; below: wherever
// there are any. near: the main one and its two neighbours are kept from this share of their length, too. The first note:
// entries on them.
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    dia_list(int rows, int cols, const int* __restrict__ held, double theta, double near, int value_bytes,
             int* __restrict__ offset, unsigned long long* __restrict__ state) {
  const long long n = static_cast<long long>(rows) + cols - 1;
  unsigned long long on = 0;
  const auto count = [&](long long at) {
    const long long entries = at < n ? held[at] : 0;
    const long long diagonal = at - (rows - 1);
    const long long below = diagonal < 0 ? -diagonal : 0;
    const long long length = (rows < cols - diagonal ? rows : cols - diagonal) - below;
    const long long places = length < rows / 2 ? rows / 2 : length;
    const bool kept = theta < 0    ? true
                      : theta == 0 ? entries * (value_bytes + 4) > places * value_bytes
                                   : static_cast<double>(entries) >= theta * static_cast<double>(places);
    const bool beside =
        diagonal >= -1 && diagonal <= 1 && static_cast<double>(entries) >= near * static_cast<double>(length);
    if (!entries || !(kept || beside)) return 0ll;
    on += entries;
    return 1ll;
  };
  sum_before<OFFSETS_EACH>(n, state, count, [=](long long at, long long before, long long number) {
    if (number) offset[before] = static_cast<int>(at - (rows - 1));
  });
  add_once(state, on);
}

constexpr int PLACES = 2048;  // of diagonals

// Some diagonals, which ascend, and whether one is among them: by its place, if no other one has the same.
struct Diagonals {
  static constexpr int SEVERAL = NONE - 1;

  int of_place[PLACES];

  // All threads of the block arrive.
  __device__ __forceinline__ void begin(const int* __restrict__ offset, int diagonals) {
    for (int place = threadIdx.x; place < PLACES; place += blockDim.x) of_place[place] = NONE;
    __syncthreads();
    for (int d = threadIdx.x; d < diagonals; d += blockDim.x) {
      int* const place = of_place + (offset[d] & (PLACES - 1));
      if (atomicCAS(place, NONE, offset[d]) != NONE) atomicExch(place, SEVERAL);
    }
    __syncthreads();
  }

  __device__ __forceinline__ bool has(const int* __restrict__ offset, int diagonals, int diagonal) const {
    const int found = of_place[diagonal & (PLACES - 1)];
    if (found != SEVERAL) return found == diagonal;
    const int after = first_behind(offset, 0, diagonals, diagonal);
    return after > 0 && offset[after - 1] == diagonal;
  }
};

// The entries that are on none of the diagonals, in order. rest_ptr: where those of each row begin.
template <typename V, typename I, typename P>
__global__ void __launch_bounds__(REST_BLOCK)
    dia_rest(I nnz, int rows, int diagonals, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
             const V* __restrict__ csr_values, const int* __restrict__ offset, const P* __restrict__ rest_ptr,
             int* __restrict__ columns, V* __restrict__ values) {
  __shared__ int of_warp[REST_BLOCK / WARP];
  __shared__ int on_row;  // of the first entry's row those on diagonals, before it
  __shared__ Diagonals taken;
  const EntryShare<I> share(nnz, rows, row_ptr, col_idx);
  const int first = share.low - 1;
  if (rest_ptr[share.high] == rest_ptr[first]) return;  // the whole block: its rows have none
  if (threadIdx.x == 0) on_row = 0;
  taken.begin(offset, diagonals);
  const I row_begin = row_ptr[first];
  for (int d = threadIdx.x; d < diagonals; d += REST_BLOCK) {
    const int column = first + offset[d];
    const I at = entry_from(col_idx, row_begin, share.begin, column, I(0));
    if (at < share.begin && col_idx[at] == column) atomicAdd(&on_row, 1);
  }
  int others = 0;
  share.each([&](I, int column, int row) { others += row >= 0 && !taken.has(offset, diagonals, column - row); });
  others = group_sum<WARP>(others);
  if (lane_id() == 0) of_warp[threadIdx.x / WARP] = others;
  __syncthreads();
  long long next = static_cast<long long>(rest_ptr[first]) + (share.begin - row_begin) - on_row;
  for (int w = 0; w < threadIdx.x / WARP; ++w) next += of_warp[w];
  share.each([&](I k, int column, int row) {
    const bool other = row >= 0 && !taken.has(offset, diagonals, column - row);
    const unsigned found = __ballot_sync(FULL_MASK, other);
    const long long place = next + __popc(found & ((1u << lane_id()) - 1));
    next += __popc(found);
    if (!other) return;
    columns[place] = column;
    values[place] = csr_values[k];
  });
}

constexpr int TAKE_BLOCK = 128;

// The entries on some of a matrix's diagonals of blocks of `width` rows and columns, which ascend: a thread looks for those of
// its row, in what the warp reads of all its rows. A block takes `share` diagonals. OTHERS: how many of each row are on none,
// where a block takes all diagonals.
template <typename V, typename I, bool OTHERS>
__global__ void __launch_bounds__(TAKE_BLOCK)
    dia_take(int rows, int width, int diagonals, int share, long long pitch, const I* __restrict__ row_ptr,
             const int* __restrict__ col_idx, const V* __restrict__ csr_values, const int* __restrict__ offset,
             V* __restrict__ values, int* __restrict__ others) {
  __shared__ Side<V> sides[TAKE_BLOCK / WARP];
  Side<V>& side = sides[threadIdx.x / WARP];
  const long long row = global_thread();
  if (row >= pitch) return;  // the whole warp
  I entry = row < rows ? row_ptr[row] : I(0);
  const I end = row < rows ? row_ptr[row + 1] : I(0);
  int left = static_cast<int>(end - entry);
  int at = 0, read = 0;  // of the entries read, the first whose column is not below the diagonal's
  const int first = static_cast<int>(blockIdx.y) * share, last = diagonals - first < share ? diagonals : first + share;
  const unsigned node = static_cast<unsigned>(row) / width;
  for (int d = first; d < last; ++d) {
    long long column = (static_cast<long long>(node) + offset[d]) * width;
    for (int i = 0; i < width; ++i, ++column) {
      while (true) {
        while (at < read && side.columns[lane_id()][at] < column) ++at;
        const bool none = column >= 0 && at == read && entry + static_cast<I>(read) < end;
        if (!__any_sync(FULL_MASK, none)) break;
        entry += static_cast<I>(at);
        if (none) {
          const I last = end - entry < SIDE ? end - 1 : entry + static_cast<I>(SIDE - 1);
          if (col_idx[last] < column) entry = entry_from(col_idx, last + 1, end, static_cast<int>(column), I(0));
        }
        at = 0;
        read = end - entry < SIDE ? static_cast<int>(end - entry) : SIDE;
        side.load(entry, read, 0, col_idx, csr_values);
      }
      const bool here = at < read && side.columns[lane_id()][at] == column;
      values[(static_cast<long long>(d) * width + i) * pitch + row] = here ? side.values[lane_id()][at] : V(0);
      at += here;
      left -= here;
    }
  }
  if (OTHERS && row < rows) others[row] = left;
}
