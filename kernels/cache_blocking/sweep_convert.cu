// Conversion to column-sweep on the device, in place of a few dozen array operations; see
// spmvbench/formats/cache_blocking/column_sweep.py.
#include "column_sweep.cuh"
#include "largest.cuh"
#include "search.cuh"
#include "spmv.cuh"

constexpr int DIGITS = 128;     // of a pass of the sort
constexpr int MOST_BITS = 7;    // of them
constexpr int MOST_PASSES = 5;  // a column has up to 31 bits
static_assert(1 << MOST_BITS == DIGITS, "bits of a digit");
constexpr int COLUMN = 32;                  // bit of a key where its column begins; below is the entry's number
constexpr int NEAR = 32;                    // entries between those whose rows are known
constexpr unsigned long long NONE = ~0ULL;  // after the last key

// Where row blocks begin, as `Cut.of` cuts them: the row, its first entry that belongs to the block, and the row with
// CONTINUED where others are in the block before.
template <typename I>
__global__ void sweep_cut(int blocks, int rows, long long nnz, long long weight, const I* __restrict__ row_ptr,
                          long long* __restrict__ row_of, long long* __restrict__ entry, unsigned* __restrict__ start) {
  const long long i = global_thread();
  if (i > blocks) return;
  const long long share = (nnz + weight * rows) * i / blocks;
  int low = 0;
  int high = rows + 1;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (row_ptr[middle] + weight * middle <= share) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const int row = low - 1;
  const long long taken = share - (row_ptr[row] + weight * row);
  const bool whole = row < rows && taken > 0 && taken >= row_ptr[row + 1] - row_ptr[row];  // all its entries are before
  row_of[i] = row + whole;
  const long long others = whole || row == rows ? 0 : taken;
  entry[i] = row_ptr[row + whole] + others;
  start[i] = static_cast<unsigned>(row + whole) | (others > 0 ? CONTINUED : 0u);
}

// What comes before each digit, from how many keys have it; by one warp. The two may be one array.
__device__ __forceinline__ void sum_before(const unsigned* counts, unsigned* before) {
  constexpr int EACH = DIGITS / WARP;
  const int first = lane_id() * EACH;
  unsigned count[EACH];
  unsigned sum = 0;
#pragma unroll
  for (int d = 0; d < EACH; ++d) sum += count[d] = counts[first + d];
  unsigned at = group_scan<WARP>(sum) - sum;
#pragma unroll
  for (int d = 0; d < EACH; ++d) {
    before[first + d] = at;
    at += count[d];
  }
}

