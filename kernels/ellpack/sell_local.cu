// Sliced ELLPACK with 16-bit columns: a slice's columns less a base, or, where they spread too far, whole. See
// spmvbench/formats/ellpack/sell_local.py.
#include "csr.cuh"
#include "epilogue.cuh"
#include "sell.cuh"

constexpr int PIECE = 2048;  // entries of a long row that a block takes

// A thread's share of positions `first` to before `end`; base(position) is what their columns are counted from.
template <int THREADS, typename V, typename Base, typename S>
__device__ __forceinline__ V narrow_sum(int first, int end, const unsigned short* __restrict__ offsets,
                                        const S* __restrict__ values, const V* __restrict__ x, Base base) {
  const auto at = [](int position) { return static_cast<long long>(position) * WARP + lane_id(); };
  return slot_sum<THREADS>(first, end, values, x, at, [=](int position) {
    const int offset = load_stream(offsets + at(position));
    return offset == LOCAL_PADDING ? -1 : base(position) + offset;
  });
}

// The same of columns in 32 bits.
template <int THREADS, typename V, typename S>
__device__ __forceinline__ V wide_sum(int first, int end, const int* __restrict__ columns, const S* __restrict__ values,
                                      const V* __restrict__ x) {
  const auto at = [](int position) { return static_cast<long long>(position) * WARP + lane_id(); };
  return slot_sum<THREADS>(first, end, values, x, at,
                           [=](int position) { return load_stream(columns + at(position)); });
}

// The share of thread t of the row at a place. A slice's positions from the `half`-th on have the second base, if PIECES is 2,
// and their columns are after the others'. Columns that take 32 bits have a base below zero; WIDE: some do, and a
// slice's columns begin at half word 32 column_ptr[slice].
template <int PIECES, int THREADS, bool WIDE, typename V, typename P, typename S>
__device__ __forceinline__ V place_sum(unsigned place, int t, const P* __restrict__ slice_ptr,
                                       const int* __restrict__ bases, const P* __restrict__ column_ptr,
                                       const unsigned short* __restrict__ columns, const S* __restrict__ values,
                                       const V* __restrict__ x) {
  const unsigned slice = place / WARP;
  const P begin = slice_ptr[slice];
  const int width = static_cast<int>((slice_ptr[slice + 1] - begin) / WARP);
  const int first_base = bases[static_cast<long long>(slice) * PIECES];
  const int second_base = PIECES == 2 ? bases[static_cast<long long>(slice) * PIECES + 1] : first_base;
  const int half = PIECES == 2 ? (width + 1) / 2 : width;
  columns += WIDE ? static_cast<long long>(column_ptr[slice]) * WARP : static_cast<long long>(begin);
  values += begin;
  const int* whole = reinterpret_cast<const int*>(columns);
  if (!WIDE || (first_base >= 0 && second_base >= 0)) {
    return narrow_sum<THREADS>(t, width, columns, values, x, [=](int position) {
      return PIECES == 2 && position >= half ? second_base : first_base;
    });
  }
  if (PIECES == 1 || (first_base < 0 && second_base < 0)) return wide_sum<THREADS>(t, width, whole, values, x);
  if (first_base < 0) {
    const V sum = wide_sum<THREADS>(t, half, whole, values, x);
    return sum +
           narrow_sum<THREADS>(half + t, width, columns + half * WARP, values, x, [=](int) { return second_base; });
  }
  const V sum = narrow_sum<THREADS>(t, half, columns, values, x, [=](int) { return first_base; });
  return sum + wide_sum<THREADS>(half + t, width, whole - half * (WARP / 2), values, x);
}

// Block (ROWS, THREADS), as sell_spmv; the rest as `place_sum`. SORTED: `perm` holds the row of each place. Registers
// are for a full multiprocessor: with more, wide columns in blocks of 1024 threads gave 63 instead of 95 GFLOPS on
// rmat:20:16 (f64, H200).
template <typename V, typename P, int PIECES, int THREADS, int ROWS, bool WIDE, bool SORTED, typename S = V,
          typename Y = V*>
