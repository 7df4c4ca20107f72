// CSR times a sparse x: one thread per row; each entry searches its column among the indices of x.
#include "spmv.cuh"

template <typename V, typename I>
__global__ void csr_search(int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                           const V* __restrict__ values, int entries, const int* __restrict__ index,
                           const V* __restrict__ value, V* __restrict__ y) {
  const long long row = global_thread();
  if (row >= rows) return;
  V sum = 0;
  for (I k = row_ptr[row]; k < row_ptr[row + 1]; ++k) {
    const int column = load_stream(col_idx + k);
    int first = 0, last = entries;  // index[first..last) is where the column may still be
    while (first < last) {
      const int middle = (first + last) / 2;
      if (load_x(index, middle) < column) first = middle + 1;
      else last = middle;
    }
    if (first < entries && load_x(index, first) == column) sum += load_stream(values + k) * load_x(value, first);
  }
  y[row] = sum;
}