// The entries of each row block in the order of their columns, for a thread block of 1,024: a stable radix sort from
// the lowest bits on, of a key an entry. Tiles of keys are sorted in shared memory, so that those of one digit are written
// side by side. The first pass makes the keys, with columns from the block's least on, so that a block of neighbouring
// columns takes few passes; later ones find them in one buffer and put them into the other, the last one into `sorted_keys`.
// entry: first of each row block. Of each panel of 65,536 columns in each block, begin: the place of its first key, chunks:
// how many chunks its entries fill.
template <typename I>
__global__ void __launch_bounds__(THREADS)
    sweep_sort(int rows, int panels, const long long* __restrict__ row_of, const long long* __restrict__ entry,
               const I* __restrict__ row_ptr, const int* __restrict__ col_idx, unsigned long long* sorted_keys,
               unsigned long long* other, long long* begin, int* __restrict__ chunks) {
  constexpr int WARPS = THREADS / WARP;
  constexpr int EACH = 4;  // keys of a thread in a tile
  constexpr int TILE = WARPS * WARP * EACH;
  __shared__ unsigned long long sorted[TILE];
  __shared__ unsigned next[MOST_PASSES][DIGITS];         // where the next key with a digit goes
  __shared__ unsigned short of_warp[WARPS][DIGITS + 2];  // keys with a digit; then those of warps before
  __shared__ unsigned in_tile[DIGITS], before[DIGITS], shift_to[DIGITS];  // keys; those of lower digits; to their place
  const int warp = threadIdx.x / WARP;
  const int lane = lane_id();
  const long long start = entry[blockIdx.x];
  const long long total = entry[blockIdx.x + 1] - start;
  // Rows that have no entry in the block may be looked at, too.
  __shared__ int range[2];
  if (threadIdx.x == 0) {
    range[0] = 0x7fffffff;
    range[1] = 0;
  }
  __syncthreads();
  int lowest_column = 0x7fffffff, highest_column = 0;
  for (long long row = row_of[blockIdx.x] + threadIdx.x; row <= row_of[blockIdx.x + 1] && row < rows;
       row += blockDim.x) {
    const I first = row_ptr[row], last = row_ptr[row + 1];
    if (first == last) continue;
    lowest_column = min(lowest_column, col_idx[first]);
    highest_column = max(highest_column, col_idx[last - 1]);
  }
  lowest_column = warp_min(lowest_column);
  highest_column = warp_max(highest_column);
  if (lane == 0) {
    atomicMin(range, lowest_column);
    atomicMax(range + 1, highest_column);
  }
  __syncthreads();
  const int least = range[0];
  const int width = range[1] > least ? 32 - __clz(range[1] - least) : 1;
  const int passes = (width + MOST_BITS - 1) / MOST_BITS, bits = (width + passes - 1) / passes;
  const auto digit_of = [&](int column, int pass) { return column >> bits * pass & ((1 << bits) - 1); };

  for (int i = threadIdx.x; i < passes * DIGITS; i += blockDim.x) next[i / DIGITS][i % DIGITS] = 0;
  __syncthreads();
#pragma unroll 4
  for (long long i = threadIdx.x; i < total; i += blockDim.x) {
    const int column = __ldg(col_idx + start + i) - least;
    for (int pass = 0; pass < passes; ++pass) atomicAdd(&next[pass][digit_of(column, pass)], 1u);
  }
  __syncthreads();
  if (warp < passes) sum_before(next[warp], next[warp]);

  unsigned long long* to = (passes % 2 ? sorted_keys : other) + start;
  unsigned long long* from = (passes % 2 ? other : sorted_keys) + start;
  for (int pass = 0; pass < passes; ++pass) {
    unsigned long long key[EACH];
    const auto load = [&](long long tile) {
#pragma unroll
      for (int u = 0; u < EACH; ++u) {
        const long long i = tile + (warp * EACH + u) * WARP + lane;
        key[u] = NONE;
        if (i < total) {
          key[u] =
              pass > 0 ? from[i] : static_cast<unsigned long long>(__ldg(col_idx + start + i) - least) << COLUMN | i;
        }
      }
    };
    load(0);
    for (long long tile = 0; tile < total; tile += TILE) {
      int digit[EACH];
      unsigned rank[EACH];                                              // among the warp's keys with the digit
      for (int d = lane; d <= DIGITS; d += WARP) of_warp[warp][d] = 0;  // DIGITS: what has no key
      __syncwarp();
#pragma unroll
      for (int u = 0; u < EACH; ++u) {
        digit[u] = key[u] == NONE ? DIGITS : digit_of(static_cast<int>(key[u] >> COLUMN), pass);
        const unsigned peers = __match_any_sync(FULL_MASK, digit[u]);
        const unsigned earlier = __popc(peers & ((1u << lane) - 1));
        rank[u] = of_warp[warp][digit[u]] + earlier;
        __syncwarp();
        if (earlier == 0) of_warp[warp][digit[u]] = static_cast<unsigned short>(rank[u] + __popc(peers));
        __syncwarp();
      }
      __syncthreads();
      for (int d = warp; d < DIGITS; d += WARPS) {
        const unsigned count = of_warp[lane][d];
        const unsigned end = group_scan<WARP>(count);
        of_warp[lane][d] = static_cast<unsigned short>(end - count);
        if (lane == WARP - 1) in_tile[d] = end;
      }
      __syncthreads();
      if (warp == 0) {
        sum_before(in_tile, before);
        __syncwarp();
        for (int d = lane; d < DIGITS; d += WARP) {
          shift_to[d] = next[pass][d] - before[d];
          next[pass][d] += in_tile[d];
        }
      }
      __syncthreads();
#pragma unroll
      for (int u = 0; u < EACH; ++u) {
        if (digit[u] < DIGITS) sorted[before[digit[u]] + of_warp[warp][digit[u]] + rank[u]] = key[u];
      }
      load(tile + TILE);
      __syncthreads();
      const int keys = static_cast<int>(total - tile < TILE ? total - tile : TILE);
      for (int i = threadIdx.x; i < keys; i += blockDim.x) {
        const unsigned long long moved = sorted[i];
        to[shift_to[digit_of(static_cast<int>(moved >> COLUMN), pass)] + i] =
            moved + (pass + 1 < passes ? 0 : static_cast<unsigned long long>(least) << COLUMN);
      }
    }
    __syncthreads();
    unsigned long long* const filled = to;
    to = from;
    from = filled;
  }

  const long long first = static_cast<long long>(blockIdx.x) * panels;
  for (int panel = threadIdx.x; panel < panels; panel += blockDim.x) {
    const unsigned long long lowest = static_cast<unsigned long long>(panel) << (COLUMN + 16);
    begin[first + panel] = start + (panel == 0 ? 0 : first_behind(from, 0LL, total, lowest - 1));
  }
  __syncthreads();
  for (int panel = threadIdx.x; panel < panels; panel += blockDim.x) {
    const long long end = panel + 1 < panels ? begin[first + panel + 1] : start + total;
    chunks[first + panel] = static_cast<int>((end - begin[first + panel] + WARP - 1) / WARP);
  }
}

