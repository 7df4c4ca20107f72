// CSR to diagonals on the device; see spmvbench/formats/dia/dia.py. A warp takes 32 rows, a lane per row.
#include "search.cuh"
#include "spmv.cuh"

constexpr int NONE = 0x7fffffff;  // above every diagonal

// The diagonals col - row of a row's entries, in order: columns ascend, and so do they.
template <typename I>
struct RowWalk {
  const int* __restrict__ col_idx;
  int row;
  I entry, end;
  int diagonal;  // of the entry; NONE after the last

  __device__ __forceinline__ RowWalk(int rows, long long row, const I* __restrict__ row_ptr,
                                     const int* __restrict__ col_idx)
      : col_idx(col_idx), row(static_cast<int>(row)), entry(0), end(0) {
    if (row < rows) {
      entry = row_ptr[row];
      end = row_ptr[row + 1];
    }
    look();
  }

  __device__ __forceinline__ void look() { diagonal = entry < end ? col_idx[entry] - row : NONE; }

  __device__ __forceinline__ void advance() {
    ++entry;
    look();
  }
};

// The first diagonal that any row of the warp has still before it.
template <typename I>
__device__ __forceinline__ int first_diagonal(const RowWalk<I>& walk) {
  int first = walk.diagonal;
#pragma unroll
  for (int lanes = WARP / 2; lanes > 0; lanes /= 2) {
    const int other = __shfl_xor_sync(FULL_MASK, first, lanes);
    first = other < first ? other : first;
  }
  return first;
}

// The number of each hack's diagonals, hack_size[0] being that of none.
template <typename I>
__global__ void hdi_count(int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                          I* __restrict__ hack_size) {
  const long long row = global_thread();
  const long long hack = row / WARP;
  if (hack * WARP >= rows) return;  // the whole warp
  RowWalk<I> walk(rows, row, row_ptr, col_idx);
  I count = 0;
  for (int diagonal; (diagonal = first_diagonal(walk)) != NONE; ++count) {
    if (walk.diagonal == diagonal) walk.advance();
  }
  if (lane_id() == 0) hack_size[hack + 1] = count;
  if (row == 0) hack_size[0] = 0;
}

template <typename V, typename I>
__global__ void hdi_fill(int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                         const V* __restrict__ csr_values, const I* __restrict__ hack_ptr, int* __restrict__ offset,
                         V* __restrict__ values) {
  const long long row = global_thread();
  const long long hack = row / WARP;
  if (hack * WARP >= rows) return;  // the whole warp
  RowWalk<I> walk(rows, row, row_ptr, col_idx);
  long long d = hack_ptr[hack];
  for (int diagonal; (diagonal = first_diagonal(walk)) != NONE; ++d) {
    const bool here = walk.diagonal == diagonal;
    values[d * WARP + lane_id()] = here ? csr_values[walk.entry] : V(0);
    if (lane_id() == 0) offset[d] = diagonal;
    if (here) walk.advance();
  }
}

// seen[diagonal + rows - 1] = 1 for every diagonal that holds an entry. Volatile: all threads write the same there.
template <typename I>
__global__ void dia_mark(int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                         volatile unsigned char* __restrict__ seen) {
  const long long row = global_thread();
  if (row >= rows) return;
  for (I k = row_ptr[row]; k < row_ptr[row + 1]; ++k) {
    const long long at = col_idx[k] - row + rows - 1;
    if (!seen[at]) seen[at] = 1;
  }
}

template <typename V, typename I>
__global__ void dia_fill(int rows, int diagonals, long long pitch, const I* __restrict__ row_ptr,
                         const int* __restrict__ col_idx, const V* __restrict__ csr_values,
                         const int* __restrict__ offset, V* __restrict__ values) {
  const long long row = global_thread();
  if (row >= pitch) return;
  RowWalk<I> walk(rows, row, row_ptr, col_idx);
  for (int d = 0; d < diagonals; ++d) {
    const bool here = walk.diagonal == offset[d];
    values[d * pitch + row] = here ? csr_values[walk.entry] : V(0);
    if (here) walk.advance();
  }
}

constexpr int SHARE = 8192;  // entries of a block that takes entries, not rows

// use(entry, diagonal) for every entry of the block's share. Its rows are found once for the share, an entry's among
// them.
template <typename I, typename Use>
__device__ __forceinline__ void each_entry(I nnz, int rows, const I* __restrict__ row_ptr,
                                           const int* __restrict__ col_idx, Use use) {
  const I begin = static_cast<I>(blockIdx.x) * SHARE;
  const I end = nnz - begin < SHARE ? nnz : begin + SHARE;
  const int low = first_behind(row_ptr, 0, rows, begin);
  const int high = first_behind(row_ptr, low, rows, end - 1);
  for (I k = begin + threadIdx.x; k < end; k += blockDim.x) {
    use(k, load_stream(col_idx + k) - (first_behind(row_ptr, low, high, k) - 1));
  }
}

// Adds to `held`, zero before, how many entries each diagonal has, by diagonal + rows - 1. Neighbouring rows have the
// same diagonals, which would all meet at a few addresses: a block counts for itself those that find a place of their
// own.
template <typename I>
__global__ void dia_sizes(I nnz, int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                          int* __restrict__ held) {
  constexpr int PLACES = 1024;
  __shared__ int diagonal[PLACES];
  __shared__ int count[PLACES];
  for (int place = threadIdx.x; place < PLACES; place += blockDim.x) {
    diagonal[place] = NONE;
    count[place] = 0;
  }
  __syncthreads();
  each_entry(nnz, rows, row_ptr, col_idx, [&](I, int at) {
    const int place = at & (PLACES - 1);
    const int owner = atomicCAS(diagonal + place, NONE, at);
    if (owner == NONE || owner == at) {
      atomicAdd(count + place, 1);
    } else {
      atomicAdd(held + (static_cast<long long>(at) + rows - 1), 1);
    }
  });
  __syncthreads();
  for (int place = threadIdx.x; place < PLACES; place += blockDim.x) {
    if (count[place]) atomicAdd(held + (static_cast<long long>(diagonal[place]) + rows - 1), count[place]);
  }
}

// off[k]: whether entry k is on no diagonal of `which`, by diagonal + rows - 1.
template <typename I>
__global__ void dia_others(I nnz, int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                           const bool* __restrict__ which, bool* __restrict__ off) {
  each_entry(nnz, rows, row_ptr, col_idx, [&](I k, int at) { off[k] = !which[static_cast<long long>(at) + rows - 1]; });
}

// The entries on some of a matrix's diagonals, which ascend: a thread looks for those of its row.
template <typename V, typename I>
__global__ void dia_take(int rows, int diagonals, long long pitch, const I* __restrict__ row_ptr,
                         const int* __restrict__ col_idx, const V* __restrict__ csr_values,
                         const int* __restrict__ offset, V* __restrict__ values) {
  const long long row = global_thread();
  if (row >= pitch) return;
  I entry = row < rows ? row_ptr[row] : 0;
  const I end = row < rows ? row_ptr[row + 1] : 0;
  for (int d = 0; d < diagonals; ++d) {
    const long long column = row + offset[d];
    if (column >= 0 && entry < end) entry = entry_from(col_idx, entry, end, static_cast<int>(column), I(0));
    const bool here = column >= 0 && entry < end && col_idx[entry] == column;
    values[d * pitch + row] = here ? csr_values[entry] : V(0);
    if (here) ++entry;
  }
}
