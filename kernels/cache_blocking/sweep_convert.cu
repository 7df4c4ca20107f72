// Conversion to column-sweep on the device, in place of a few dozen array operations; see
// spmvbench/formats/cache_blocking/column_sweep.py. Entries of a row block go into bins of neighbouring columns, in any
// order, and each bin is sorted in shared memory.
#include "column_sweep.cuh"
#include "largest.cuh"
#include "offsets.cuh"
#include "search.cuh"
#include "spmv.cuh"

constexpr int TOGETHER = 4;  // rows or entries of a thread that are read at once
constexpr int SPLIT_BLOCK = 256;
constexpr int SPLIT_EACH = 8;                   // entries of a thread
constexpr int TILE = SPLIT_BLOCK * SPLIT_EACH;  // that a thread block divides among bins
constexpr int SORT_BLOCK = 256;
constexpr int SORT_EACH = 8;                       // keys of a thread
constexpr int MOST_KEYS = SORT_BLOCK * SORT_EACH;  // sorted at once
constexpr int BUCKETS = 2048;                      // of them
constexpr int OF_BIN = 1280;                       // entries of a bin without those of its last columns

// Where row blocks begin, as `Cut.of` cuts them: the row, its first entry that belongs to the block, and the row with
// CONTINUED where others are in the block before. A warp each.
template <typename I>
__global__ void sweep_cut(int blocks, int rows, long long nnz, long long weight, const I* __restrict__ row_ptr,
                          long long* __restrict__ row_of, long long* __restrict__ entry, unsigned* __restrict__ start) {
  const long long i = global_thread() / WARP;
  if (i > blocks) return;
  const long long share = (nnz + weight * rows) * i / blocks;
  const auto weighed = [=](int row) { return row_ptr[row] + weight * row; };
  const int row = first_of_warp(0, rows + 1, [=](long long at) { return weighed(static_cast<int>(at)) > share; }) - 1;
  if (lane_id() != 0) return;
  const long long taken = share - (row_ptr[row] + weight * row);
  const bool whole = row < rows && taken > 0 && taken >= row_ptr[row + 1] - row_ptr[row];  // all its entries are before
  row_of[i] = row + whole;
  const long long others = whole || row == rows ? 0 : taken;
  entry[i] = row_ptr[row + whole] + others;
  start[i] = static_cast<unsigned>(row + whole) | (others > 0 ? CONTINUED : 0u);
}

// How a row block's columns are divided: `count` buckets of 2^shift columns, within a panel of 65,536, from number `first`
// on; and buckets that follow each other in bins.
struct Buckets {
  int first, count, shift, bins;

  // The bucket of the block from which on columns are in `panel` or beyond.
  __device__ __forceinline__ int of_panel(int panel) const {
    const long long bucket = (static_cast<long long>(panel) << (16 - shift)) - first;
    return static_cast<int>(min(max(bucket, 0ll), static_cast<long long>(count)));
  }
  __device__ __forceinline__ int panel_of(int bucket) const { return (first + bucket) >> (16 - shift); }
};

// Slots from a row block's first one on, and the first bucket.
struct Bin {
  unsigned begin, end;
  int bucket;
};

template <typename I>
struct RowBlocks {
  const long long* __restrict__ row_of;
  const long long* __restrict__ entry;
  const I* __restrict__ row_ptr;
  const int* __restrict__ col_idx;
};

// each(i, sum before, number) for n numbers, by a block of THREADS; their sum.
template <typename Count, typename Each>
__device__ __forceinline__ unsigned scan_each(int n, Count count, Each each) {
  constexpr int WARPS = THREADS / WARP;
  __shared__ unsigned of_warp[WARPS];
  const int thread = static_cast<int>(threadIdx.x);
  unsigned before = 0;
  for (int group = 0; group < n; group += THREADS) {
    const int i = group + thread;
    const unsigned number = i < n ? count(i) : 0u;
    unsigned at = group_scan<WARP>(number);
    if (lane_id() == WARP - 1) of_warp[thread / WARP] = at;
    __syncthreads();
    at += before - number;
    for (int w = 0; w < WARPS; ++w) {
      if (w < thread / WARP) at += of_warp[w];
      before += of_warp[w];
    }
    if (i < n) each(i, at, number);
    __syncthreads();
  }
  return before;
}

