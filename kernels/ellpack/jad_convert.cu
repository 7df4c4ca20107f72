// CSR to jagged diagonals on the device; see spmvbench/formats/ellpack/jad.py.
#include "spmv.cuh"

constexpr int LONGEST = 0x7fffffff;

// Rows as numbers whose order is that of the format: longer ones first, equal ones as they come.
template <typename I>
__global__ void jad_keys(int rows, const I* __restrict__ row_ptr, long long* __restrict__ keys) {
  const long long row = global_thread();
  if (row < rows) keys[row] = (LONGEST - static_cast<long long>(row_ptr[row + 1] - row_ptr[row])) << 32 | row;
}

// perm, and the slots of each diagonal from sizes[1] on. The last row of some length is the last one of the diagonals
// that shorter rows do not reach.
template <typename P>
__global__ void jad_sizes(int rows, int br, const long long* __restrict__ keys, int* __restrict__ perm,
                          P* __restrict__ sizes) {
  const long long k = global_thread();
  if (k >= rows) return;
  perm[k] = static_cast<int>(keys[k] & 0xffffffff);
  const int length = LONGEST - static_cast<int>(keys[k] >> 32);
  const int next_length = k + 1 < rows ? LONGEST - static_cast<int>(keys[k + 1] >> 32) : 0;
  const P size = static_cast<P>((k + br) / br * br);
  for (int d = next_length; d < length; ++d) sizes[d + 1] = size;
  if (k == 0) sizes[0] = 0;
}

// columns and values, padding included: a thread per place in the order of rows.
template <typename V, typename I, typename P>
__global__ void jad_fill(int rows, int diagonals, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                         const V* __restrict__ csr_values, const int* __restrict__ perm, const P* __restrict__ diag_ptr,
                         int* __restrict__ columns, V* __restrict__ values) {
  const long long k = global_thread();
  if (k >= diag_ptr[1]) return;  // a row without entries
  I begin = 0;
  I length = 0;
  if (k < rows) {
    begin = row_ptr[perm[k]];
    length = row_ptr[perm[k] + 1] - begin;
  }
  for (int d = 0; d < diagonals; ++d) {
    const P start = diag_ptr[d];
    if (k >= diag_ptr[d + 1] - start) break;  // nor does a longer diagonal follow
    columns[start + k] = d < length ? col_idx[begin + d] : -1;
    values[start + k] = d < length ? csr_values[begin + d] : V(0);
  }
}
