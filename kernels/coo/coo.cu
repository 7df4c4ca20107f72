// Coordinates: one thread per entry with an atomic, or warps that sum runs of equal rows (Bell & Garland 2008, "flat").
#include "carry.cuh"
#include "spmv.cuh"

// I: type of entry numbers. y holds what the products are added to.
template <typename V, typename I, typename S = V>
__global__ void coo_atomic(I nnz, const int* __restrict__ row_idx, const int* __restrict__ col_idx,
                           const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long k = global_thread<V>();
  if (k >= nnz) return;
  atomicAdd(y + load_stream(row_idx + k), load_stream(values + k) * load_x(x, load_stream(col_idx + k)));
}

// ENTRIES neighbouring entries from a multiple of it on: one, or an even number, loaded two at a time. Places from
// `end` on repeat the last row; their column is -1 and they have nothing to add.
template <typename S, int ENTRIES>
struct Entries {
  int row[ENTRIES], column[ENTRIES];
  S value[ENTRIES];

  __device__ __forceinline__ void load(long long k, long long end, const int* __restrict__ row_idx,
                                       const int* __restrict__ col_idx, const S* __restrict__ values) {
    using Pair = typename PairOf<S>::type;
    if (ENTRIES > 1 && k + ENTRIES <= end) {
#pragma unroll
      for (int e = 0; e + 1 < ENTRIES; e += 2) {
        const int2 rows = load_stream(reinterpret_cast<const int2*>(row_idx + k + e));
        const int2 columns = load_stream(reinterpret_cast<const int2*>(col_idx + k + e));
        const Pair pair = load_stream(reinterpret_cast<const Pair*>(values + k + e));
        row[e] = rows.x, row[e + 1] = rows.y;
        column[e] = columns.x, column[e + 1] = columns.y;
        value[e] = pair.x, value[e + 1] = pair.y;
      }
    } else {
#pragma unroll
      for (int e = 0; e < ENTRIES; ++e) {
        const bool inside = k + e < end;
        row[e] = load_stream(row_idx + (inside ? k + e : end - 1));
        column[e] = inside ? load_stream(col_idx + k + e) : -1;
        value[e] = inside ? load_stream(values + k + e) : S(0);
      }
    }
  }
};

// Several vectors: a thread takes ENTRIES neighbouring entries, a multiple of 8, and adds up the runs of equal rows. A run
// that may go on in another thread's entries is added to y by an atomic. y is zero.
template <typename V, typename I, int ENTRIES, typename S = V>
__global__ void coo_runs(I nnz, const int* __restrict__ row_idx, const int* __restrict__ col_idx,
                         const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  constexpr int BATCH = 8;
  const long long begin = global_thread<V>() * ENTRIES;
  if (begin >= nnz) return;
  int row = row_idx[begin];
  bool cut = begin > 0 && row_idx[begin - 1] == row;
  const OwnX<V> own_x{x};
  V sum = 0;
  const auto add = [&](bool shared) {
    if (shared) {
      atomicAdd(y + row, sum);
    } else {
      put<false>(y + row, sum);
    }
  };
#pragma unroll 1
  for (int done = 0; done < ENTRIES && begin + done < nnz; done += BATCH) {
    Entries<S, BATCH> now;
    now.load(begin + done, nnz, row_idx, col_idx, values);
    V factor[BATCH];
#pragma unroll
    for (int e = 0; e < BATCH; ++e) factor[e] = own_x[max(now.column[e], 0)];
    wait_for_previous();
#pragma unroll
    for (int e = 0; e < BATCH; ++e) {
      if (now.row[e] != row) {
        add(cut);
        row = now.row[e], cut = false, sum = 0;
      }
      if (now.column[e] >= 0) sum += now.value[e] * factor[e];
    }
  }
  const long long end = begin + ENTRIES;
  add(cut || (end < nnz && row_idx[end] == row));
}

// ENTRIES full lines of entries that are all of one row, from k0 on: neighbouring lanes load neighbouring ones, and no
// rows, for which of a row's entries a lane has is of no matter.
template <typename S, int ENTRIES>
__device__ __forceinline__ void load_lines(Entries<S, ENTRIES>& into, long long k0, int row,
                                           const int* __restrict__ col_idx, const S* __restrict__ values) {
#pragma unroll
  for (int e = 0; e < ENTRIES; ++e) {
    into.row[e] = row;
    into.column[e] = load_stream(col_idx + k0 + e * WARP + lane_id());
    into.value[e] = load_stream(values + k0 + e * WARP + lane_id());
  }
}

