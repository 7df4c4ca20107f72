// y = A x for a sparse x by buckets of neighbouring rows: products are assigned to the buckets of their rows, and each
// bucket is summed in shared memory (after Azad & Buluc, IPDPS 2017).
#include "counters.cuh"
#include "spmv.cuh"

// Products of a block's pieces are ranked in shared memory, so that a bucket's cursor moves once for all of them. A
// bucket's room is as many places as its rows have entries. Dynamic shared memory: a count and a base for each bucket.
template <typename V, typename I, int PIECE, int ITEMS, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    fill_buckets(int* __restrict__ counters, const I* __restrict__ piece_begin, const int* __restrict__ piece_entries,
                 const V* __restrict__ piece_x, const int* __restrict__ row_idx, const V* __restrict__ values,
                 int log_height, int buckets, const I* __restrict__ bucket_begin, int* __restrict__ cursors,
                 unsigned short* __restrict__ product_row, V* __restrict__ product) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  int* count = reinterpret_cast<int*>(dynamic_shared);
  int* base = count + buckets;
  constexpr int GROUPS = BLOCK / PIECE;
  const int lane = threadIdx.x % PIECE;
  const int pieces = *static_cast<volatile int*>(counters);
  for (int b = threadIdx.x; b < buckets; b += BLOCK) count[b] = 0;
  __syncthreads();
  for (int tile = blockIdx.x * GROUPS * ITEMS; tile < pieces; tile += gridDim.x * GROUPS * ITEMS) {
    int row[ITEMS], rank[ITEMS];
    V found[ITEMS];
#pragma unroll
    for (int u = 0; u < ITEMS; ++u) {
      const int p = tile + u * GROUPS + static_cast<int>(threadIdx.x) / PIECE;
      row[u] = -1;
      if (p < pieces && lane < piece_entries[p]) {
        const I e = piece_begin[p] + lane;
        row[u] = row_idx[e];
        found[u] = values[e] * piece_x[p];
      }
    }
#pragma unroll
    for (int u = 0; u < ITEMS; ++u) {
      if (row[u] >= 0) rank[u] = atomicAdd(count + (row[u] >> log_height), 1);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < buckets; b += BLOCK) {
      const int mine = count[b];
      if (mine) base[b] = atomicAdd(cursors + b, mine);
      count[b] = 0;
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < ITEMS; ++u) {
      if (row[u] >= 0) {
        const int b = row[u] >> log_height;
        const I at = bucket_begin[b] + base[b] + rank[u];
        product_row[at] = static_cast<unsigned short>(row[u] & ((1 << log_height) - 1));
        product[at] = found[u];
      }
    }
  }
  leave(counters, 2);
}

// Block by block the products of a bucket, or its share of them where a bucket has several blocks; those add to y,
// which is zero where any bucket is shared. Dynamic shared memory: the rows of a bucket.
template <typename V, typename I, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    sum_buckets(int rows, int log_height, const int* __restrict__ bucket_of, const int* __restrict__ first_block,
                const I* __restrict__ bucket_begin, const int* __restrict__ cursors,
                const unsigned short* __restrict__ product_row, const V* __restrict__ product, V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* sums = reinterpret_cast<V*>(dynamic_shared);
  const int bucket = bucket_of[blockIdx.x];
  const int first = first_block[bucket];
  const int blocks = first_block[bucket + 1] - first;
  const int first_row = bucket << log_height;
  const int count = min(1 << log_height, rows - first_row);
  const long long products = cursors[bucket];
  const int part = static_cast<int>(blockIdx.x) - first;
  const long long begin = products * part / blocks;
  const long long end = products * (part + 1) / blocks;
  for (int i = threadIdx.x; i < count; i += BLOCK) sums[i] = V(0);
  __syncthreads();
  const unsigned short* row = product_row + bucket_begin[bucket];
  const V* found = product + bucket_begin[bucket];
#pragma unroll 4
  for (long long e = begin + threadIdx.x; e < end; e += BLOCK) atomicAdd(sums + row[e], found[e]);
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += BLOCK) {
    if (blocks == 1) {
      y[first_row + i] = sums[i];
    } else if (sums[i] != V(0)) {
      atomicAdd(y + first_row + i, sums[i]);
    }
  }
}