// Entries in the order of their keys to their places; a stretch is what a block has of a panel of 65,536 columns. The
// first of a chunk writes its panel, the last of a stretch what is left of its chunk. owners: the row of every NEAR-th
// entry, and of the last.
template <typename V, typename I>
__global__ void sweep_places(long long nnz, int blocks, int panels, int rows, const long long* __restrict__ row_of,
                             const long long* __restrict__ entry, const unsigned long long* __restrict__ keys,
                             const long long* __restrict__ stretch_begin, const int* __restrict__ chunk_begin,
                             const I* __restrict__ row_ptr, const int* __restrict__ owners, const V* __restrict__ from,
                             unsigned short* __restrict__ panel_of, unsigned* __restrict__ places,
                             V* __restrict__ values) {
  const long long i = global_thread();
  if (i >= nnz) return;
  const int block = first_behind(entry, 0, blocks, i) - 1;
  const unsigned long long key = load_stream(keys + i);
  const long long number = entry[block] + static_cast<unsigned>(key);
  const unsigned column = static_cast<unsigned>(key >> COLUMN);
  const unsigned panel = column >> 16;
  const int first = static_cast<int>(row_of[block]);
  const int near = owners[number / NEAR], beyond = owners[number / NEAR + 1] + 1;
  const int row = first_behind(row_ptr, near, beyond < rows ? beyond : rows, static_cast<I>(number)) - 1;
  const long long stretch = static_cast<long long>(block) * panels + panel;
  long long slot = static_cast<long long>(chunk_begin[stretch]) * WARP + i - stretch_begin[stretch];
  places[slot] = static_cast<unsigned>(row - first) << 16 | (column & 0xffffu);
  values[slot] = from[number];
  if (slot % WARP == 0) panel_of[slot / WARP] = static_cast<unsigned short>(panel);
  const bool last_stretch = stretch + 1 == static_cast<long long>(blocks) * panels;
  if (i + 1 < (last_stretch ? nnz : stretch_begin[stretch + 1])) return;
  for (++slot; slot % WARP != 0; ++slot) {
    places[slot] = PADDING << 16;
    values[slot] = V(0);
  }
}
