// What `operator` looks at before it takes the arrays of a matrix as they are; see spmvbench/formats/conversion.py.
#include "largest.cuh"

constexpr int CHECK_BLOCK = 256;

// Whether arrays are canonical CSR of finite values. found, zero before: 1 if pointers, columns or values are not what
// they have to be; entries whose column does not exceed that of the entry before, and how many of these begin a row.
template <typename V, typename I>
__global__ void __launch_bounds__(CHECK_BLOCK)
    check_csr(int rows, int cols, long long nnz, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
              const V* __restrict__ values, unsigned long long* __restrict__ found) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  bool bad = false;
  int falls = 0, begins = 0;
  for (long long row = global_thread(); row < rows; row += stride) {
    const long long begin = row_ptr[row], end = row_ptr[row + 1];
    bad |= begin > end || begin < 0 || end > nnz || (row == 0 && begin != 0) || (row == rows - 1 && end != nnz);
    if (begin > 0 && begin < end && begin < nnz) begins += col_idx[begin] <= col_idx[begin - 1];
  }
#pragma unroll 4
  for (long long k = global_thread(); k < nnz; k += stride) {
    const int column = col_idx[k];
    const V value = load_stream(values + k);
    bad |= column < 0 || column >= cols || !(value - value == V(0));
    falls += k > 0 && column <= col_idx[k - 1];
  }
  if (__any_sync(FULL_MASK, bad) && lane_id() == 0) atomicOr(found, 1ull);
  add_once(found + 1, falls);
  add_once(found + 2, begins);
}
