// HDC: diagonals and CSR of what lies off them, by one launch; see spmvbench/formats/hybrid/diagonals.py.
#include "csr.cuh"
#include "dia.cuh"

constexpr int BLOCK = 128;
constexpr int AT_ONCE = 4;  // diagonals, as in dia_spmv

// Two rows a thread. ADD: y += A x.
//
// LANES 1, for rests of a few entries: every load depends on the one before it, from the row pointer to x, and few threads
// have any to do, so that the block takes its entries side by side and loads them between its diagonals. Their products
// meet their rows in shared memory. Else the block's diagonals meet the rests, LANES lanes a row.
template <typename V, typename I, int LANES, bool ADD>
__global__ void __launch_bounds__(BLOCK, 10)
    hdc_spmv(int rows, int cols, int diagonals, long long pitch, const int* __restrict__ offset,
             const V* __restrict__ on_diagonals, I nnz, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
             const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const int t = threadIdx.x;
  const unsigned first = blockIdx.x * (2 * BLOCK);
  const unsigned row = first + t * 2;
  const bool inside = row < rows;
  const bool both = row + 1 < rows;
  V sum[2] = {V(0), V(0)};
  if constexpr (LANES == 1) {
    __shared__ V product[BLOCK];
    const I begin = row_ptr[first];
    const I end = row_ptr[rows - first < 2 * BLOCK ? rows : first + 2 * BLOCK];
    const I own = inside ? row_ptr[row] : end;
    const I middle = inside ? row_ptr[row + 1] : end;
    const I behind = both ? row_ptr[row + 2] : middle;
    const int before = diagonals < AT_ONCE ? diagonals : AT_ONCE;
    if (inside) sum_diagonals<2, AT_ONCE, false>(row, cols, before, pitch, offset, on_diagonals + row, x, sum);
    I k = begin + t;
    int column = k < end ? load_stream(col_idx + k) : 0;
    V value = k < end ? load_stream(values + k) : V(0);
    if (inside) {
      sum_diagonals<2, AT_ONCE, false>(row, cols, diagonals - before, pitch, offset + before,
                                       on_diagonals + before * pitch + row, x, sum);
    }
    for (I done = begin; done < end; done += BLOCK) {
      product[t] = k < end ? value * load_x(x, column) : V(0);
      __syncthreads();
      const I stop = done + BLOCK;
      for (I at = own < done ? done : own; at < middle && at < stop; ++at) sum[0] += product[at - done];
      for (I at = middle < done ? done : middle; at < behind && at < stop; ++at) sum[1] += product[at - done];
      k += BLOCK;
      if (k < end) {
        column = load_stream(col_idx + k);
        value = load_stream(values + k);
      }
      __syncthreads();
    }
    if (inside) put<ADD>(y + row, sum[0]);
    if (both) put<ADD>(y + row + 1, sum[1]);
  } else {
    __shared__ V of_row[2 * BLOCK];
    if (inside) sum_diagonals<2, AT_ONCE, false>(row, cols, diagonals, pitch, offset, on_diagonals + row, x, sum);
    of_row[2 * t] = sum[0];
    of_row[2 * t + 1] = sum[1];
    __syncthreads();
    const int lane = t % LANES;
    for (unsigned r = t / LANES; r < 2 * BLOCK; r += BLOCK / LANES) {
      const unsigned at = first + r;
      V rest = 0;
      if (at < rows) rest = lane_sum<LANES, 1>(row_ptr[at], row_ptr[at + 1], nnz, lane, col_idx, values, x);
      rest = group_sum<LANES>(rest);
      if (lane == 0 && at < rows) put<ADD>(y + at, of_row[r] + rest);
    }
  }
}