// A row block's buckets, at most `most`, and bins, still without entries; the row of the first entry of each of its
// `tiles`; offsets of the chunks of its panels. Notes: the most rows of a block, and entries of a bin.
template <typename I>
__global__ void __launch_bounds__(THREADS)
    sweep_count(int rows, int most, int most_bins, int panels, int tiles, RowBlocks<I> blocks,
                Buckets* __restrict__ buckets, int* __restrict__ tile_row, unsigned short* __restrict__ bin_of,
                Bin* bins, int* chunk_begin, unsigned long long* __restrict__ state) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  unsigned* const begins = reinterpret_cast<unsigned*>(dynamic_shared);  // entries of each bucket, then those before
  __shared__ int range[2];
  __shared__ long long block_and_chunk[2];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    range[0] = 0x7fffffff;
    range[1] = 0;
    block_and_chunk[0] = static_cast<long long>(atomicAdd(state + OFFSETS_NOTES - 1, 1ull));  // in order of begin
  }
  for (int i = thread; i <= most; i += THREADS) begins[i] = 0;
  __syncthreads();
  const long long block = block_and_chunk[0];
  const long long start = blocks.entry[block], end = blocks.entry[block + 1];
  const int first_row = static_cast<int>(blocks.row_of[block]), end_row = static_cast<int>(blocks.row_of[block + 1]);
  int lowest = 0x7fffffff, highest = 0;
  for (long long first = first_row + thread; first <= end_row; first += TOGETHER * THREADS) {
    int from[TOGETHER], to[TOGETHER], low[TOGETHER], high[TOGETHER];  // entries from the block's first on, and columns
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) {
      const long long row = first + u * THREADS;
      const auto inside = [=](I entry) {
        return static_cast<int>(min(max(static_cast<long long>(entry), start), end) - start);
      };
      from[u] = row < rows ? inside(blocks.row_ptr[row]) : 0;
      to[u] = row < rows ? inside(blocks.row_ptr[row + 1]) : 0;
    }
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) {  // of rows beyond the block none
      low[u] = from[u] < to[u] ? blocks.col_idx[start + from[u]] : 0x7fffffff;
      high[u] = from[u] < to[u] ? blocks.col_idx[start + to[u] - 1] : 0;
    }
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) {
      lowest = min(lowest, low[u]);
      highest = max(highest, high[u]);
      for (int tile = (from[u] + TILE - 1) / TILE; tile * TILE < to[u]; ++tile) {
        tile_row[block * tiles + tile] = static_cast<int>(first + u * THREADS);
      }
    }
  }
  lowest = warp_min(lowest);
  highest = warp_max(highest);
  if (lane_id() == 0) {
    atomicMin(range, lowest);
    atomicMax(range + 1, highest);
  }
  __syncthreads();
  highest = range[1];
  lowest = min(range[0], highest);
  Buckets own{};
  while ((highest >> own.shift) - (lowest >> own.shift) >= most) ++own.shift;
  own.first = lowest >> own.shift;
  own.count = (highest >> own.shift) - own.first + 1;

  for (long long i = start + thread; i < end; i += TOGETHER * THREADS) {
    int column[TOGETHER];
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u)
      column[u] = i + u * THREADS < end ? load_stream(blocks.col_idx + i + u * THREADS) : -1;
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) {
      if (column[u] >= 0) atomicAdd(begins + ((column[u] >> own.shift) - own.first), 1u);
    }
  }
  __syncthreads();
  scan_each(own.count, [=](int i) { return begins[i]; }, [=](int i, unsigned at, unsigned) { begins[i] = at; });
  if (thread == 0) begins[own.count] = static_cast<unsigned>(end - start);
  __syncthreads();
  Bin* const of_block = bins + block * (most_bins + 1);
  const auto begins_bin = [=](int i) {
    if (i == 0 || own.panel_of(i) != own.panel_of(i - 1)) return 1u;
    return begins[i] / OF_BIN != begins[i - 1] / OF_BIN ? 1u : 0u;
  };
  own.bins = static_cast<int>(scan_each(own.count, begins_bin, [=](int i, unsigned at, unsigned number) {
    bin_of[block * most + i] = static_cast<unsigned short>(at + number - 1);
    if (number) of_block[at].bucket = i;
  }));
  int* const of_panels = chunk_begin + block * panels;
  const unsigned chunks = scan_each(
      panels,
      [=](int panel) { return (begins[own.of_panel(panel + 1)] - begins[own.of_panel(panel)] + WARP - 1) / WARP; },
      [=](int panel, unsigned at, unsigned) { of_panels[panel] = static_cast<int>(at); });
  if (thread < WARP) {
    const long long before = look_back(state + OFFSETS_NOTES, block, chunks);
    if (thread == 0) block_and_chunk[1] = before;
  }
  if (thread == 0) {
    of_block[own.bins].bucket = own.count;
    buckets[block] = own;
    note_most(state, end_row - first_row + (end > blocks.row_ptr[end_row]));
  }
  __syncthreads();
  unsigned largest = 0;
  for (int b = thread; b < own.bins; b += THREADS) {
    const int bucket = of_block[b].bucket, panel = own.panel_of(bucket);
    const unsigned slot = static_cast<unsigned>(of_panels[panel]) * WARP + begins[bucket] - begins[own.of_panel(panel)];
    of_block[b].begin = of_block[b].end = slot;
    largest = max(largest, begins[of_block[b + 1].bucket] - begins[bucket]);
  }
  note_most(state + 1, static_cast<int>(largest));
  __syncthreads();
  const long long before = block_and_chunk[1];
  for (int panel = thread; panel < panels; panel += THREADS) of_panels[panel] += static_cast<int>(before);
  if (thread != 0 || block != gridDim.x - 1) return;
  of_panels[panels] = static_cast<int>(before + chunks);
  state[OFFSETS_NOTES - 2] = static_cast<unsigned long long>(before + chunks);
}

