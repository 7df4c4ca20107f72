// Sliced ELLPACK with 16-bit columns: a slice's columns less a base, or, where they spread too far, lower and upper
// halves apart. See spmvbench/formats/sell_local.py.
#include "sell.cuh"

// Columns of one row: PIECES bases for its slice, `half` positions each. A base ~i below zero: the upper halves of the
// piece's columns stand behind the 32 i-th of `high`.
template <int PIECES>
struct LocalColumns {
  int bases[PIECES];
  int half;
  const unsigned short* __restrict__ low;   // of the thread's first position
  const unsigned short* __restrict__ high;  // of the row
  long long stride;
  int first, step;  // positions of the thread

  __device__ __forceinline__ bool narrow() const { return bases[0] >= 0 && bases[PIECES - 1] >= 0; }

  // The column of the thread's i-th slot, -1 in padding. WIDE: some piece may have upper halves.
  template <bool WIDE>
  __device__ __forceinline__ int column(int i) const {
    const unsigned lower = load_stream(low + i * stride);
    const int position = first + i * step;
    const bool behind = PIECES == 2 && position >= half;
    const int base = bases[behind ? PIECES - 1 : 0];
    if (WIDE && base < 0) {
      const long long at = static_cast<long long>(~base) + position - (behind ? half : 0);
      return static_cast<int>(lower | static_cast<unsigned>(load_stream(high + at * WARP)) << 16);
    }
    return lower == LOCAL_PADDING ? -1 : base + static_cast<int>(lower);
  }
};

// Block (ROWS, THREADS), as sell_spmv. WIDE: some slice has upper halves; its own loop keeps the others' loads together.
template <typename V, typename P, int PIECES, int THREADS, int ROWS, bool WIDE>
__global__ void __launch_bounds__(ROWS * THREADS)
    sell_local_spmv(int rows, const P* __restrict__ slice_ptr, const int* __restrict__ bases,
                    const unsigned short* __restrict__ low, const unsigned short* __restrict__ high,
                    const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long row = static_cast<long long>(blockIdx.x) * ROWS + threadIdx.x;
  const int t = threadIdx.y;
  V sum = 0;
  if (row < rows) {
    const long long slice = row / WARP;
    const P begin = slice_ptr[slice];
    const int width = static_cast<int>((slice_ptr[slice + 1] - begin) / WARP);
    const long long slot = begin + (t * WARP + lane_id());
    LocalColumns<PIECES> part;
#pragma unroll
    for (int p = 0; p < PIECES; ++p) part.bases[p] = bases[slice * PIECES + p];
    part.half = (width + PIECES - 1) / PIECES;
    part.low = low + slot;
    part.high = high + lane_id();
    part.stride = WARP * THREADS;
    part.first = t;
    part.step = THREADS;
    const int count = (width - t + THREADS - 1) / THREADS;
    if (!WIDE || part.narrow()) {
      sum = slot_sum(count, part.stride, values + slot, x, [&](int i) { return part.template column<false>(i); });
    } else {
      sum = slot_sum(count, part.stride, values + slot, x, [&](int i) { return part.template column<true>(i); });
    }
  }
  sum = rows_sum<ROWS, THREADS>(sum);
  if (row < rows && t == 0) y[row] = sum;
}
