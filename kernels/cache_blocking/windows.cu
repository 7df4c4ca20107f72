// Windows on y (SCOO, BTJAD) and x (PCSR) in shared memory, columns by length (TJAD), and column tiles that stay in the
// cache (TILE-COMPOSITE); see spmvbench/formats/cache_blocking.
#include "spmv.cuh"

constexpr int SCOO_THREADS = 512;
constexpr int SCOO_RESIDENT = 3;  // blocks of a multiprocessor at once
constexpr int SCOO_BATCH = 4;     // entries of a thread at a time

// SCOO (Dang & Schmidt 2012). A block per slice of rows; its y has copies in shared memory, a power of two of them, so
// that neighbouring threads add to different ones. A row that is in several slices has them to itself, and y is zero
// there. With registers for three blocks per multiprocessor, gathers of a thread are in flight together; for four, one
// waits for the other.
template <typename V, typename I, typename S = V>
__global__ void __launch_bounds__(SCOO_THREADS, SCOO_RESIDENT)
    scoo(const int* __restrict__ slice_row, const I* __restrict__ slice_ptr, const int* __restrict__ slice_copies,
         const unsigned short* __restrict__ row_idx, const int* __restrict__ col_idx, const S* __restrict__ values,
         const V* __restrict__ x, V* __restrict__ y) {
  constexpr int BATCH = SCOO_BATCH;
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* const sums = reinterpret_cast<V*>(dynamic_shared);
  const int first_row = slice_row[blockIdx.x];
  const int height = max(slice_row[blockIdx.x + 1] - first_row, 1);
  const int copies = slice_copies[blockIdx.x];
  for (int i = threadIdx.x; i < height * copies; i += blockDim.x) sums[i] = V(0);
  __syncthreads();
  const I end = slice_ptr[blockIdx.x + 1];
  const int copy = threadIdx.x & (copies - 1);
  for (I k = slice_ptr[blockIdx.x] + threadIdx.x; k < end; k += BATCH * blockDim.x) {
    int row[BATCH];
    int column[BATCH];
    V product[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const I at = k + u * blockDim.x;
      row[u] = -1;
      if (at < end) {
        row[u] = load_stream(row_idx + at);
        column[u] = load_stream(col_idx + at);
        product[u] = load_stream(values + at);
      }
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (row[u] >= 0) product[u] *= load_x(x, column[u]);
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (row[u] >= 0) atomicAdd(sums + row[u] * copies + copy, product[u]);
    }
  }
  __syncthreads();
  const bool goes_on = slice_row[blockIdx.x + 1] == first_row;
  const bool cut = goes_on || (blockIdx.x > 0 && slice_row[blockIdx.x - 1] == first_row);
  // The lanes that share a row's copies are neighbours.
  const int lanes = min(copies, WARP);
  const int lane = threadIdx.x % lanes;
  for (int r = threadIdx.x / lanes; r < (height + WARP - 1) / WARP * WARP; r += blockDim.x / lanes) {
    V sum = 0;
    for (int c = lane; r < height && c < copies; c += lanes) sum += sums[r * copies + c];
    for (int offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(FULL_MASK, sum, offset, lanes);
    if (lane > 0 || r >= height) continue;
    if (cut) {
      atomicAdd(y + first_row, sum);
    } else {
      y[first_row + r] = sum;
    }
  }
}

// The products of one column, by jagged diagonals: its d-th entry is where diagonal d begins and the column's rank in.
template <typename S, typename R>
struct Jagged {
  const int* __restrict__ diagonal;
  const R* __restrict__ row_idx;
  const S* __restrict__ values;

  template <typename V, typename Add>
  __device__ __forceinline__ void walk(int diagonals, int rank, V x, Add add) const {
    for (int d = 0; d < diagonals; ++d) {
      const int begin = diagonal[d];
      if (rank >= diagonal[d + 1] - begin) return;
      add(load_stream(row_idx + begin + rank), load_stream(values + begin + rank) * x);
    }
  }
};

// TJAD (Abu-Sufah & Abdel-Karim 2012). A thread per column, in order of length; products are added to y, which is zero.
template <typename V, typename S = V>
__global__ void tjad(int columns, int diagonals, const int* __restrict__ column, const int* __restrict__ diagonal,
                     const int* __restrict__ row_idx, const S* __restrict__ values, const V* __restrict__ x,
                     V* __restrict__ y) {
  const long long rank = global_thread();
  if (rank >= columns) return;
  const Jagged<S, int> jagged{diagonal, row_idx, values};
  jagged.walk(diagonals, static_cast<int>(rank), load_x(x, load_stream(column + rank)),
              [=](int row, V product) { atomicAdd(y + row, product); });
}

// BTJAD. The same inside blocks of `height` rows, whose y is in shared memory.
template <typename V, typename S = V>
__global__ void btjad(int rows, int height, const int* __restrict__ column_ptr, const int* __restrict__ column,
                      const int* __restrict__ diagonal_ptr, const int* __restrict__ diagonal,
                      const unsigned short* __restrict__ row_idx, const S* __restrict__ values, const V* __restrict__ x,
                      V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* const sums = reinterpret_cast<V*>(dynamic_shared);
  for (int i = threadIdx.x; i < height; i += blockDim.x) sums[i] = V(0);
  __syncthreads();
  const int first = column_ptr[blockIdx.x];
  const int columns = column_ptr[blockIdx.x + 1] - first;
  const int diagonals = diagonal_ptr[blockIdx.x + 1] - diagonal_ptr[blockIdx.x];
  const Jagged<S, unsigned short> jagged{diagonal + diagonal_ptr[blockIdx.x], row_idx, values};
  for (int k = threadIdx.x; k < columns; k += blockDim.x) {
    jagged.walk(diagonals, k, load_x(x, load_stream(column + first + k)),
                [=](int row, V product) { atomicAdd(sums + row, product); });
  }
  __syncthreads();
  for (int r = threadIdx.x; r < height; r += blockDim.x) {
    const long long row = static_cast<long long>(blockIdx.x) * height + r;
    if (row < rows) y[row] = sums[r];
  }
}

// PCSR (Dehnavi, Fernandez & Giannacopoulos 2010). A block per ROWS rows; the x of a tile of WIDTH columns is copied to
// shared memory, LANES lanes sum a row's segment there.
template <typename V, typename I, int ROWS, int WIDTH, int LANES, typename S = V>
__global__ void pcsr(int rows, int cols, const int* __restrict__ tile_ptr, const int* __restrict__ tile,
                     const I* __restrict__ segment_ptr, const unsigned short* __restrict__ col_idx,
                     const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  __shared__ V window[WIDTH];
  __shared__ V sums[ROWS];
  const int lane = threadIdx.x % LANES;
  const int groups = blockDim.x / LANES;
  for (int r = threadIdx.x; r < ROWS; r += blockDim.x) sums[r] = V(0);
  for (int t = tile_ptr[blockIdx.x]; t < tile_ptr[blockIdx.x + 1]; ++t) {
    const long long first = static_cast<long long>(tile[t]) * WIDTH;
    __syncthreads();
    for (int j = threadIdx.x; j < WIDTH && first + j < cols; j += blockDim.x) window[j] = __ldg(x + first + j);
    __syncthreads();
    const I* segments = segment_ptr + static_cast<long long>(t) * ROWS;
    for (int r = threadIdx.x / LANES; r < ROWS; r += groups) {
      V sum = 0;
      for (I k = segments[r] + lane; k < segments[r + 1]; k += LANES) {
        sum += load_stream(values + k) * window[load_stream(col_idx + k)];
      }
      sum = group_sum<LANES>(sum);
      if (lane == 0) sums[r] += sum;
    }
  }
  __syncthreads();
  for (int r = threadIdx.x; r < ROWS; r += blockDim.x) {
    const long long row = static_cast<long long>(blockIdx.x) * ROWS + r;
    if (row < rows) y[row] = sums[r];
  }
}

// TILE-COMPOSITE (Yang, Parthasarathy & Sadayappan 2011), one column tile. A warp per workload: rows of one width,
// stored row by row where it is at least as wide as high, else position by position. A row is in one workload of a
// tile.
template <typename V, typename C, typename S = V>
__global__ void tile_composite(int workloads, const long long* __restrict__ offset, const int* __restrict__ width,
                               const int* __restrict__ height, const int* __restrict__ first_row,
                               const int* __restrict__ rows, const C* __restrict__ col_idx,
                               const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long workload = global_thread() / WARP;
  if (workload >= workloads) return;  // the whole warp
  const int wide = width[workload];
  const int high = height[workload];
  const int lane = lane_id();
  rows += first_row[workload];
  col_idx += offset[workload];
  values += offset[workload];
  if (wide >= high) {
    const long long pitch = (wide + WARP - 1) / WARP * WARP;
    for (int r = 0; r < high; ++r) {
      V sum = 0;
#pragma unroll 4
      for (int p = lane; p < wide; p += WARP) {
        const long long at = r * pitch + p;
        sum += load_stream(values + at) * load_x(x, static_cast<int>(load_stream(col_idx + at)));
      }
      sum = group_sum<WARP>(sum);
      if (lane == 0) y[rows[r]] += sum;
    }
  } else {
    const long long pitch = (high + WARP - 1) / WARP * WARP;
    for (int r = lane; r < high; r += WARP) {
      V sum = 0;
#pragma unroll 4
      for (int p = 0; p < wide; ++p) {
        const long long at = p * pitch + r;
        sum += load_stream(values + at) * load_x(x, static_cast<int>(load_stream(col_idx + at)));
      }
      y[rows[r]] += sum;
    }
  }
}
