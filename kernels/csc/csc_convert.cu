// Where columns begin among entries that were sorted by column: what spmvbench/formats/csc/csc.py counts on the host.
#include "spmv.cuh"

// A thread an entry of the sorted order, and one after the last: it writes the starts of the columns that begin there,
// its own and empty ones before it.
template <typename I>
__global__ void csc_pointers(int cols, I nnz, const int* __restrict__ col_idx, const long long* __restrict__ order,
                             I* __restrict__ col_ptr) {
  const long long i = global_thread();
  if (i > nnz) return;
  const int before = i > 0 ? col_idx[order[i - 1]] : -1;
  const int last = i < nnz ? col_idx[order[i]] : cols;
  for (int col = before + 1; col <= last; ++col) col_ptr[col] = static_cast<I>(i);
}
