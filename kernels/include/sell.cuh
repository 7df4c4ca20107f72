// What every sliced ELLPACK kernel does with the slots of a thread; see spmvbench/formats/ellpack/sell.py.
#pragma once
#include "spmv.cuh"

// Slots of a thread that are loaded before the first is used. On an H200 8 was faster than 4 and 16.
constexpr int SLOT_BATCH = 8;

constexpr int LOCAL_PADDING = 0xffff;  // among 16-bit columns

// Sum over every STEP-th position of a row, from `first` to before `end`, of value times x: a position's slot is
// at(position) after `values`, its column is column(position), negative in padding. The padding's x is never loaded, so
// that an infinite one does no harm. BATCH slots are loaded before the first is used.
template <int STEP, int BATCH = SLOT_BATCH, typename S, typename V, typename At, typename Column>
__device__ __forceinline__ V slot_sum(int first, int end, const S* __restrict__ values, const V* __restrict__ x, At at,
                                      Column column) {
  const OwnX<V> own_x{x};
  V sum = 0;
  for (int begin = first; begin < end; begin += BATCH * STEP) {
    int columns[BATCH];
    S loaded[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const int position = begin + u * STEP;
      const bool inside = position < end;
      columns[u] = -1;
      loaded[u] = S(0);
      if (inside) columns[u] = column(position);
      if (inside) loaded[u] = load_stream(values + at(position));
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (columns[u] >= 0) sum += loaded[u] * own_x[columns[u]];
    }
  }
  return sum;
}

// Sum over the threads of a block's row: partial sums of ROWS rows, THREADS each, thread t's in row t of the block.
// The first threads of the rows have it. Every thread of the block must arrive.
template <int ROWS, int THREADS, typename V>
__device__ __forceinline__ V rows_sum(V sum) {
  if (THREADS == 1) return sum;
  __shared__ V partial[THREADS][ROWS / SHARING<V>];
  put<false>(&partial[thread_of_row<V>()][row_thread<V>()], sum);
  __syncthreads();
  for (int t = 1; t < THREADS && thread_of_row<V>() == 0; ++t) sum += own(&partial[t][row_thread<V>()]);
  return sum;
}
