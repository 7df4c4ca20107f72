// Compressed sparse rows by a list of rows or of pieces of rows; see spmvbench/formats/csr/rows.py and bins.py.
#include "csr.cuh"
#include "shares.cuh"

// Which rows there are: all; those of a list; those of a list, and row_ptr holds them alone.
constexpr int ALL = 0, LISTED = 1, OWN = 2;

// Sum over the LANES threads that share a row, in the first: neighbours in a warp, or a block of its own.
template <int LANES, typename V>
__device__ __forceinline__ V shared_row_sum(V sum) {
  if constexpr (LANES <= WARP) {
    return group_sum<LANES>(sum);
  } else {
    return block_sum<LANES>(sum);
  }
}

// LANES threads per row, ENTRIES entries of each at a time. list: the row of each of `places`. ADD: y += A x.
template <typename V, typename I, int LANES, int ENTRIES, int ROWS, bool ADD, typename S = V>
__global__ void csr_rows(int places, I nnz, const int* __restrict__ list, const I* __restrict__ row_ptr,
                         const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                         V* __restrict__ y) {
  const long long place = global_thread<V>() / LANES;
  const int lane = row_thread<V>() % LANES;
  long long row = place;
  V sum = 0;
  if (place < places) {
    if (ROWS != ALL) row = list[place];
    const long long at = ROWS == OWN ? place : row;
    sum = lane_sum<LANES, ENTRIES>(row_ptr[at], row_ptr[at + 1], nnz, lane, col_idx, values, x);
  }
  sum = shared_row_sum<LANES>(sum);
  if (lane == 0 && place < places) put<ADD>(y + row, sum);
}

// Pieces of rows, the entries piece_begin .. piece_end of piece_row, LANES lanes each: added by an atomic, for a row
// may have several.
template <typename V, typename I, int LANES, int ENTRIES, typename S = V>
__global__ void csr_pieces(int pieces, I nnz, const int* __restrict__ piece_row, const I* __restrict__ piece_begin,
                           const I* __restrict__ piece_end, const int* __restrict__ col_idx,
                           const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long piece = global_thread<V>() / LANES;
  const int lane = row_thread<V>() % LANES;
  V sum = 0;
  if (piece < pieces) {
    sum = lane_sum<LANES, ENTRIES>(piece_begin[piece], piece_end[piece], nnz, lane, col_idx, values, x);
  }
  sum = shared_row_sum<LANES>(sum);
  if (lane == 0 && piece < pieces) atomicAdd(y + piece_row[piece], sum);
}

// Long rows, a grid of blocks each, as a thread of ACSR's would launch it: block (b, r) is block b of the grid of row
// list[r], which has a thread for every SHARE entries. Blocks after a row's own do nothing. y is zero in these rows.
template <typename V, typename I, int BLOCK, int SHARE, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    csr_row_grids(const int* __restrict__ list, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                  const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const int row = list[blockIdx.y];
  const long long begin = row_ptr[row], end = row_ptr[row + 1];
  const long long blocks = (end - begin + BLOCK * SHARE - 1) / (BLOCK * SHARE);
  if (blockIdx.x >= blocks) return;
  V sum = 0;
#pragma unroll
  for (int u = 0; u < SHARE; ++u) {
    const long long k = begin + (u * blocks + blockIdx.x) * BLOCK + threadIdx.x;
    if (k < end) sum += load_stream(values + k) * load_x(x, load_stream(col_idx + k));
  }
  sum = block_sum<BLOCK>(sum);
  if (threadIdx.x == 0) atomicAdd(y + row, sum);
}

// The rows of a block, of those that are listed by the lanes that they take: 32 in the places `first` to ends[0], 16
// from there to ends[1], and so on down to 2. `block` counts the blocks from the first row's on.
template <int LANES, typename V, typename I, typename S>
__device__ __forceinline__ void listed_rows(int block, int first, const int* ends, I nnz, const int* __restrict__ list,
                                            const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                                            const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const int in_block = blockDim.x / LANES;
  const int blocks = (*ends - first + in_block - 1) / in_block;
  if (block < blocks) {
    const int place = first + block * in_block + static_cast<int>(threadIdx.x / LANES);
    const int lane = threadIdx.x % LANES;
    int row = 0;
    V sum = 0;
    if (place < *ends) {
      row = list[place];
      sum = lane_sum<LANES, 2>(row_ptr[row], row_ptr[row + 1], nnz, lane, col_idx, values, x);
    }
    sum = group_sum<LANES>(sum);
    if (lane == 0 && place < *ends) y[row] = sum;
  } else if constexpr (LANES > 2) {
    listed_rows<LANES / 2>(block - blocks, *ends, ends + 1, nnz, list, row_ptr, col_idx, values, x, y);
  }
}

// Pieces of long rows, a block each, and after them the listed rows, those that take longest first: one launch for all.
// CUT: rows may have several pieces, and y is zero in rows that have any.
template <typename V, typename I, int BLOCK, bool CUT = true, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    csr_binned(int pieces, int to_32, int to_16, int to_8, int to_4, int to_2, I nnz, const int* __restrict__ piece_row,
               const I* __restrict__ piece_begin, const I* __restrict__ piece_end, const int* __restrict__ list,
               const I* __restrict__ row_ptr, const int* __restrict__ col_idx, const S* __restrict__ values,
               const V* __restrict__ x, V* __restrict__ y) {
  const int block = blockIdx.x;
  if (block < pieces) {
    V sum = lane_sum<BLOCK, 2>(piece_begin[block], piece_end[block], nnz, threadIdx.x, col_idx, values, x);
    sum = block_sum<BLOCK>(sum);
    if (threadIdx.x > 0) return;
    if (CUT) {
      atomicAdd(y + piece_row[block], sum);
    } else {
      y[piece_row[block]] = sum;
    }
  } else {
    const int ends[5] = {to_32, to_16, to_8, to_4, to_2};
    listed_rows<32>(block - pieces, 0, ends, nnz, list, row_ptr, col_idx, values, x, y);
  }
}
