// A sparse x, whose entries are sorted by their places, and the columns that they meet.
#pragma once
#include "spmv.cuh"

// Entries begin .. end of a column times its factor, by STEP lanes, several entries of each in flight.
// They are added to y by atomics.
template <int STEP, typename V, typename I>
__device__ __forceinline__ void push_entries(I begin, I end, V factor, const int* __restrict__ row_idx,
                                             const V* __restrict__ values, V* __restrict__ y) {
  constexpr int MANY = 4;
  for (I e = begin + threadIdx.x % STEP; e < end; e += MANY * STEP) {
    int row[MANY];
    V product[MANY];
#pragma unroll
    for (int u = 0; u < MANY; ++u) {
      if (e + u * STEP < end) {
        row[u] = row_idx[e + u * STEP];
        product[u] = values[e + u * STEP] * factor;
      }
    }
#pragma unroll
    for (int u = 0; u < MANY; ++u) {
      if (e + u * STEP < end) atomicAdd(y + row[u], product[u]);
    }
  }
}

// The columns of x's entries from block * BLOCK / LANES on, LANES threads each; those of more than 16 entries per lane
// are left to the whole block. Every thread arrives.
template <int LANES, int BLOCK, typename V, typename I>
__device__ __forceinline__ void push_block(int block, int k, const int* __restrict__ index, const V* __restrict__ value,
                                           const I* __restrict__ col_ptr, const int* __restrict__ row_idx,
                                           const V* __restrict__ values, V* __restrict__ y) {
  constexpr int GROUPS = BLOCK / LANES;
  __shared__ I long_begin[GROUPS], long_end[GROUPS];
  __shared__ V long_factor[GROUPS];
  __shared__ int long_columns;
  const long long i = static_cast<long long>(block) * GROUPS + threadIdx.x / LANES;
  I begin = 0, end = 0;
  V factor = 0;
  if (i < k) {
    const int column = index[i];
    factor = value[i];
    begin = col_ptr[column];
    end = col_ptr[column + 1];
  }
  if (threadIdx.x == 0) long_columns = 0;
  __syncthreads();
  if (end - begin <= 16 * LANES) {
    push_entries<LANES>(begin, end, factor, row_idx, values, y);
  } else if (threadIdx.x % LANES == 0) {
    const int place = atomicAdd(&long_columns, 1);
    long_begin[place] = begin;
    long_end[place] = end;
    long_factor[place] = factor;
  }
  __syncthreads();
  for (int c = 0; c < long_columns; ++c) {
    push_entries<BLOCK>(long_begin[c], long_end[c], long_factor[c], row_idx, values, y);
  }
}
