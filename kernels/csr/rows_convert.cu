// What rows are assigned by: how long they are.
#include "offsets.cuh"
#include "search.cuh"
#include "take.cuh"
#include "spmv.cuh"

// Adds to `counts`, zero before, how many rows have each length; the last of BINS counts those as long and longer.
template <typename I, int BINS>
__global__ void rows_by_length(int rows, const I* __restrict__ row_ptr, int* __restrict__ counts) {
  // Most rows tend to be of one length: a block counts for itself before all meet at one address.
  __shared__ int seen[BINS];
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) seen[bin] = 0;
  __syncthreads();
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long row = global_thread(); row < rows; row += stride) {
    const I length = row_ptr[row + 1] - row_ptr[row];
    atomicAdd(seen + (length < BINS ? static_cast<int>(length) : BINS - 1), 1);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
    if (seen[bin]) atomicAdd(counts + bin, seen[bin]);
  }
}

constexpr int SORT_PLACES = 1024;  // that a block sorts; a window of rows has `padded` of them, a power of two
constexpr int SORT_BLOCK = SORT_PLACES / 2;

// The rows of each window of `sigma`, longest first, equal ones in order: bitonic sorts of lengths and places.
template <typename I>
__global__ void __launch_bounds__(SORT_BLOCK)
    sort_windows(int rows, int sigma, int padded, const I* __restrict__ row_ptr, int* __restrict__ perm) {
  __shared__ long long keys[SORT_PLACES];
  const long long first = static_cast<long long>(blockIdx.x) * (SORT_PLACES / padded) * sigma;
  bool disorder = false;
  for (int t = threadIdx.x; t < SORT_PLACES; t += SORT_BLOCK) {
    const int inside = t % padded;
    const long long row = first + static_cast<long long>(t / padded) * sigma + inside;
    const bool any = inside < sigma && row < rows;
    const long long length = any ? static_cast<long long>(row_ptr[row + 1] - row_ptr[row]) : 0;
    keys[t] = any ? length * SORT_PLACES + (SORT_PLACES - 1 - inside) : -1;
    if (any && inside) disorder |= length > static_cast<long long>(row_ptr[row] - row_ptr[row - 1]);
  }
  if (__syncthreads_or(disorder)) {
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

constexpr int LENGTH_BITS = 31;

// What to sort by for an order by windows of places, in a window by falling number, equal ones in place; below are a
// place's `bits` within its window. DIFFERENCES: numbers are those of neighbours. filled, zero before: numbers above 0.
template <typename C, bool DIFFERENCES>
__global__ void order_keys(long long n, int window, int bits, const C* __restrict__ numbers,
                           unsigned long long* __restrict__ keys, unsigned long long* __restrict__ filled) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  int any = 0;
  for (long long at = global_thread(); at < n; at += stride) {
    const unsigned long long number = DIFFERENCES ? numbers[at + 1] - numbers[at] : numbers[at];
    const unsigned long long falling = (1ull << LENGTH_BITS) - 1 - number;
    keys[at] = (static_cast<unsigned long long>(at / window) << LENGTH_BITS | falling) << bits | at % window;
    any += number > 0;
  }
  any = group_sum<WARP>(any);
  if (lane_id() == 0 && any) atomicAdd(filled, static_cast<unsigned long long>(any));
}

// The places in the order of their keys.
__global__ void order_places(long long n, int window, int bits, const unsigned long long* __restrict__ keys,
                             int* __restrict__ places) {
  const long long at = global_thread();
  if (at >= n) return;
  const long long own = static_cast<long long>(keys[at] >> (LENGTH_BITS + bits));
  places[at] = static_cast<int>(own * window + static_cast<long long>(keys[at] & ((1ull << bits) - 1)));
}
