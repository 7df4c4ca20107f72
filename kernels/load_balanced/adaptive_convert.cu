// Blocks of whole rows for CSR-Adaptive: where a block ends that begins at a row, and the parts of blocks of one long
// row; see spmvbench/formats/load_balanced/adaptive.py.
#include "offsets.cuh"
#include "search.cuh"
#include "spmv.cuh"

constexpr int REGION_ROWS = 8192;
constexpr int REGION_BLOCK = 1024;
constexpr int EACH = REGION_ROWS / REGION_BLOCK;  // neighbouring rows of a thread
constexpr int LONG_ON = 128, LONG_OFF = 32;       // a longer row begins a region of long rows, a shorter one ends it
constexpr int NO_ROW = 0x7fffffff;

// 2: a row that begins a region of long rows, 1: that ends one, 0: neither.
__device__ __forceinline__ int decides(long long length) { return length > LONG_ON ? 2 : length < LONG_OFF ? 1 : 0; }

// Of each stretch of REGION_ROWS rows: the first row that ends a region, the first that begins one, and what the last
// of both does, 0 if there are none.
template <typename I>
__global__ void __launch_bounds__(REGION_BLOCK)
    adaptive_regions(int rows, const I* __restrict__ row_ptr, int* __restrict__ ends, int* __restrict__ begins,
                     int* __restrict__ last) {
  __shared__ int first_of[2];
  __shared__ int latest;  // row * 4 + what it does, within the stretch, or -1
  if (threadIdx.x < 2) first_of[threadIdx.x] = NO_ROW;
  if (threadIdx.x == 0) latest = -1;
  __syncthreads();
  const int first = blockIdx.x * REGION_ROWS;
  int seen[2] = {NO_ROW, NO_ROW};
  int late = -1;
  for (int i = threadIdx.x; i < REGION_ROWS && first + i < rows; i += REGION_BLOCK) {
    const int kind = decides(row_ptr[first + i + 1] - row_ptr[first + i]);
    if (!kind) continue;
    if (seen[kind - 1] == NO_ROW) seen[kind - 1] = first + i;
    late = i * 4 + kind;
  }
  for (int kind = 0; kind < 2; ++kind) {
    if (seen[kind] != NO_ROW) atomicMin(&first_of[kind], seen[kind]);
  }
  if (late >= 0) atomicMax(&latest, late);
  __syncthreads();
  if (threadIdx.x != 0) return;
  ends[blockIdx.x] = first_of[0];
  begins[blockIdx.x] = first_of[1];
  last[blockIdx.x] = latest < 0 ? 0 : latest % 4;
}

// The row after each block of at most `entries` entries, but at least one row. REGIONS: a block ends where a region
// does.
template <typename I, bool REGIONS>
__global__ void __launch_bounds__(REGION_BLOCK)
    adaptive_following(int rows, int entries, const I* __restrict__ row_ptr, const int* __restrict__ ends,
                       const int* __restrict__ begins, const int* __restrict__ last, int* __restrict__ following) {
  __shared__ int of_warp[REGION_BLOCK / WARP];
  __shared__ int decided;    // the stretch before this one that decides last, or -1
  __shared__ int cut_after;  // the first cut after this stretch
  const int stretch = blockIdx.x;
  const int first = stretch * REGION_ROWS + threadIdx.x * EACH;
  int next_cut[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) next_cut[e] = NO_ROW;
  if (REGIONS) {
    const int lane = lane_id(), warp = threadIdx.x / WARP;
    if (threadIdx.x == 0) decided = -1, cut_after = NO_ROW;
    __syncthreads();
    for (int s = stretch - 1 - static_cast<int>(threadIdx.x); s >= 0; s -= REGION_BLOCK) {
      if (!last[s]) continue;
      atomicMax(&decided, s);
      break;
    }
    int kind[EACH];
    int own = 0;  // what the thread's last deciding row does
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int row = first + e;
      kind[e] = row < rows ? decides(row_ptr[row + 1] - row_ptr[row]) : 0;
      if (kind[e]) own = kind[e];
    }
    __syncthreads();
    const int incoming = decided < 0 ? 1 : last[decided];
    // What the last deciding row before the thread does, from the lanes and warps before it.
    const unsigned any = __ballot_sync(FULL_MASK, own != 0), large = __ballot_sync(FULL_MASK, own == 2);
    if (lane == 0) of_warp[warp] = any ? 1 + (large >> (31 - __clz(static_cast<int>(any))) & 1) : 0;
    __syncthreads();
    int state = incoming;
    for (int w = 0; w < warp; ++w) state = of_warp[w] ? of_warp[w] : state;
    const unsigned earlier = any & ((1u << lane) - 1);
    if (earlier) state = 1 + (large >> (31 - __clz(static_cast<int>(earlier))) & 1);
    const int outgoing = last[stretch] ? last[stretch] : incoming;
    for (int s = stretch + 1 + static_cast<int>(threadIdx.x); s < static_cast<int>(gridDim.x); s += REGION_BLOCK) {
      const int cut = outgoing == 2 ? ends[s] : begins[s];
      if (cut == NO_ROW) continue;
      atomicMin(&cut_after, cut);
      break;
    }
    int own_cut = NO_ROW;
    bool cut[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      cut[e] = kind[e] && kind[e] != state;
      if (kind[e]) state = kind[e];
      if (cut[e] && own_cut == NO_ROW) own_cut = first + e;
    }
    __syncthreads();  // of_warp has been read
    const unsigned with_cut = __ballot_sync(FULL_MASK, own_cut != NO_ROW);
    const int of_first = __shfl_sync(FULL_MASK, own_cut, with_cut ? __ffs(static_cast<int>(with_cut)) - 1 : 0);
    if (lane == 0) of_warp[warp] = of_first;
    __syncthreads();
    int after = cut_after;
    for (int w = REGION_BLOCK / WARP - 1; w > warp; --w) after = of_warp[w] != NO_ROW ? of_warp[w] : after;
    const unsigned later = lane == WARP - 1 ? 0 : with_cut >> (lane + 1);
    const int from = later ? lane + __ffs(static_cast<int>(later)) : lane;
    const int of_later = __shfl_sync(FULL_MASK, own_cut, from);
    if (later) after = of_later;
#pragma unroll
    for (int e = EACH - 1; e >= 0; --e) {
      next_cut[e] = after;
      if (cut[e]) after = first + e;
    }
  }
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    const int row = first + e;
    if (row >= rows) continue;
    const long long full = static_cast<long long>(row_ptr[row]) + entries;
    const long long nnz = row_ptr[rows];
    const int fits = row_from(row_ptr, row, rows + 1, static_cast<I>(full < nnz ? full : nnz));
    int after = fits > row ? fits : row + 1;
    if (after > next_cut[e]) after = next_cut[e];
    following[row] = after;
  }
}

