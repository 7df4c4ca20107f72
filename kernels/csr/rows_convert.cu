// What rows are assigned by: how long they are.
#include "largest.cuh"
#include "offsets.cuh"
#include "search.cuh"
#include "take.cuh"
#include "spmv.cuh"

// Adds to `counts`, zero before, how many rows have each length; the last of BINS counts those as long and longer. Behind
// them is the longest.
template <typename I, int BINS>
__global__ void rows_by_length(int rows, const I* __restrict__ row_ptr, int* __restrict__ counts) {
  // Most rows tend to be of one length: a block counts for itself before all meet at one address.
  __shared__ int seen[BINS];
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) seen[bin] = 0;
  __syncthreads();
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  int most = 0;
  for (long long row = global_thread(); row < rows; row += stride) {
    const int length = static_cast<int>(row_ptr[row + 1] - row_ptr[row]);
    most = most < length ? length : most;
    atomicAdd(seen + (length < BINS ? length : BINS - 1), 1);
  }
  most = warp_max(most);
  if (lane_id() == 0 && most > 0) atomicMax(counts + BINS, most);
  __syncthreads();
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
    if (seen[bin]) atomicAdd(counts + bin, seen[bin]);
  }
}

constexpr int SORT_PLACES = 1024;  // that a block sorts; a window of rows has `padded` of them, a power of two
constexpr int SORT_BLOCK = SORT_PLACES / 2;
constexpr int FEW = WARP;  // lengths that are counted: a lane each

// The rows of each window of `sigma`, longest first, equal ones in order: by counts of few lengths that follow each other,
// by bitonic sorts of lengths and places otherwise.
template <typename I>
__global__ void __launch_bounds__(SORT_BLOCK)
    sort_windows(int rows, int sigma, int padded, const I* __restrict__ row_ptr, int* __restrict__ perm) {
  __shared__ long long keys[SORT_PLACES];
  __shared__ int range[2],
      counts[SORT_PLACES / WARP][FEW];  // of 32 places: rows of each length, then those before them
  const long long first = static_cast<long long>(blockIdx.x) * (SORT_PLACES / padded) * sigma;
  bool disorder = false;
  int longest = 0, shortest = 0x7fffffff;
  if (threadIdx.x < 2) range[threadIdx.x] = threadIdx.x ? 0 : 0x7fffffff;
  for (int t = threadIdx.x; t < SORT_PLACES; t += SORT_BLOCK) {
    const int inside = t % padded;
    const long long row = first + static_cast<long long>(t / padded) * sigma + inside;
    const bool any = inside < sigma && row < rows;
    const long long length = any ? static_cast<long long>(row_ptr[row + 1] - row_ptr[row]) : 0;
    keys[t] = any ? length * SORT_PLACES + (SORT_PLACES - 1 - inside) : -1;
    if (any && inside) disorder |= length > static_cast<long long>(row_ptr[row] - row_ptr[row - 1]);
    if (any) longest = max(longest, static_cast<int>(length)), shortest = min(shortest, static_cast<int>(length));
  }
  if (__syncthreads_or(disorder)) {
    longest = warp_max(longest);
    shortest = warp_min(shortest);
    if (lane_id() == 0) {
      atomicMin(range, shortest);
      atomicMax(range + 1, longest);
    }
    for (int i = threadIdx.x; i < SORT_PLACES; i += SORT_BLOCK) counts[i / FEW][i % FEW] = 0;
    __syncthreads();
    longest = range[1];
    if (padded >= WARP && longest - range[0] < FEW) {
      const auto shorter = [&](int t) { return keys[t] < 0 ? -1 : longest - static_cast<int>(keys[t] / SORT_PLACES); };
      int before[2];  // equal ones among the 32 places
      for (int u = 0; u < 2; ++u) {
        const int t = u * SORT_BLOCK + static_cast<int>(threadIdx.x), by = shorter(t);
        const unsigned peers = __match_any_sync(FULL_MASK, by);
        before[u] = __popc(peers & ((1u << lane_id()) - 1));
        if (by >= 0 && before[u] == 0) counts[t / WARP][by] = __popc(peers);
      }
      __syncthreads();
      const int parts = padded / WARP;
      for (int w = threadIdx.x / WARP; w < SORT_PLACES / padded; w += SORT_BLOCK / WARP) {
        int sum = 0;
        for (int part = w * parts; part < (w + 1) * parts; ++part) {
          const int here = counts[part][lane_id()];
          counts[part][lane_id()] = sum;
          sum += here;
        }
        const int longer = group_scan<WARP>(sum) - sum;
        for (int part = w * parts; part < (w + 1) * parts; ++part) counts[part][lane_id()] += longer;
      }
      __syncthreads();
      for (int u = 0; u < 2; ++u) {
        const int t = u * SORT_BLOCK + static_cast<int>(threadIdx.x), by = shorter(t);
        const long long window = first + static_cast<long long>(t / padded) * sigma;
        if (by >= 0) perm[window + counts[t / WARP][by] + before[u]] = static_cast<int>(window) + t % padded;
      }
      return;
    }
    for (int size = 2; size <= padded; size *= 2) {
      for (int apart = size / 2; apart > 0; apart /= 2) {
        const int low = 2 * threadIdx.x - (threadIdx.x & (apart - 1));
        const bool falling = size == padded || !(low & size);
        const long long a = keys[low], b = keys[low + apart];
        if ((a < b) == falling) {
          keys[low] = b;
          keys[low + apart] = a;
        }
        __syncthreads();
      }
    }
  }
  for (int t = threadIdx.x; t < SORT_PLACES; t += SORT_BLOCK) {
    const long long window = first + static_cast<long long>(t / padded) * sigma;
    const long long place = window + t % padded;
    if (keys[t] < 0) continue;
    perm[place] = static_cast<int>(window) + SORT_PLACES - 1 - static_cast<int>(keys[t] % SORT_PLACES);
  }
}

