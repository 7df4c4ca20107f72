// Diagonals: the entry of row i on diagonal d at d * pitch + i; its column is i + offset[d] and is not stored.
#include "spmv.cuh"

template <typename V>
__global__ void dia_spmv(int rows, int cols, int diagonals, long long pitch, const int* __restrict__ offset,
                         const V* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long row = global_thread();
  if (row >= rows) return;
  V sum = 0;
#pragma unroll 4
  for (int d = 0; d < diagonals; ++d) {
    const long long column = row + __ldg(offset + d);
    if (column >= 0 && column < cols) sum += load_stream(values + d * pitch + row) * __ldg(x + column);
  }
  y[row] = sum;
}
