// Compressed sparse rows by a list of rows; see spmvbench/formats/csr/rows.py.
#include "csr.cuh"

// Which rows there are: all; those of a list; those of a list, and row_ptr holds them alone.
constexpr int ALL = 0, LISTED = 1, OWN = 2;

// LANES lanes a row, ENTRIES entries of each at a time. list: the row of each of `places`. ADD: y += A x.
template <typename V, typename I, int LANES, int ENTRIES, int ROWS, bool ADD>
__global__ void csr_rows(int places, I nnz, const int* __restrict__ list, const I* __restrict__ row_ptr,
                         const int* __restrict__ col_idx, const V* __restrict__ values, const V* __restrict__ x,
                         V* __restrict__ y) {
  const long long place = global_thread() / LANES;
  const int lane = threadIdx.x % LANES;
  long long row = place;
  V sum = 0;
  if (place < places) {
    if (ROWS != ALL) row = list[place];
    const long long at = ROWS == OWN ? place : row;
    sum = lane_sum<LANES, ENTRIES>(row_ptr[at], row_ptr[at + 1], nnz, lane, col_idx, values, x);
  }
  sum = group_sum<LANES>(sum);
  if (lane == 0 && place < places) put<ADD>(y + row, sum);
}