// Offsets of the pieces of each row, of at most `most` entries.
template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    pieces_count(int rows, int most, const I* __restrict__ row_ptr, P* __restrict__ ptr,
                 unsigned long long* __restrict__ state) {
  write_offsets<OFFSETS_EACH>(rows, ptr, state, [=](long long row) {
    return row < rows ? static_cast<long long>((row_ptr[row + 1] - row_ptr[row] + most - 1) / most) : 0ll;
  });
}

// What the pieces are, in order of rows; all of a row as long as each other or one shorter. ptr: of rows, in pieces.
// kind: the binary logarithm of the threads that leave each `per_thread` entries, below `kinds`. flags: of each kind, 1
// for its pieces.
template <typename I, typename P>
__global__ void pieces_cut(int rows, int pieces, int per_thread, int kinds, const I* __restrict__ row_ptr,
                           const P* __restrict__ ptr, int* __restrict__ row_of, I* __restrict__ begins,
                           I* __restrict__ ends, int* __restrict__ flags) {
  const long long piece = global_thread();
  if (piece >= pieces) return;
  const int row = first_behind(ptr, 0, rows + 1, static_cast<P>(piece)) - 1;
  const long long rank = piece - ptr[row], count = ptr[row + 1] - ptr[row];
  const long long length = row_ptr[row + 1] - row_ptr[row];
  const long long begin = rank * length / count, end = (rank + 1) * length / count;
  row_of[piece] = row;
  begins[piece] = row_ptr[row] + static_cast<I>(begin);
  ends[piece] = row_ptr[row] + static_cast<I>(end);
  int kind = 0;
  while (kind < kinds - 1 && end - begin > static_cast<long long>(per_thread) << kind) ++kind;
  for (int k = 0; k < kinds; ++k) flags[static_cast<long long>(k) * pieces + piece] = k == kind;
}

// The same in order of their kinds. places: how many flags are set before each. lanes: threads of each piece; block: of
// all of them if it is not 0.
template <typename I, typename P>
__global__ void pieces_place(int pieces, int kinds, int block, const P* __restrict__ places,
                             const int* __restrict__ row_of, const I* __restrict__ begins, const I* __restrict__ ends,
                             int* __restrict__ row, I* __restrict__ begin, I* __restrict__ end,
                             unsigned char* __restrict__ lanes) {
  const long long piece = global_thread();
  if (piece >= pieces) return;
  for (int k = 0; k < kinds; ++k) {
    const P place = places[static_cast<long long>(k) * pieces + piece];
    if (places[static_cast<long long>(k) * pieces + piece + 1] == place) continue;
    row[place] = row_of[piece];
    begin[place] = begins[piece];
    end[place] = ends[piece];
    lanes[place] = static_cast<unsigned char>(block ? block : 1 << k);
  }
}

