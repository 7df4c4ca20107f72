// What every kernel on compressed sparse rows does with the entries of a row: LANES neighbouring lanes share them.
#pragma once
#include "spmv.cuh"

// A lane's share of the entries begin .. end of a row. nnz: of all rows.
//
// ENTRIES 1: every LANES-th entry, as the papers' kernels take them. ENTRIES 2: two neighbouring entries at a time,
// from an even position on: one 16-byte load for two doubles and one 8-byte load for their columns. What the pairs at a
// row's ends share with its neighbours is loaded and not multiplied; col_idx and values are aligned to 16 bytes.
template <int LANES, int ENTRIES, typename S, typename V, typename I>
__device__ __forceinline__ V lane_sum(I begin, I end, I nnz, int lane, const int* __restrict__ col_idx,
                                      const S* __restrict__ values, const V* __restrict__ x) {
  static_assert(ENTRIES == 1 || ENTRIES == 2, "a lane loads one entry or two");
  const OwnX<V> own_x{x};
  V sum = 0;
  if constexpr (ENTRIES == 1) {
#pragma unroll 4
    for (I k = begin + lane; k < end; k += LANES) {
      sum += load_stream(values + k) * own_x[load_stream(col_idx + k)];
    }
  } else {
    using Pair = typename PairOf<S>::type;
    const I pairs_end = end < (nnz & ~I(1)) ? end : nnz & ~I(1);
    I k = (begin & ~I(1)) + 2 * lane;
#pragma unroll 2
    for (; k < pairs_end; k += 2 * LANES) {
      const int2 columns = load_stream(reinterpret_cast<const int2*>(col_idx + k));
      const Pair pair = load_stream(reinterpret_cast<const Pair*>(values + k));
      if (k >= begin) sum += pair.x * own_x[columns.x];
      if (k + 1 < end) sum += pair.y * own_x[columns.y];
    }
    // The matrix's last entry may be alone; after it only empty rows begin.
    if (k >= begin && k < end) sum += values[k] * own_x[col_idx[k]];
  }
  return sum;
}