__global__ void __launch_bounds__(ROWS* THREADS, 2048 / (ROWS * THREADS))
    sell_local_spmv(unsigned rows, const P* __restrict__ slice_ptr, const int* __restrict__ bases,
                    const P* __restrict__ column_ptr, const unsigned short* __restrict__ columns,
                    const int* __restrict__ perm, const S* __restrict__ values, const V* __restrict__ x, Y y) {
  const unsigned place = blockIdx.x * ROWS + threadIdx.x;
  const int t = threadIdx.y;
  V sum = 0;
  if (place < rows) sum = place_sum<PIECES, THREADS, WIDE>(place, t, slice_ptr, bases, column_ptr, columns, values, x);
  sum = rows_sum<ROWS, THREADS>(sum);
  if (place < rows && t == 0) put<false>(y + (SORTED ? perm[place] : place), sum);
}

// Rows that are stored apart, in compressed rows of their own: pieces of at most PIECE entries, those of a row in order.
template <typename I>
struct LongRows {
  int pieces;
  I nnz;
  const unsigned* apart;  // of each slice a bit for each place whose row is stored here
  const int* piece_row;
  const int2* piece_of;  // the first piece of the row, and how many it has
  const I* begin;
  const I* end;
  const int* col_idx;
  int* arrived;  // by first pieces: how many of the row's sums are there; 0 between launches
};

// Sum over a block (ROWS, THREADS), in its first thread. Every thread arrives.
template <int ROWS, int THREADS, typename V>
__device__ __forceinline__ V block_total(int thread, V sum) {
  constexpr int WARPS = ROWS * THREADS / WARP;
  __shared__ V of_warp[WARPS];
  sum = group_sum<WARP>(sum);
  __syncthreads();  // the sums of an earlier call have been read
  if (thread % WARP == 0) of_warp[thread / WARP] = sum;
  __syncthreads();
  if (thread > 0) return V(0);
  V total = 0;
  for (int w = 0; w < WARPS; ++w) total += of_warp[w];
  return total;
}

// As sell_local_spmv, after one block for each piece of the long rows: one launch for all. Of the blocks with pieces of
// a row, the last to arrive adds up their sums, always in the same order.
template <typename V, typename P, int PIECES, int THREADS, int ROWS, bool WIDE, bool SORTED, typename I, typename S = V>
__global__ void __launch_bounds__(ROWS* THREADS, 2048 / (ROWS * THREADS))
    sell_local_long(unsigned rows, const P* __restrict__ slice_ptr, const int* __restrict__ bases,
                    const P* __restrict__ column_ptr, const unsigned short* __restrict__ columns,
                    const int* __restrict__ perm, const S* __restrict__ values, LongRows<I> rest,
                    const S* __restrict__ rest_values, V* partial, const V* __restrict__ x, V* __restrict__ y) {
  const int t = threadIdx.y, thread = t * ROWS + static_cast<int>(threadIdx.x);
  const int piece = static_cast<int>(blockIdx.x);
  if (piece < rest.pieces) {
    __shared__ bool is_last;
    const V sum =
        lane_sum<ROWS * THREADS, 2>(rest.begin[piece], rest.end[piece], rest.nnz, thread, rest.col_idx, rest_values, x);
    V total = block_total<ROWS, THREADS>(thread, sum);
    const int2 of = rest.piece_of[piece];
    if (of.y > 1) {
      if (thread == 0) {
        partial[piece] = total;
        __threadfence();
        is_last = atomicAdd(rest.arrived + of.x, 1) == of.y - 1;
        __threadfence();
      }
      __syncthreads();
      if (!is_last) return;
      total = 0;
      const volatile V* const sums = partial + of.x;  // volatile: not from L1, which may be older
      for (int i = thread; i < of.y; i += ROWS * THREADS) total += sums[i];
      total = block_total<ROWS, THREADS>(thread, total);
      if (thread == 0) rest.arrived[of.x] = 0;
    }
    if (thread == 0) y[rest.piece_row[piece]] = total;
    return;
  }
  const unsigned place = static_cast<unsigned>(piece - rest.pieces) * ROWS + threadIdx.x;
  V sum = 0;
  unsigned apart = 0;
  if (place < rows) {
    apart = __ldg(rest.apart + place / WARP);
    sum = place_sum<PIECES, THREADS, WIDE>(place, t, slice_ptr, bases, column_ptr, columns, values, x);
  }
  sum = rows_sum<ROWS, THREADS>(sum);
  if (place < rows && t == 0 && (apart >> place % WARP & 1u) == 0) y[SORTED ? perm[place] : place] = sum;
}