// The rows with entries, class by class of their lengths, those of a class in order. n: classes times rows. ends: bit b is
// set where a class ends with rows of b + 1 entries; longer rows are in one class.
template <typename I>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    rows_of_classes(long long n, int rows, unsigned long long ends, const I* __restrict__ row_ptr,
                    int* __restrict__ places, unsigned long long* __restrict__ state) {
  const auto count = [=](long long at) {
    if (at >= n) return 0ll;
    const int row = static_cast<int>(at % rows);
    const I length = row_ptr[row + 1] - row_ptr[row];
    const unsigned long long shorter = length > 64 ? ~0ull : (1ull << (length - 1)) - 1;
    return length && __popcll(ends & shorter) == at / rows ? 1ll : 0ll;
  };
  sum_before<OFFSETS_EACH>(n, state, count, [=](long long at, long long before, long long number) {
    if (number) places[before] = static_cast<int>(at % rows);
  });
}

// Offsets of the entries of some rows.
template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    listed_counts(int n, const int* __restrict__ rows, const I* __restrict__ row_ptr, P* __restrict__ ptr,
                  unsigned long long* __restrict__ state) {
  write_offsets<OFFSETS_EACH>(n, ptr, state, [=](long long at) {
    return at < n ? static_cast<long long>(row_ptr[rows[at] + 1] - row_ptr[rows[at]]) : 0ll;
  });
}

// Those entries.
template <typename V, typename I, typename P>
__global__ void listed_entries(int n, long long total, const int* __restrict__ rows, const I* __restrict__ row_ptr,
                               const P* __restrict__ ptr, const int* __restrict__ col_idx, const V* __restrict__ values,
                               int* __restrict__ columns, V* __restrict__ taken) {
  take_each(n, total, ptr, [&](int place, long long at) {
    const long long from = static_cast<long long>(row_ptr[rows[place]]) + (at - static_cast<long long>(ptr[place]));
    columns[at] = col_idx[from];
    taken[at] = values[from];
  });
}

// ---- The order of places by windows, in a window by falling number, equal ones in place: radix sort, a kernel for each
// digit of the keys, in which blocks look back at those before (Adinets & Merrill, arXiv:2206.01784).

constexpr int ORDER_BITS = 8;  // of a digit
constexpr int ORDER_DIGITS = 1 << ORDER_BITS;
constexpr int ORDER_EACH = 8;     // places of a thread
constexpr int ORDER_BLOCK = 256;  // threads
constexpr int ORDER_PASSES = 8;   // at most
static_assert(ORDER_BLOCK == ORDER_DIGITS, "a thread for each digit");

// The key of each place. DIFFERENCES: numbers are those of neighbours. least: if not negative, only those above it, what
// they have beyond it, fall, and others but 0 are equal. most: larger ones then count as this, of so many bits.
template <typename C, bool DIFFERENCES>
struct FallingKeys {
  int window;
  int bits;
  unsigned long long most;
  long long least;
  const C* __restrict__ numbers;

  __device__ __forceinline__ unsigned long long number(long long at) const {
    const long long found = DIFFERENCES ? numbers[at + 1] - numbers[at] : numbers[at];
    return static_cast<unsigned long long>(least < 0 ? found : found > least ? found - least + 1 : found > 0 ? 1 : 0);
  }
  __device__ __forceinline__ unsigned long long key(long long at, unsigned long long number) const {
    const unsigned long long own = at < window ? 0 : static_cast<unsigned long long>(at / window);
    return own << bits | (number < most ? most - number : 0);
  }
  __device__ __forceinline__ static int digit(unsigned long long key, int pass) {
    return static_cast<int>(key >> (ORDER_BITS * pass)) & (ORDER_DIGITS - 1);
  }
};