// Each warp walks `interval` entries, a multiple of 32 * ENTRIES, in batches of so many: ENTRIES neighbours a lane, the
// next batch is in flight while one is summed. A row that ends inside the interval is added to y: only one warp sees
// its end, so the sum is the same every time, and an atomic is an addition that nothing waits for. What is open at the
// interval's end is the warp's carry, or, without CARRIES, is added to y by an atomic too: then the order of a row's
// parts is not fixed. The arrays are aligned to 16 bytes. LINES: whole batches of one row are loaded by load_lines.
template <typename V, typename I, int ENTRIES, bool LINES, bool CARRIES = true, typename S = V>
__global__ void coo_flat(I nnz, int interval, const int* __restrict__ row_idx, const int* __restrict__ col_idx,
                         const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y,
                         int* __restrict__ carry_row, V* __restrict__ carry_sum) {
  constexpr int BATCH = WARP * ENTRIES;
  const long long warp = global_thread() / WARP;
  const int lane = lane_id();
  const long long begin = warp * interval;
  if (begin >= nnz) return;  // the whole warp
  const long long end = begin + interval < nnz ? begin + interval : nnz;

  int open_row = row_idx[begin];
  V open_sum = 0;
  Entries<S, ENTRIES> next;
  next.load(begin + lane * ENTRIES, end, row_idx, col_idx, values);
  // The first and the last row of the batch after `next`, -1 and -2 if it is not whole: they are loaded a batch ahead.
  const auto first_of = [=](long long batch) { return batch + BATCH <= end ? row_idx[batch] : -1; };
  const auto last_of = [=](long long batch) { return batch + BATCH <= end ? row_idx[batch + BATCH - 1] : -2; };
  int first_ahead = LINES ? first_of(begin + BATCH) : -1, last_ahead = LINES ? last_of(begin + BATCH) : -2;
  for (long long batch = begin; batch < end; batch += BATCH) {
    const Entries<S, ENTRIES> now = next;
    if (LINES) {
      const int first = first_ahead, last = last_ahead;
      first_ahead = first_of(batch + 2 * BATCH), last_ahead = last_of(batch + 2 * BATCH);
      if (first == last) {
        load_lines(next, batch + BATCH, first, col_idx, values);
      } else if (batch + BATCH < end) {
        next.load(batch + BATCH + lane * ENTRIES, end, row_idx, col_idx, values);
      }
    } else if (batch + BATCH < end) {
      next.load(batch + BATCH + lane * ENTRIES, end, row_idx, col_idx, values);
    }
    V product[ENTRIES];
#pragma unroll
    for (int e = 0; e < ENTRIES; ++e) {
      // Loaded whether it is needed or not: under a condition the loads would wait for each other.
      const V x_column = load_x(x, max(now.column[e], 0));
      product[e] = now.column[e] >= 0 ? now.value[e] * x_column : V(0);
    }
    if (!CARRIES) wait_for_previous();

    // The lane's rows: one that begins and ends in it is complete, the first may have begun before, the last goes on.
    const int first_row = now.row[0];
    int row = first_row;
    V sum = 0;
    V first_sum = 0;
    if (lane == 0) {
      if (row == open_row) {
        sum = open_sum;
      } else {
        atomicAdd(y + open_row, open_sum);
      }
    }
#pragma unroll
    for (int e = 0; e < ENTRIES; ++e) {
      if (now.row[e] != row) {
        if (row == first_row) {
          first_sum = sum;
        } else {
          atomicAdd(y + row, sum);
        }
        row = now.row[e];
        sum = 0;
      }
      sum += product[e];
    }

    sum = warp_segmented_scan(row, sum);
    const int row_before = __shfl_up_sync(FULL_MASK, row, 1);
    const V sum_before = __shfl_up_sync(FULL_MASK, sum, 1);
    const int next_row = __shfl_down_sync(FULL_MASK, first_row, 1);
    if (row != first_row) {
      if (lane > 0 && row_before == first_row) first_sum += sum_before;
      atomicAdd(y + first_row, first_sum);
    }
    if (lane < WARP - 1 && next_row != row) atomicAdd(y + row, sum);
    open_row = __shfl_sync(FULL_MASK, row, WARP - 1);
    open_sum = __shfl_sync(FULL_MASK, sum, WARP - 1);
  }
  if (lane > 0) return;
  if (CARRIES) {
    carry_row[warp] = open_row;
    carry_sum[warp] = open_sum;
  } else {
    atomicAdd(y + open_row, open_sum);
  }
}
