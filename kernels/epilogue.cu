// Epilogues of products whose kernels have none, and of rows that a kernel does not hand over; see
// spmvbench/formats/epilogue.py.
#include "epilogue.cuh"

// sums: (n,), of all rows.
template <typename V, typename Y>
__global__ void __launch_bounds__(256) epilogue_all(long long n, const V* __restrict__ sums, Y y) {
  const long long i = global_thread();
  if (i < n) put<false>(y + i, load_stream(sums + i));
}

// The same of n rows alone.
template <typename V, typename Y>
__global__ void __launch_bounds__(256)
    epilogue_rows(long long n, const int* __restrict__ rows, const V* __restrict__ sums, Y y) {
  const long long i = global_thread();
  if (i >= n) return;
  const int row = rows[i];
  put<false>(y + row, sums[row]);
}
