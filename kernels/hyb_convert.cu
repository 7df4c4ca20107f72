// The part of HYB in coordinates, on the device: what rows have beyond the width of the part in ELLPACK.
#include "search.cuh"
#include "spmv.cuh"

// One thread an entry. tail_ptr, (rows + 1,): where the tail of each row begins among all.
template <typename V, typename I, typename P>
__global__ void row_tails(int rows, P entries, const P* __restrict__ tail_ptr, const I* __restrict__ row_ptr,
                          const int* __restrict__ col_idx, const V* __restrict__ values, int* __restrict__ tail_row,
                          int* __restrict__ tail_col, V* __restrict__ tail_values) {
  const long long k = global_thread();
  if (k >= entries) return;
  const P entry = static_cast<P>(k);
  const int row = row_behind(tail_ptr, 0, rows, entry) - 1;
  const I from = row_ptr[row + 1] - static_cast<I>(tail_ptr[row + 1] - entry);
  tail_row[k] = row;
  tail_col[k] = load_stream(col_idx + from);
  tail_values[k] = load_stream(values + from);
}
