// y += A x for a sparse x: the columns of its entries, scaled and added to y by atomics.
#include "sparse_vector.cuh"
#include "zero.cuh"

// LANES threads share a column, whatever its length. y is zero.
template <typename V, typename I, int LANES>
__global__ void push_columns(int k, const int* __restrict__ index, const V* __restrict__ value,
                             const I* __restrict__ col_ptr, const int* __restrict__ row_idx,
                             const V* __restrict__ values, V* __restrict__ y) {
  const long long i = global_thread() / LANES;
  if (i >= k) return;
  const int column = index[i];
  const V factor = value[i];
  const I end = col_ptr[column + 1];
  for (I e = col_ptr[column] + threadIdx.x % LANES; e < end; e += LANES) atomicAdd(y + row_idx[e], values[e] * factor);
}

// ---- Columns and rows of many entries apart.

// y becomes zero, and a warp a long column finds out whether x has an entry there, and what it is.
template <typename V>
__global__ void find_hubs(int k, int rows, int hubs, const int* __restrict__ index, const V* __restrict__ value,
                          const int* __restrict__ hub_col, bool* __restrict__ hub_met, V* __restrict__ hub_x,
                          V* __restrict__ y) {
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  zero_share(y, rows, global_thread(), threads);
  const long long hub = global_thread() / WARP;
  if (hub >= hubs) return;  // the whole warp
  const int column = hub_col[hub];
  const int found = warp_search(index, k, column);
  if (lane_id() > 0) return;
  const bool met = found < k && index[found] == column;
  hub_met[hub] = met;
  if (met) hub_x[hub] = value[found];
}

enum Rows { PLAIN, NAMED, SUMMED };  // no row is hot; hot rows are looked up; they are summed in shared memory first

// The first `piece_blocks` blocks, all where that is 0, take a warp a piece of the long columns that x has; the others,
// LANES threads a column, those that are no longer than `longest`. y is zero. SUMMED: dynamic shared memory for hot rows.
template <typename V, typename I, int LANES, Rows ROWS>
__global__ void push_hubs(int k, int longest, int piece_blocks, int pieces, int hot_rows,
                          const int* __restrict__ index, const V* __restrict__ value, const I* __restrict__ col_ptr, const int* __restrict__ row_idx,
                          const V* __restrict__ values, const int* __restrict__ hot_row,
                          const int* __restrict__ piece_hub, const I* __restrict__ piece_begin,
                          const I* __restrict__ piece_end, const bool* __restrict__ hub_met, const V* __restrict__ hub_x, V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* hot_sum = reinterpret_cast<V*>(dynamic_shared);
  const auto add = [=](int row, V product) {  // a negative row is a hot one's number
    if (ROWS != PLAIN && row < 0) {
      atomicAdd(ROWS == SUMMED ? hot_sum + ~row : y + hot_row[~row], product);
    } else {
      atomicAdd(y + row, product);
    }
  };
  if (ROWS == SUMMED) {
    for (int i = threadIdx.x; i < hot_rows; i += blockDim.x) hot_sum[i] = V(0);
    __syncthreads();
  }
  const int block = static_cast<int>(blockIdx.x) - piece_blocks;
  if (block < 0 || piece_blocks == 0) {
    const int warps = (piece_blocks ? piece_blocks : gridDim.x) * (blockDim.x / WARP);
    for (int p = static_cast<int>(global_thread() / WARP); p < pieces; p += warps) {
      const int hub = piece_hub[p];
      if (hub_met[hub]) push_entries<WARP>(piece_begin[p], piece_end[p], hub_x[hub], row_idx, values, add);
    }
  }
  if (block >= 0) {
    const int groups = blockDim.x / LANES;
    for (long long i = static_cast<long long>(block) * groups + threadIdx.x / LANES; i < k;
         i += static_cast<long long>(gridDim.x - piece_blocks) * groups) {
      const int column = index[i];
      const V factor = value[i];
      const I begin = col_ptr[column];
      const I end = col_ptr[column + 1];
      if (end - begin <= longest) push_entries<LANES>(begin, end, factor, row_idx, values, add);
    }
  }
  if (ROWS == SUMMED) {
    __syncthreads();
    for (int i = threadIdx.x; i < hot_rows; i += blockDim.x) {
      if (hot_sum[i] != V(0)) atomicAdd(y + hot_row[i], hot_sum[i]);
    }
  }
}

// For an x of a few entries. A block owns `height` rows, which it sums in shared memory: it looks at every entry of the
// chosen columns and takes those of its rows. All of y is stored, and nothing has to be zero before.
template <typename V, typename I, int LANES>
__global__ void push_strips(int k, int rows, int height, const int* __restrict__ index, const V* __restrict__ value,
                            const I* __restrict__ col_ptr, const int* __restrict__ row_idx,
                            const V* __restrict__ values, V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* sums = reinterpret_cast<V*>(dynamic_shared);
  const int first = blockIdx.x * height;
  const int count = min(height, rows - first);
  zero_share(sums, height, threadIdx.x, blockDim.x);
  __syncthreads();
  const int groups = blockDim.x / LANES;
  for (int i = threadIdx.x / LANES; i < k; i += groups) {
    const int column = index[i];
    const I end = col_ptr[column + 1];
    for (I e = col_ptr[column] + threadIdx.x % LANES; e < end; e += LANES) {
      const int row = row_idx[e] - first;
      if (row >= 0 && row < count) atomicAdd(sums + row, values[e] * value[i]);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) y[first + i] = sums[i];
}
