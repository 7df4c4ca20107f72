// Compressed sparse rows by a list of rows; see spmvbench/formats/csr/rows.py.
#include "csr.cuh"

// LANES lanes a row, ENTRIES entries of each at a time. list: the row of each of `places`. OWN: row_ptr, (places + 1,),
// holds the listed rows alone; else those of the whole matrix. ADD: y += A x.
template <typename V, typename I, int LANES, int ENTRIES, bool OWN, bool ADD>
__global__ void csr_rows(int places, I nnz, const int* __restrict__ list, const I* __restrict__ row_ptr,
                         const int* __restrict__ col_idx, const V* __restrict__ values, const V* __restrict__ x,
                         V* __restrict__ y) {
  const long long place = global_thread() / LANES;
  const int lane = threadIdx.x % LANES;
  int row = 0;
  V sum = 0;
  if (place < places) {
    row = list[place];
    const long long at = OWN ? place : row;
    sum = lane_sum<LANES, ENTRIES>(row_ptr[at], row_ptr[at + 1], nnz, lane, col_idx, values, x);
  }
  sum = group_sum<LANES>(sum);
  if (lane == 0 && place < places) put<ADD>(y + row, sum);
}
