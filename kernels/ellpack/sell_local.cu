// Sliced ELLPACK with 16-bit columns: a slice's columns less a base, or, where they spread too far, whole. See
// spmvbench/formats/ellpack/sell_local.py.
#include "sell.cuh"

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

// Block (ROWS, THREADS), as sell_spmv. A slice's positions from the `half`-th on have the second base, if PIECES is 2,
// and their columns are after the others'. Columns that take 32 bits have a base below zero; WIDE: some do, and a
// slice's columns begin at half word 32 column_ptr[slice]. SORTED: `perm` holds the row of each place. Registers are
// for a full multiprocessor: with more, wide columns in blocks of 1024 threads gave 63 instead of 95 GFLOPS on
// rmat:20:16 (f64, H200).
template <typename V, typename P, int PIECES, int THREADS, int ROWS, bool WIDE, bool SORTED, typename S = V>
__global__ void __launch_bounds__(ROWS* THREADS, 2048 / (ROWS * THREADS))
    sell_local_spmv(unsigned rows, const P* __restrict__ slice_ptr, const int* __restrict__ bases,
                    const P* __restrict__ column_ptr, const unsigned short* __restrict__ columns,
                    const int* __restrict__ perm, const S* __restrict__ values, const V* __restrict__ x,
                    V* __restrict__ y) {
  const unsigned place = blockIdx.x * ROWS + threadIdx.x;
  const int t = threadIdx.y;
  V sum = 0;
  if (place < rows) {
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
      sum = narrow_sum<THREADS>(t, width, columns, values, x, [=](int position) {
        return PIECES == 2 && position >= half ? second_base : first_base;
      });
    } else if (PIECES == 1 || (first_base < 0 && second_base < 0)) {
      sum = wide_sum<THREADS>(t, width, whole, values, x);
    } else if (first_base < 0) {
      sum = wide_sum<THREADS>(t, half, whole, values, x);
      sum += narrow_sum<THREADS>(half + t, width, columns + half * WARP, values, x, [=](int) { return second_base; });
    } else {
      sum = narrow_sum<THREADS>(t, half, columns, values, x, [=](int) { return first_base; });
      sum += wide_sum<THREADS>(half + t, width, whole - half * (WARP / 2), values, x);
    }
  }
  sum = rows_sum<ROWS, THREADS>(sum);
  if (place < rows && t == 0) y[SORTED ? perm[place] : place] = sum;
}
