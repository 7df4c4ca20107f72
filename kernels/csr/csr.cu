// Compressed sparse rows: LANES threads share a row (Bell & Garland 2008: 1 is the scalar kernel, 32 the vector kernel).
#include "spmv.cuh"

// I: type of row_ptr. A lane takes two neighbouring entries at a time, from an even position on: one 16-byte load for
// two doubles and one 8-byte load for their columns. What the pairs at a row's ends share with its neighbours is
// loaded and not multiplied. col_idx and values are aligned to 16 bytes. A group of lanes takes ROWS rows (Reguly &
// Giles 2012), as far apart as the block has groups: neighbouring groups read neighbouring rows.
template <typename V, typename I, int LANES, int ROWS>
__global__ void csr_vector(int rows, I nnz, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                           const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  using Pair = typename PairOf<V>::type;
  const int groups = blockDim.x / LANES;
  const int lane = threadIdx.x % LANES;
  const long long first_row = static_cast<long long>(blockIdx.x) * groups * ROWS + threadIdx.x / LANES;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const long long row = first_row + r * groups;
    V sum = 0;
    if (row < rows) {
      const I begin = row_ptr[row];
      const I end = row_ptr[row + 1];
      const I pairs_end = end < (nnz & ~I(1)) ? end : nnz & ~I(1);
      I k = (begin & ~I(1)) + 2 * lane;
#pragma unroll 2
      for (; k < pairs_end; k += 2 * LANES) {
        const int2 columns = load_stream(reinterpret_cast<const int2*>(col_idx + k));
        const Pair pair = load_stream(reinterpret_cast<const Pair*>(values + k));
        if (k >= begin) sum += pair.x * load_x(x, columns.x);
        if (k + 1 < end) sum += pair.y * load_x(x, columns.y);
      }
      // The matrix's last entry may stand alone; behind it only empty rows begin.
      if (k >= begin && k < end) sum += values[k] * load_x(x, col_idx[k]);
    }
    sum = group_sum<LANES>(sum);
    if (lane == 0 && row < rows) y[row] = sum;
  }
}
