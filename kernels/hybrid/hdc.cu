// HDC: diagonals and CSR of what lies off them, by one launch; see spmvbench/formats/hybrid/diagonals.py.
#include "csr.cuh"
#include "dia.cuh"

constexpr int BLOCK = 128;       // threads that sum diagonals, of two rows each
constexpr int ROWS = 2 * BLOCK;  // of a block
constexpr int EACH = ROWS / WARP;

// The rests of a block's rows, by one warp: it takes their entries side by side, and a lane sums those of EACH rows.
template <typename V, typename I>
__device__ __forceinline__ void sum_rests(unsigned first, unsigned rows, const I* __restrict__ row_ptr,
                                          const int* __restrict__ col_idx, const V* __restrict__ values,
                                          const V* __restrict__ x, V* __restrict__ rest) {
  __shared__ V product[WARP];
  const int lane = lane_id();
  const unsigned own = first + lane * EACH;
  I bound[EACH + 1];
#pragma unroll
  for (int r = 0; r <= EACH; ++r) bound[r] = row_ptr[own + r < rows ? own + r : rows];
  const I begin = __shfl_sync(FULL_MASK, bound[0], 0);
  const I end = __shfl_sync(FULL_MASK, bound[EACH], WARP - 1);
  V sum[EACH] = {};
  for (I done = begin; done < end; done += WARP) {
    const I k = done + lane;
    product[lane] = k < end ? load_stream(values + k) * load_x(x, load_stream(col_idx + k)) : V(0);
    __syncwarp();
#pragma unroll
    for (int r = 0; r < EACH; ++r) {
      for (I at = bound[r] < done ? done : bound[r]; at < bound[r + 1] && at < done + WARP; ++at) {
        sum[r] += product[at - done];
      }
    }
    __syncwarp();
  }
#pragma unroll
  for (int r = 0; r < EACH; ++r) rest[lane * EACH + r] = sum[r];
}

// ADD: y += A x.
//
// LANES 1, for rests of a few entries: a warp more sums them while the others sum diagonals. Every load of theirs waits
// for the one before it, from the row pointer to x: a thread that had both to do took 7 us more on an H200 for 70,000 of
// them than the 16 us of the diagonals (stray:100:1). Else the block has BLOCK threads, and its diagonals meet the rests,
// LANES lanes a row.
template <typename V, typename I, int LANES, bool ADD>
__global__ void __launch_bounds__(LANES == 1 ? BLOCK + WARP : BLOCK, LANES == 1 ? 8 : 10)
    hdc_spmv(int rows, int cols, int diagonals, long long pitch, const int* __restrict__ offset,
             const V* __restrict__ on_diagonals, I nnz, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
             const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  __shared__ V of_row[ROWS];
  const int t = threadIdx.x;
  const unsigned first = blockIdx.x * ROWS;
  const unsigned row = first + t * 2;
  const bool sums = t < BLOCK && row < rows;
  V sum[2] = {V(0), V(0)};
  if (sums) sum_diagonals<2, 4, false>(row, cols, diagonals, pitch, offset, on_diagonals + row, x, sum);
  if constexpr (LANES == 1) {
    if (t >= BLOCK) sum_rests(first, static_cast<unsigned>(rows), row_ptr, col_idx, values, x, of_row);
    __syncthreads();
    if (sums) put<ADD>(y + row, sum[0] + of_row[2 * t]);
    if (sums && row + 1 < rows) put<ADD>(y + row + 1, sum[1] + of_row[2 * t + 1]);
  } else {
    of_row[2 * t] = sum[0];
    of_row[2 * t + 1] = sum[1];
    __syncthreads();
    const int lane = t % LANES;
    for (unsigned r = t / LANES; r < ROWS; r += BLOCK / LANES) {
      const unsigned at = first + r;
      V rest = 0;
      if (at < rows) rest = lane_sum<LANES, 1>(row_ptr[at], row_ptr[at + 1], nnz, lane, col_idx, values, x);
      rest = group_sum<LANES>(rest);
      if (lane == 0 && at < rows) put<ADD>(y + at, of_row[r] + rest);
    }
  }
}
