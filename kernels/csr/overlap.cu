// CSR in batches of equal numbers of entries: a block copies its next batch to shared memory while it sums one. See
// spmvbench/formats/csr/overlap.py.
#include "async_copy.cuh"
#include "shares.cuh"

constexpr int OVERLAP_BLOCK = 256;  // threads
constexpr int BATCH = 1024;         // entries
constexpr int ROOM = 512;           // row ends of a batch that are copied too

// A batch in shared memory.
template <typename V, typename I>
struct Batch {
  V values[BATCH];
  int columns[BATCH];
  I ends[ROOM];
};

// Row ends as they were copied.
template <typename I>
struct CopiedEnds {
  const I* ends;
  long long first;  // the batch's first entry

  __device__ __forceinline__ int operator[](int row) const { return static_cast<int>(ends[row] - first); }
};

// `count` elements from an address that is a multiple of 16 bytes: the last ones that fill no 16 bytes one by one.
template <typename T>
__device__ __forceinline__ void copy_all(T* shared, const T* global, int count) {
  constexpr int EACH = 16 / sizeof(T);
  const int whole = count / EACH * EACH;
  for (int i = threadIdx.x * EACH; i < whole; i += OVERLAP_BLOCK * EACH) copy_async<16>(shared + i, global + i);
  if (threadIdx.x < count - whole) shared[whole + threadIdx.x] = load_stream(global + whole + threadIdx.x);
}

// Batch b has the rows that end in it, first_row[b] to first_row[b + 1], and what it has of the next. A block takes
// `per_block` neighbouring batches. Every row end stores its row; rows that several batches have parts of are added to y
// by atomics: y is zero there.
template <typename V, typename I>
__global__ void __launch_bounds__(OVERLAP_BLOCK)
    csr_overlap(int rows, I nnz, int batches, int per_block, const int* __restrict__ first_row,
                const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const V* __restrict__ values,
                const V* __restrict__ x, V* __restrict__ y) {
  constexpr int ITEMS = BATCH / OVERLAP_BLOCK;
  constexpr int LONGEST = 4 * ITEMS;  // entries of a lane where rows are summed one by one
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  auto* const buffers = reinterpret_cast<Batch<V, I>*>(dynamic_shared);
  const int begin = blockIdx.x * per_block;
  const int end = begin + per_block < batches ? begin + per_block : batches;

  const auto fetch = [&](int b) {
    const long long first = static_cast<long long>(b) * BATCH;
    const int count = nnz - first < BATCH ? static_cast<int>(nnz - first) : BATCH;
    const int ends = first_row[b + 1] - first_row[b];
    Batch<V, I>& into = buffers[b & 1];
    copy_all(into.values, values + first, count);
    copy_all(into.columns, col_idx + first, count);
    for (int i = threadIdx.x; i < ends && ends <= ROOM; i += OVERLAP_BLOCK) {
      copy_async<sizeof(I)>(into.ends + i, row_ptr + first_row[b] + 1 + i);
    }
  };

  fetch(begin);
  for (int b = begin; b < end; ++b) {
    await_copies();
    __syncthreads();
    if (b + 1 < end) fetch(b + 1);
    Batch<V, I>& batch = buffers[b & 1];
    const long long first = static_cast<long long>(b) * BATCH;
    const int entries = nnz - first < BATCH ? static_cast<int>(nnz - first) : BATCH;
    const int from = first_row[b], tile_rows = first_row[b + 1] - from, last = from + tile_rows;
    const bool came_on = row_ptr[from] < first;
    V products[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int k = min(i * OVERLAP_BLOCK + static_cast<int>(threadIdx.x), entries - 1);
      products[i] = batch.values[k] * load_x(x, batch.columns[k]);
    }
    const auto sum_batch = [&](auto row_end) {
      const Tile<V, decltype(row_end)> tile{tile_rows, entries, batch.values, row_end};
      // 2^log threads per row: as many, up to a warp, as leave some for each row.
      const int log = max(min(__clz(tile_rows) + __ffs(OVERLAP_BLOCK) - 1 - WARP, 5), 0);
      bool uneven = false;
      for (int i = threadIdx.x; i <= tile_rows; i += OVERLAP_BLOCK) {
        const int row_begin = i > 0 ? row_end[i - 1] : 0;
        uneven |= (i < tile_rows ? row_end[i] : entries) - row_begin > LONGEST << log;
      }
      uneven = __syncthreads_or(uneven);  // and all have read the values
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        const int k = i * OVERLAP_BLOCK + threadIdx.x;
        if (k < entries) batch.values[k] = products[i];
      }
      __syncthreads();
      // A row that goes on after the batch may have nothing here; then its zero stays.
      const bool goes_on = last < rows && entries > (tile_rows ? row_end[tile_rows - 1] : 0);
      V* const batch_y = y + from;
      const auto finish = [=](int row, V sum) {
        if (row == tile_rows ? goes_on : row == 0 && came_on) {
          atomicAdd(batch_y + row, sum);
        } else if (row < tile_rows) {
          batch_y[row] = sum;
        }
      };
      if (!uneven) return sum_each_row<OVERLAP_BLOCK>(tile, log, finish);
      const int items = (tile_rows + entries + OVERLAP_BLOCK - 1) / OVERLAP_BLOCK | 1;  // odd: banks
      const V open = sum_rows<OVERLAP_BLOCK>(tile, items, batch_y, finish);
      if (threadIdx.x == OVERLAP_BLOCK - 1) finish(tile_rows, open);
    };
    if (tile_rows <= ROOM) {
      sum_batch(CopiedEnds<I>{batch.ends, first});
    } else {
      sum_batch(RowEnds<I>{row_ptr + from, first});
    }
  }
}
