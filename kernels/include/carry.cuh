// Rows that a kernel cuts between warps: their open sums, sorted by row, are added to y afterwards, or y is zero where
// rows are cut and every part is added by an atomic.
#pragma once
#include "overlap.cuh"
#include "spmv.cuh"

// One block of BLOCK threads; thread t takes `per_thread` consecutive carries. A row's run of carries is added to y by
// the one thread that sees its end, always in the same order: no atomics, the same bits every time.
template <typename V, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    carry_fixup(int n, int per_thread, const int* __restrict__ rows, const V* __restrict__ sums, V* __restrict__ y) {
  using Sum = OwnOf<V>;
  __shared__ int first_row[BLOCK + 1];
  __shared__ int last_row[BLOCK];
  __shared__ Sum open_sum[2][BLOCK];
  __shared__ bool opens[2][BLOCK];  // whether the open run starts in this thread: the scan stops there

  const int t = threadIdx.x;
  const int begin = t * per_thread < n ? t * per_thread : n;
  const int end = begin + per_thread < n ? begin + per_thread : n;
  const bool any = begin < end;

  // Runs inside the thread's share are done at once; the first one may have begun before it.
  int row = any ? rows[begin] : -1;
  const int head = row;
  Sum sum = 0;
  Sum head_sum = 0;
  bool single = true;
  for (int i = begin; i < end; ++i) {
    const int next = rows[i];
    if (next != row) {
      if (single) {
        head_sum = sum;
      } else {
        put<true>(y + row, sum);
      }
      single = false;
      row = next;
      sum = 0;
    }
    sum += own(sums + i);
  }

  first_row[t] = head;
  if (t == 0) first_row[BLOCK] = -1;
  last_row[t] = row;
  __syncthreads();
  const bool continues = any && t > 0 && last_row[t - 1] == head;
  open_sum[0][t] = sum;
  opens[0][t] = !(single && continues);
  __syncthreads();

  int now = 0;
  for (int offset = 1; offset < BLOCK; offset *= 2) {
    Sum total = open_sum[now][t];
    bool opened = opens[now][t];
    if (t >= offset && !opened) {
      total += open_sum[now][t - offset];
      opened = opens[now][t - offset];
    }
    now ^= 1;
    open_sum[now][t] = total;
    opens[now][t] = opened;
    __syncthreads();
  }

  if (!any) return;
  if (!single) put<true>(y + head, head_sum + (continues ? open_sum[now][t - 1] : Sum(0)));
  // Threads without carries hold -1, as does the place after the last thread: no row continues into them.
  if (first_row[t + 1] != row) put<true>(y + row, open_sum[now][t]);
}

// One thread a carry, for lists that are long for one block. Carries of a row within a warp are added up first; a row
// whose run is in several warps gets an atomic from each, in any order. Rows from `rows` on are none.
template <typename V>
__global__ void carry_add(int n, int rows, const int* __restrict__ carry_row, const V* __restrict__ carry_sum,
                          V* __restrict__ y) {
  const long long i = global_thread();
  const int row = i < n ? carry_row[i] : rows;
  const V sum = warp_segmented_scan(row, i < n ? carry_sum[i] : V(0));
  const int next_row = __shfl_down_sync(FULL_MASK, row, 1);
  if (row < rows && (lane_id() == WARP - 1 || next_row != row)) atomicAdd(y + row, sum);
}
