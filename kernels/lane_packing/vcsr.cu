// VCSR (Karimi et al. 2022): slices of 32 sorted rows, step by step, without the slots of rows that are done.
#include "sell.cuh"

// A warp per slice, its rows longest first. Each step has the slots of the rows that go on, up to a multiple of ALIGN.
// ADD: y += A x.
template <typename V, typename P, int ALIGN, bool ADD, typename S = V>
__global__ void vcsr(int rows, const P* __restrict__ slice_ptr, const unsigned short* __restrict__ lengths,
                     const int* __restrict__ perm, const int* __restrict__ columns, const S* __restrict__ values,
                     const V* __restrict__ x, V* __restrict__ y) {
  const long long place = global_thread(), slice = place / WARP;
  if (slice * WARP >= rows) return;
  const int length = place < rows ? lengths[place] : 0;
  const int longest = __shfl_sync(FULL_MASK, length, 0);
  long long step = slice_ptr[slice];  // first slot of the next
  V sum = 0;
  for (int begin = 0; begin < longest; begin += SLOT_BATCH) {
    int columns_at[SLOT_BATCH];
    S loaded[SLOT_BATCH];
#pragma unroll
    for (int u = 0; u < SLOT_BATCH; ++u) {
      const bool goes_on = begin + u < length;
      const int active = __popc(__ballot_sync(FULL_MASK, goes_on));
      columns_at[u] = -1;
      loaded[u] = S(0);
      if (goes_on) columns_at[u] = load_stream(columns + step + lane_id());
      if (goes_on) loaded[u] = load_stream(values + step + lane_id());
      step += (active + ALIGN - 1) / ALIGN * ALIGN;
    }
#pragma unroll
    for (int u = 0; u < SLOT_BATCH; ++u) {
      if (columns_at[u] >= 0) sum += loaded[u] * load_x(x, columns_at[u]);
    }
  }
  if (place < rows) put<ADD>(y + perm[place], sum);
}
