// ALIGNED-COO (Shah & Patel 2012): lanes of about equal length, which hold short rows and pieces of long ones.
// Step i of a warp's lane is at warp_ptr[warp] + 32 * i + lane.
#include "sell.cuh"

constexpr int NO_ROW = 0x7fffffff;  // in all slots of a lane without entries; with the sign bit a row has several lanes

template <typename V, typename P, typename S = V>
__global__ void aligned_coo(int warps, const P* __restrict__ warp_ptr, const int* __restrict__ rows,
                            const int* __restrict__ columns, const S* __restrict__ values, const V* __restrict__ x,
                            V* __restrict__ y) {
  const long long warp = global_thread() / WARP;
  if (warp >= warps) return;
  const long long first = static_cast<long long>(warp_ptr[warp]) + lane_id(), end = warp_ptr[warp + 1];
  int row = rows[first];
  if (row == NO_ROW) return;
  V sum = 0;
  const auto put_sum = [&] {
    if (row < 0) {
      atomicAdd(y + (row & NO_ROW), sum);
    } else {
      y[row] = sum;
    }
  };
  for (long long begin = first; begin < end; begin += SLOT_BATCH * WARP) {
    int at[SLOT_BATCH], columns_at[SLOT_BATCH];
    S loaded[SLOT_BATCH];
#pragma unroll
    for (int u = 0; u < SLOT_BATCH; ++u) {
      const long long slot = begin + u * WARP;
      const bool inside = slot < end;
      at[u] = NO_ROW;
      columns_at[u] = 0;
      loaded[u] = S(0);
      if (inside) at[u] = load_stream(rows + slot);
      if (inside) columns_at[u] = load_stream(columns + slot);
      if (inside) loaded[u] = load_stream(values + slot);
    }
#pragma unroll
    for (int u = 0; u < SLOT_BATCH; ++u) {
      if (at[u] == NO_ROW) break;
      if (at[u] != row) {
        put_sum();
        row = at[u];
        sum = 0;
      }
      sum += loaded[u] * load_x(x, columns_at[u]);
    }
  }
  put_sum();
}
