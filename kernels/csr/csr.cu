// Compressed sparse rows: LANES threads share a row (Bell & Garland 2008: 1 is the scalar kernel, 32 the vector
// kernel).
#include "csr.cuh"
#include "epilogue.cuh"

// I: type of row_ptr. A lane takes ENTRIES entries at a time. A group of threads takes ROWS rows (Reguly & Giles 2012),
// at a distance of as many rows as the block has groups: neighbouring groups read neighbouring rows.
template <typename V, typename I, int LANES, int ENTRIES, int ROWS, typename S = V, typename Y = V*>
__global__ void csr_vector(int rows, I nnz, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                           const S* __restrict__ values, const V* __restrict__ x, Y y) {
  const int groups = row_threads<V>() / LANES;
  const int lane = row_thread<V>() % LANES;
  const long long first_row = static_cast<long long>(blockIdx.x) * groups * ROWS + row_thread<V>() / LANES;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const long long row = first_row + r * groups;
    const bool stores = lane == 0 && row < rows;
    const auto to = place_of(y, row, stores);
    V sum = 0;
    if (row < rows) sum = lane_sum<LANES, ENTRIES>(row_ptr[row], row_ptr[row + 1], nnz, lane, col_idx, values, x);
    sum = group_sum<LANES>(sum);
    if (stores) put<false>(to, sum);
  }
}
