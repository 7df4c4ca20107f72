// Sliced ELLPACK with 16-bit columns: a slice's columns less a base, or, where they spread too far, lower and upper
// halves apart. See spmvbench/formats/sell_local.py.
#include "sell.cuh"

// Block (ROWS, THREADS), as sell_spmv. A slice's positions from the `half`-th on have the second base, if PIECES is 2. A
// base ~i below zero: the upper halves of the piece's columns stand behind the 32 i-th of `high`, those of a second such
// piece behind the first's; WIDE: some do. SORTED: `perm` holds the row of each place.
template <typename V, typename P, int PIECES, int THREADS, int ROWS, bool WIDE, bool SORTED>
__global__ void __launch_bounds__(ROWS * THREADS)
    sell_local_spmv(unsigned rows, const P* __restrict__ slice_ptr, const int* __restrict__ bases,
                    const int* __restrict__ perm, const unsigned short* __restrict__ low,
                    const unsigned short* __restrict__ high, const V* __restrict__ values, const V* __restrict__ x,
                    V* __restrict__ y) {
  const unsigned place = blockIdx.x * ROWS + threadIdx.x;
  const int t = threadIdx.y;
  V sum = 0;
  if (place < rows) {
    const unsigned slice = place / WARP;
    const P begin = slice_ptr[slice];
    const int width = static_cast<int>((slice_ptr[slice + 1] - begin) / WARP);
    const long long slot = begin + lane_id();
    const int first_base = bases[static_cast<long long>(slice) * PIECES];
    const int second_base = PIECES == 2 ? bases[static_cast<long long>(slice) * PIECES + 1] : first_base;
    const int half = PIECES == 2 ? (width + 1) / 2 : width;
    low += slot;
    high += lane_id();
    const auto at = [](int position) { return static_cast<long long>(position) * WARP; };
    const auto base = [=](int position) { return PIECES == 2 && position >= half ? second_base : first_base; };
    // A loop for slices without upper halves, one for slices with them throughout, and one for both.
    if (!WIDE || (first_base >= 0 && second_base >= 0)) {
      sum = slot_sum<THREADS>(t, width, values + slot, x, at, [=](int position) {
        const int offset = load_stream(low + at(position));
        return offset == LOCAL_PADDING ? -1 : base(position) + offset;
      });
    } else if (PIECES == 1 || (first_base < 0 && second_base < 0)) {
      high += at(~first_base);
      sum = slot_sum<THREADS>(t, width, values + slot, x, at, [=](int position) {
        return static_cast<int>(load_stream(high + at(position))) << 16 | load_stream(low + at(position));
      });
    } else {
      sum = slot_sum<THREADS>(t, width, values + slot, x, at, [=](int position) {
        const int lower = load_stream(low + at(position));
        const int from = base(position);
        const long long above = static_cast<long long>(~from) + (position >= half ? position - half : position);
        const int upper = from < 0 ? load_stream(high + above * WARP) : 0;
        return from < 0 ? upper << 16 | lower : lower == LOCAL_PADDING ? -1 : from + lower;
      });
    }
  }
  sum = rows_sum<ROWS, THREADS>(sum);
  if (place < rows && t == 0) y[SORTED ? perm[place] : place] = sum;
}