// The entries of each tile of a row block into bins, in any order, as places and values.
template <typename V, typename I>
__global__ void __launch_bounds__(SPLIT_BLOCK, 5)
    sweep_split(int rows, int most, int most_bins, int panels, int tiles, RowBlocks<I> blocks,
                const V* __restrict__ csr_values, const Buckets* __restrict__ buckets, const int* __restrict__ tile_row,
                const unsigned short* __restrict__ bin_of, Bin* bins, const int* __restrict__ chunk_begin,
                unsigned* __restrict__ places, V* __restrict__ values) {
  constexpr int WARPS = SPLIT_BLOCK / WARP;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  unsigned short* const rows_in = reinterpret_cast<unsigned short*>(dynamic_shared);  // then places and bins, or values
  unsigned* const moved = reinterpret_cast<unsigned*>(dynamic_shared);
  unsigned short* const moved_bins = reinterpret_cast<unsigned short*>(dynamic_shared + TILE * sizeof(unsigned));
  V* const moved_values = reinterpret_cast<V*>(dynamic_shared);
  unsigned* const counts = reinterpret_cast<unsigned*>(dynamic_shared + TILE * (sizeof(V) < 8 ? 8 : sizeof(V)));
  __shared__ unsigned of_warp[WARPS];
  const int block = static_cast<int>(blockIdx.x) / tiles, tile = static_cast<int>(blockIdx.x) % tiles;
  const long long start = blocks.entry[block] + static_cast<long long>(tile) * TILE, end = blocks.entry[block + 1];
  if (start >= end) return;
  const int keys = static_cast<int>(end - start < TILE ? end - start : TILE);
  const Buckets own = buckets[block];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / WARP;
  const int from = static_cast<int>(blocks.row_of[block]), low = tile_row[blockIdx.x];
  const int high =
      start + TILE < end ? tile_row[blockIdx.x + 1] : min(static_cast<int>(blocks.row_of[block + 1]), rows - 1);

  // The row of each entry, in the block: that of the last one before that is the first of its row.
  for (int i = thread; i < TILE / 2; i += SPLIT_BLOCK) moved[i] = 0;
  for (int i = thread; i <= own.bins; i += SPLIT_BLOCK) counts[i] = 0;
  __syncthreads();
  for (int row = low + thread; row <= high; row += SPLIT_BLOCK) {
    const long long first = row > low ? blocks.row_ptr[row] - start : 0;
    if (first < keys && start + first < blocks.row_ptr[row + 1]) {
      rows_in[first] = static_cast<unsigned short>(row - from);
    }
  }
  __syncthreads();
  struct alignas(sizeof(short) * SPLIT_EACH) Own {
    unsigned short row[SPLIT_EACH];
  } own_rows = reinterpret_cast<Own*>(dynamic_shared)[thread];
  int through = 0;
#pragma unroll
  for (int u = 0; u < SPLIT_EACH; ++u) through = max(through, static_cast<int>(own_rows.row[u]));
  for (int offset = 1; offset < WARP; offset *= 2) {
    const int other = __shfl_up_sync(FULL_MASK, through, offset);
    if (lane_id() >= offset) through = max(through, other);
  }
  if (lane_id() == WARP - 1) of_warp[warp] = static_cast<unsigned>(through);
  const int before = __shfl_up_sync(FULL_MASK, through, 1);
  __syncthreads();
  int row_in = lane_id() ? before : 0;
  for (int w = 0; w < warp; ++w) row_in = max(row_in, static_cast<int>(of_warp[w]));
#pragma unroll
  for (int u = 0; u < SPLIT_EACH; ++u) {
    row_in = max(row_in, static_cast<int>(own_rows.row[u]));
    own_rows.row[u] = static_cast<unsigned short>(row_in);
  }
  reinterpret_cast<Own*>(dynamic_shared)[thread] = own_rows;
  __syncthreads();

  unsigned place[SPLIT_EACH], slot[SPLIT_EACH];
  int bin[SPLIT_EACH];
#pragma unroll
  for (int u = 0; u < SPLIT_EACH; ++u) {
    const int i = u * SPLIT_BLOCK + thread;
    const int column = i < keys ? load_stream(blocks.col_idx + start + i) : 0;
    bin[u] = (column >> own.shift) - own.first;
    place[u] = static_cast<unsigned>(rows_in[i]) << 16 | (static_cast<unsigned>(column) & 0xffffu);
  }
#pragma unroll
  for (int u = 0; u < SPLIT_EACH; ++u) {
    if (u * SPLIT_BLOCK + thread >= keys) continue;
    bin[u] = bin_of[static_cast<long long>(block) * most + bin[u]];
    slot[u] = atomicAdd(counts + bin[u], 1u);
  }
  __syncthreads();
  const int each = (own.bins + SPLIT_BLOCK - 1) / SPLIT_BLOCK;
  const int first_bin = min(thread * each, own.bins), last_bin = min(first_bin + each, own.bins);
  unsigned sum = 0;
  for (int b = first_bin; b < last_bin; ++b) sum += counts[b];
  unsigned at = group_scan<WARP>(sum);
  if (lane_id() == WARP - 1) of_warp[warp] = at;
  __syncthreads();
  at -= sum;
  for (int w = 0; w < warp; ++w) at += of_warp[w];
  for (int b = first_bin; b < last_bin; ++b) {
    const unsigned here = counts[b];
    counts[b] = at;
    at += here;
  }
  if (thread == 0) counts[own.bins] = static_cast<unsigned>(keys);
  __syncthreads();
#pragma unroll
  for (int u = 0; u < SPLIT_EACH; ++u) {
    if (u * SPLIT_BLOCK + thread >= keys) continue;
    slot[u] += counts[bin[u]];
    moved[slot[u]] = place[u];
    moved_bins[slot[u]] = static_cast<unsigned short>(bin[u]);
  }
  const unsigned behind = counts[last_bin];
  __syncthreads();
  Bin* const of_block = bins + static_cast<long long>(block) * (most_bins + 1);
  for (int b = first_bin; b < last_bin; ++b) {  // from places in the tile to slots
    const unsigned begin = counts[b], count = (b + 1 < last_bin ? counts[b + 1] : behind) - begin;
    counts[b] = (count ? atomicAdd(&of_block[b].end, count) : 0) - begin;
  }
  __syncthreads();
  const long long first_slot = static_cast<long long>(chunk_begin[static_cast<long long>(block) * panels]) * WARP;
  places += first_slot;
  values += first_slot;
  unsigned to[SPLIT_EACH];
#pragma unroll
  for (int u = 0; u < SPLIT_EACH; ++u) {
    const int i = u * SPLIT_BLOCK + thread;
    if (i >= keys) continue;
    to[u] = counts[moved_bins[i]] + static_cast<unsigned>(i);
    places[to[u]] = moved[i];
  }
  __syncthreads();
#pragma unroll
  for (int u = 0; u < SPLIT_EACH; ++u) {
    const int i = u * SPLIT_BLOCK + thread;
    if (i < keys) moved_values[slot[u]] = load_stream(csr_values + start + i);
  }
  __syncthreads();
#pragma unroll
  for (int u = 0; u < SPLIT_EACH; ++u) {
    const int i = u * SPLIT_BLOCK + thread;
    if (i < keys) values[to[u]] = moved_values[i];
  }
}

