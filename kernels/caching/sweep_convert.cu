// Conversion to column-sweep on the device, in place of a few dozen array operations; see
// spmvbench/formats/caching/column_sweep.py.
#include "search.cuh"
#include "spmv.cuh"

constexpr int COLUMN = 32;  // bits of a key above which its column stands; below, the entry's number in the row block

// The entries of each row block in order of their columns, for a thread block of 1,024: a stable radix sort from the
// lowest bits on, `bits` in `passes`, of a key an entry. A warp has a part of the block's keys in every pass. The first
// pass makes the keys, later ones find them in `one` and `other` by turns and put them into the other. entry: first of
// each row block. begin: of each panel of 65,536 columns in each block, the place of its first key.
__global__ void __launch_bounds__(1024)
    sweep_sort(int bits, int passes, int panels, const long long* __restrict__ entry, const int* __restrict__ col_idx,
               unsigned long long* one, unsigned long long* other, long long* __restrict__ begin) {
  constexpr int WARPS = 32;
  constexpr int DIGITS = 256;
  constexpr int AHEAD = 4;
  constexpr unsigned long long NONE = ~0ULL;
  __shared__ unsigned place[WARPS][DIGITS];  // how many keys of a warp's part have a digit, then where the next one goes
  __shared__ unsigned warp_total[DIGITS / WARP];
  const int warp = threadIdx.x / WARP;
  const long long start = entry[blockIdx.x];
  const long long total = entry[blockIdx.x + 1] - start;
  const long long part = (total + WARPS * WARP - 1) / (WARPS * WARP) * WARP;
  const long long first = warp * part < total ? warp * part : total;
  const long long last = first + part < total ? first + part : total;
  unsigned long long* from = one + start;
  unsigned long long* to = other + start;
  for (int pass = 0; pass < passes; ++pass) {
    const int shift = bits * pass / passes;
    const int digits = 1 << (bits * (pass + 1) / passes - shift);
    // Several on their way at a time; NONE behind the end.
    const auto load = [&](long long at, unsigned long long (&key)[AHEAD]) {
#pragma unroll
      for (int u = 0; u < AHEAD; ++u) {
        const long long i = at + u * WARP + lane_id();
        key[u] = NONE;
        if (i < last) {
          key[u] = pass > 0 ? from[i] : static_cast<unsigned long long>(load_stream(col_idx + start + i)) << COLUMN | i;
        }
      }
    };
    const auto digit_of = [&](unsigned long long key) {
      return key == NONE ? DIGITS : static_cast<int>(key >> COLUMN) >> shift & (digits - 1);
    };
    unsigned long long key[AHEAD];
    for (int d = lane_id(); d < digits; d += WARP) place[warp][d] = 0;
    __syncwarp();
    for (long long at = first; at < last; at += AHEAD * WARP) {
      load(at, key);
#pragma unroll
      for (int u = 0; u < AHEAD; ++u) {
        if (key[u] != NONE) atomicAdd(&place[warp][digit_of(key[u])], 1u);
      }
    }
    __syncthreads();
    const int digit = threadIdx.x;
    unsigned count = 0;
    unsigned end = 0;
    if (digit < DIGITS) {
      for (int w = 0; w < WARPS && digit < digits; ++w) count += place[w][digit];
      end = group_scan<WARP>(count);
      if (lane_id() == WARP - 1) warp_total[warp] = end;
    }
    __syncthreads();
    if (digit < digits) {
      unsigned at = end - count;
      for (int w = 0; w < warp; ++w) at += warp_total[w];
      for (int w = 0; w < WARPS; ++w) {
        const unsigned here = place[w][digit];
        place[w][digit] = at;
        at += here;
      }
    }
    __syncthreads();
    for (long long at = first; at < last; at += AHEAD * WARP) {
      load(at, key);
#pragma unroll
      for (int u = 0; u < AHEAD; ++u) {
        const int mine = digit_of(key[u]);
        const unsigned peers = __match_any_sync(FULL_MASK, mine);
        const int rank = __popc(peers & ((1u << lane_id()) - 1));
        if (mine < DIGITS) to[place[warp][mine] + rank] = key[u];
        __syncwarp();
        if (mine < DIGITS && rank == 0) place[warp][mine] += __popc(peers);
        __syncwarp();
      }
    }
    __syncthreads();
    unsigned long long* const sorted = to;
    to = from;
    from = sorted;
  }
  for (int panel = threadIdx.x; panel < panels; panel += blockDim.x) {
    const unsigned long long lowest = static_cast<unsigned long long>(panel) << (COLUMN + 16);
    begin[static_cast<long long>(blockIdx.x) * panels + panel] =
        start + (panel == 0 ? 0 : first_behind(from, 0LL, total, lowest - 1));
  }
}

// Entries in the order of their keys to their places; a stretch is what a block has of a panel of 65,536 columns.
template <typename V, typename I>
__global__ void sweep_places(long long nnz, int blocks, int panels, const long long* __restrict__ entry,
                             const unsigned long long* __restrict__ keys, const long long* __restrict__ stretch_begin,
                             const int* __restrict__ chunk_begin, const long long* __restrict__ first_row,
                             const I* __restrict__ row_ptr, int rows, const V* __restrict__ from,
                             unsigned* __restrict__ places, V* __restrict__ values) {
  const long long i = global_thread();
  if (i >= nnz) return;
  const int block = first_behind(entry, 0, blocks, i) - 1;
  const unsigned long long key = load_stream(keys + i);
  const long long number = entry[block] + static_cast<unsigned>(key);
  const unsigned column = static_cast<unsigned>(key >> COLUMN);
  const int first = static_cast<int>(first_row[block]);
  const int last = static_cast<int>(first_row[block + 1]);
  const int row = first_behind(row_ptr, first, last < rows ? last + 1 : rows, static_cast<I>(number)) - 1;
  const long long stretch = static_cast<long long>(block) * panels + (column >> 16);
  const long long slot = static_cast<long long>(chunk_begin[stretch]) * WARP + i - stretch_begin[stretch];
  places[slot] = static_cast<unsigned>(row - first) << 16 | (column & 0xffffu);
  values[slot] = __ldg(from + number);
}
