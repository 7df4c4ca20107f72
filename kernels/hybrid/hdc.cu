// HDC: diagonals and CSR of what lies off them, by one launch; see spmvbench/formats/hybrid/diagonals.py.
#include "csr.cuh"
#include "dia.cuh"

constexpr int BLOCK = 128;

// Two rows a thread. With LANES 1 a thread goes on to the rest of its rows, whose first entry is on its way while it sums
// their diagonals; else the block's diagonals meet the rests, LANES lanes a row, in shared memory. ADD: y += A x.
template <typename V, typename I, int LANES, bool ADD>
__global__ void __launch_bounds__(BLOCK, 10)
    hdc_spmv(int rows, int cols, int diagonals, long long pitch, const int* __restrict__ offset,
             const V* __restrict__ on_diagonals, I nnz, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
             const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const unsigned first = blockIdx.x * (2 * BLOCK);
  const unsigned row = first + threadIdx.x * 2;
  V sum[2] = {V(0), V(0)};
  if constexpr (LANES == 1) {
    if (row >= rows) return;
    const bool both = row + 1 < rows;
    I k = row_ptr[row];
    const I middle = row_ptr[row + 1];
    const I end = both ? row_ptr[row + 2] : middle;
    int column = k < end ? load_stream(col_idx + k) : 0;
    V value = k < end ? load_stream(values + k) : V(0);
    sum_diagonals<2, 4, false>(row, cols, diagonals, pitch, offset, on_diagonals + row, x, sum);
    while (k < end) {
      sum[k < middle ? 0 : 1] += value * load_x(x, column);
      if (++k < end) {
        column = load_stream(col_idx + k);
        value = load_stream(values + k);
      }
    }
    put<ADD>(y + row, sum[0]);
    if (both) put<ADD>(y + row + 1, sum[1]);
  } else {
    __shared__ V of_row[2 * BLOCK];
    if (row < rows) sum_diagonals<2, 4, false>(row, cols, diagonals, pitch, offset, on_diagonals + row, x, sum);
    of_row[2 * threadIdx.x] = sum[0];
    of_row[2 * threadIdx.x + 1] = sum[1];
    __syncthreads();
    const int lane = threadIdx.x % LANES;
    for (unsigned r = threadIdx.x / LANES; r < 2 * BLOCK; r += BLOCK / LANES) {
      const unsigned at = first + r;
      V rest = 0;
      if (at < rows) rest = lane_sum<LANES, 1>(row_ptr[at], row_ptr[at + 1], nnz, lane, col_idx, values, x);
      rest = group_sum<LANES>(rest);
      if (lane == 0 && at < rows) put<ADD>(y + at, of_row[r] + rest);
    }
  }
}