// The entries of a bin in the order of their columns and rows, and what is left of the last chunk of a panel. A bin that
// is sorted at once may be so in place.
template <typename V>
__global__ void __launch_bounds__(SORT_BLOCK, 4)
    sweep_places(int most_bins, int panels, const long long* __restrict__ row_of, const Buckets* __restrict__ buckets,
                 const Bin* __restrict__ bins, const int* __restrict__ chunk_begin, const unsigned* from_places,
                 const V* from_values, unsigned short* __restrict__ panel_of, unsigned* places, V* values) {
  using Wide = unsigned long long;
  constexpr int WARPS = SORT_BLOCK / WARP, OF_LANE = BUCKETS / WARP, OF_THREAD = BUCKETS / SORT_BLOCK;
  __shared__ __align__(16) unsigned char room[MOST_KEYS * 8];
  unsigned* const keys = reinterpret_cast<unsigned*>(room);
  unsigned* const numbers = keys + MOST_KEYS;
  V* const sorted_values = reinterpret_cast<V*>(room);
  __shared__ __align__(16) int counts[BUCKETS + 1];
  __shared__ int of_warp[WARPS];
  __shared__ int taken, reached;
  const int block = static_cast<int>(blockIdx.x) / most_bins, bin = static_cast<int>(blockIdx.x) % most_bins;
  const Buckets own = buckets[block];
  if (bin >= own.bins) return;
  const Bin* const here = bins + static_cast<long long>(block) * (most_bins + 1) + bin;
  const Bin next = here[1];
  const int bucket = here->bucket, panel = own.panel_of(bucket);
  const int all = static_cast<int>(here->end - here->begin);
  const long long first =
      static_cast<long long>(chunk_begin[static_cast<long long>(block) * panels]) * WARP + here->begin;
  const int row_bits = WARP - __clz(static_cast<int>(row_of[block + 1] - row_of[block]));  // the last one may be a part
  const unsigned low_column = static_cast<unsigned>(own.first + bucket) << own.shift & 0xffffu;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / WARP, lane = lane_id();
  const auto key_of = [=](unsigned place) { return ((place & 0xffffu) - low_column) << row_bits | place >> 16; };

  const Wide last = static_cast<Wide>(next.bucket - bucket) << (own.shift + row_bits);
  Wide low = 0;
  for (int done = 0; done < all;) {
    Wide high = last;
    while (all - done > MOST_KEYS) {  // as many buckets as can be sorted at once; smaller ones if it is none
      int shift = 0;
      while ((high - low - 1) >> shift >= BUCKETS) ++shift;
      __syncthreads();
      for (int i = thread; i < BUCKETS; i += SORT_BLOCK) counts[i] = 0;
      __syncthreads();
#pragma unroll 4
      for (int i = thread; i < all; i += SORT_BLOCK) {
        const unsigned key = key_of(from_places[first + i]);
        if (key >= low && key < high) atomicAdd(counts + ((key - low) >> shift), 1);
      }
      __syncthreads();
      if (warp == 0) {
        int sum = 0;
        for (int i = 0; i < OF_LANE; ++i) sum += counts[lane * OF_LANE + i];
        const int through = group_scan<WARP>(sum);
        const int lanes = __popc(__ballot_sync(FULL_MASK, through <= MOST_KEYS));
        if (lane == min(lanes, WARP - 1)) {
          int bucket_behind = lane * OF_LANE, before = through - sum;
          while (bucket_behind < BUCKETS && (before += counts[bucket_behind]) <= MOST_KEYS) ++bucket_behind;
          reached = bucket_behind;
        }
      }
      __syncthreads();
      const int reach = reached;
      high = min(high, low + (static_cast<Wide>(max(reach, 1)) << shift));
      if (reach) break;
    }
    __syncthreads();
    if (thread == 0) taken = all;
    for (int i = thread; i < BUCKETS; i += SORT_BLOCK) counts[i] = 0;
    unsigned key[SORT_EACH];
    int place[SORT_EACH];
    if (all > MOST_KEYS) {  // those of the buckets
      if (thread == 0) taken = 0;
      __syncthreads();
#pragma unroll 4
      for (int i = thread; i < all; i += SORT_BLOCK) {
        const unsigned found = key_of(from_places[first + i]);
        if (found < low || found >= high) continue;
        const int at = atomicAdd(&taken, 1);
        keys[at] = found;
        numbers[at] = static_cast<unsigned>(i);
      }
    }
    __syncthreads();
    const int count = taken;
    const bool whole = all <= MOST_KEYS;
#pragma unroll
    for (int u = 0; u < SORT_EACH; ++u) {
      const int i = u * SORT_BLOCK + thread;
      if (i < count) key[u] = whole ? key_of(from_places[first + i]) : keys[i];
    }

    // Into buckets, then behind those of the bucket that are less.
    int shift = 0;
    while ((high - low - 1) >> shift >= BUCKETS) ++shift;
    const unsigned least = static_cast<unsigned>(low);
    const auto bucket_of = [=](unsigned of) { return static_cast<int>((of - least) >> shift); };
#pragma unroll
    for (int u = 0; u < SORT_EACH; ++u) {
      if (u * SORT_BLOCK + thread < count) place[u] = atomicAdd(counts + bucket_of(key[u]), 1);
    }
    __syncthreads();
    struct alignas(16) Own {
      int count[OF_THREAD];
    } own_counts = reinterpret_cast<Own*>(counts)[thread];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < OF_THREAD; ++i) sum += own_counts.count[i];
    int at = group_scan<WARP>(sum);
    if (lane == WARP - 1) of_warp[warp] = at;
    __syncthreads();
    at -= sum;
    for (int w = 0; w < warp; ++w) at += of_warp[w];
#pragma unroll
    for (int i = 0; i < OF_THREAD; ++i) {
      const int held = own_counts.count[i];
      own_counts.count[i] = at;
      at += held;
    }
    reinterpret_cast<Own*>(counts)[thread] = own_counts;
    if (thread == 0) counts[BUCKETS] = count;
    __syncthreads();
#pragma unroll
    for (int u = 0; u < SORT_EACH; ++u) {
      if (u * SORT_BLOCK + thread < count) keys[counts[bucket_of(key[u])] + place[u]] = key[u];
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < SORT_EACH; ++u) {
      if (u * SORT_BLOCK + thread >= count) continue;
      const int of = bucket_of(key[u]), end = counts[of + 1];
      place[u] = counts[of];
      for (int i = counts[of]; i < end; ++i) place[u] += keys[i] < key[u];
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < SORT_EACH; ++u) {
      if (u * SORT_BLOCK + thread < count) keys[place[u]] = key[u];
    }
    __syncthreads();
    V value[SORT_EACH];
#pragma unroll
    for (int u = 0; u < SORT_EACH; ++u) {
      const int i = u * SORT_BLOCK + thread;
      if (i < count) value[u] = from_values[first + (whole ? i : static_cast<int>(numbers[i]))];
    }
    const long long slot = first + done;
    for (int i = thread; i < count; i += SORT_BLOCK) {
      const unsigned row = keys[i] & ((1u << row_bits) - 1);
      places[slot + i] = row << 16 | ((keys[i] >> row_bits) + low_column);
      if ((slot + i) % WARP == 0) panel_of[(slot + i) / WARP] = static_cast<unsigned short>(panel);
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < SORT_EACH; ++u) {
      if (u * SORT_BLOCK + thread < count) sorted_values[place[u]] = value[u];
    }
    __syncthreads();
    for (int i = thread; i < count; i += SORT_BLOCK) values[slot + i] = sorted_values[i];
    done += count;
    low = high;
  }
  if (bin + 1 < own.bins && own.panel_of(next.bucket) == panel) return;
  const long long slot = first + all;
  const int left = static_cast<int>((WARP - slot % WARP) % WARP);
  if (thread < left) {
    places[slot + thread] = PADDING << 16;
    values[slot + thread] = V(0);
  }
}