// How many keys have each digit in each pass, (passes, ORDER_DIGITS), zero before.
template <typename C, bool DIFFERENCES>
__global__ void __launch_bounds__(ORDER_BLOCK)
    order_counts(long long n, FallingKeys<C, DIFFERENCES> keys, int passes, unsigned long long* __restrict__ counts) {
  __shared__ int seen[ORDER_PASSES * ORDER_DIGITS];
  for (int i = threadIdx.x; i < passes * ORDER_DIGITS; i += ORDER_BLOCK) seen[i] = 0;
  __syncthreads();
  const long long stride = static_cast<long long>(gridDim.x) * ORDER_BLOCK;
  for (long long first = static_cast<long long>(blockIdx.x) * ORDER_BLOCK; first < n; first += stride) {
    const long long at = first + threadIdx.x;
    const unsigned long long number = at < n ? keys.number(at) : 0;
    const unsigned long long key = keys.key(at, number);
    for (int pass = 0; pass < passes; ++pass) {
      const int digit = at < n ? keys.digit(key, pass) : -1;  // mostly of few values: lanes with one add once
      const unsigned peers = __match_any_sync(FULL_MASK, digit);
      if (digit >= 0 && !(peers & ((1u << lane_id()) - 1))) {
        atomicAdd(seen + pass * ORDER_DIGITS + digit, __popc(peers));
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < passes * ORDER_DIGITS; i += ORDER_BLOCK) {
    if (seen[i]) atomicAdd(counts + i, static_cast<unsigned long long>(seen[i]));
  }
}

// The places of `from`, all as they are in the first pass, in the order of a digit. counts: of the pass. words, zero
// before: blocks begun, then of each block one word for each digit, see offsets.cuh. INVERSE: where each place goes, too.
template <typename C, bool DIFFERENCES, bool INVERSE>
__global__ void __launch_bounds__(ORDER_BLOCK)
    order_pass(long long n, FallingKeys<C, DIFFERENCES> keys, int pass, const unsigned long long* __restrict__ counts,
               const int* __restrict__ from, int* __restrict__ to, int* __restrict__ inverse,
               unsigned long long* __restrict__ words) {
  constexpr int WARPS = ORDER_BLOCK / WARP;
  __shared__ int of_warp[WARPS][ORDER_DIGITS];  // places with a digit, then those of warps before
  __shared__ long long first[ORDER_DIGITS];     // where the block's places with a digit go
  __shared__ long long of_digits[WARPS], begun;
  const int warp = threadIdx.x / WARP, lane = lane_id();
  if (threadIdx.x == 0) begun = static_cast<long long>(atomicAdd(words, 1ull));
  for (int d = lane; d < ORDER_DIGITS; d += WARP) of_warp[warp][d] = 0;
  __syncthreads();
  const long long block = begun;
  const long long begin = (block * WARPS + warp) * (ORDER_EACH * WARP) + lane;

  int place[ORDER_EACH], digit[ORDER_EACH], rank[ORDER_EACH];  // rank: among the warp's places with the digit
#pragma unroll
  for (int u = 0; u < ORDER_EACH; ++u) {
    const long long at = begin + u * WARP;
    place[u] = at < n ? pass ? from[at] : static_cast<int>(at) : -1;
  }
#pragma unroll
  for (int u = 0; u < ORDER_EACH; ++u) {
    digit[u] = place[u] < 0 ? -1 : keys.digit(keys.key(place[u], keys.number(place[u])), pass);
  }
#pragma unroll
  for (int u = 0; u < ORDER_EACH; ++u) {
    const unsigned peers = __match_any_sync(FULL_MASK, digit[u]);
    const unsigned earlier = __popc(peers & ((1u << lane) - 1));
    rank[u] = digit[u] < 0 ? 0 : of_warp[warp][digit[u]] + static_cast<int>(earlier);
    __syncwarp();
    if (earlier == 0 && digit[u] >= 0) of_warp[warp][digit[u]] = rank[u] + __popc(peers);
    __syncwarp();
  }
  __syncthreads();
  {
    const int d = threadIdx.x;
    long long total = 0;
    for (int w = 0; w < WARPS; ++w) {
      const int count = of_warp[w][d];
      of_warp[w][d] = static_cast<int>(total);
      total += count;
    }
    unsigned long long* const own = words + 1 + block * ORDER_DIGITS + d;
    atomicExch(own, (block ? OWN_SUM : WHOLE_SUM) | static_cast<unsigned long long>(total));
    const long long count = static_cast<long long>(counts[d]), through = group_scan<WARP>(count);
    if (lane == WARP - 1) of_digits[warp] = through;
    __syncthreads();
    long long before = through - count;
    for (int w = 0; w < warp; ++w) before += of_digits[w];
    long long earlier = 0;
    for (long long b = 1; b <= block; ++b) {
      unsigned long long word;
      while (!((word = atomicAdd(own - b * ORDER_DIGITS, 0ull)) >> 62)) __nanosleep(20);
      earlier += static_cast<long long>(word & (OWN_SUM - 1));
      if (word >> 62 == 2) break;
    }
    if (block) atomicExch(own, WHOLE_SUM | static_cast<unsigned long long>(earlier + total));
    first[d] = before + earlier;
  }
  __syncthreads();
#pragma unroll
  for (int u = 0; u < ORDER_EACH; ++u) {
    if (digit[u] < 0) continue;
    const long long at = first[digit[u]] + of_warp[warp][digit[u]] + rank[u];
    to[at] = place[u];
    if (INVERSE) inverse[place[u]] = static_cast<int>(at);
  }
}

// Where each number is in an order.
__global__ void order_inverse(int n, const int* __restrict__ order, int* __restrict__ places) {
  const long long place = global_thread();
  if (place < n) places[order[place]] = static_cast<int>(place);
}