constexpr int PARTS_BITS = 31;

// Offsets of the parts of `part` entries of each block of rows, one, unless it has more than `entries`, and of blocks of
// several. Their total: parts in the lower PARTS_BITS. chained: notes of `chain_places`, whose total is how many blocks there
// are, at most `most`; those after them have no parts.
template <typename I>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    adaptive_parts(int most, long long entries, long long part, const unsigned long long* __restrict__ chained,
                   const I* __restrict__ row_ptr, const int* __restrict__ row_blocks, int* __restrict__ ptr,
                   int* __restrict__ cut_ptr, unsigned long long* __restrict__ state) {
  const long long blocks = static_cast<long long>(chained[OFFSETS_NOTES - 2]);
  const auto count = [=](long long block) {
    if (block >= blocks) return 0ll;
    const long long length = row_ptr[row_blocks[block + 1]] - row_ptr[row_blocks[block]];
    const long long parts = length > entries ? (length + part - 1) / part : 1;
    return parts | (parts > 1 ? 1ll << PARTS_BITS : 0ll);
  };
  sum_before<OFFSETS_EACH>(most, state, count, [=](long long block, long long before, long long number) {
    ptr[block + 1] = static_cast<int>((before + number) & ((1ll << PARTS_BITS) - 1));
    cut_ptr[block + 1] = static_cast<int>((before + number) >> PARTS_BITS);
  });
  if (blockIdx.x == 0 && threadIdx.x == 0) ptr[0] = cut_ptr[0] = 0;
}

// Their first rows and entries, then the ends; and the rows that are cut. ptr, cut_ptr: of each block.
template <typename I>
__global__ void adaptive_cut(int rows, int blocks, int total, long long part, const I* __restrict__ row_ptr,
                             const int* __restrict__ row_blocks, const int* __restrict__ ptr,
                             const int* __restrict__ cut_ptr, int* __restrict__ row_of, I* __restrict__ entry_of,
                             int* __restrict__ cut_rows) {
  const long long at = global_thread();
  if (at > total) return;
  if (at == total) {
    row_of[at] = rows;
    entry_of[at] = row_ptr[rows];
    return;
  }
  const int block = first_behind(ptr, 0, blocks + 1, static_cast<int>(at)) - 1;
  const int row = row_blocks[block];
  const long long inside = at - static_cast<long long>(ptr[block]);
  row_of[at] = row;
  entry_of[at] = static_cast<I>(row_ptr[row] + inside * part);
  if (inside == 0 && cut_ptr[block + 1] > cut_ptr[block]) cut_rows[cut_ptr[block]] = row;
}
