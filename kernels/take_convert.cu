// Some entries of every row as a matrix of their own, in place of a dozen array operations: of rows of more than `above`
// and at most `upto` entries those from the `first`-th on and before the `last`-th; see spmvbench/formats/conversion.py.
#include "largest.cuh"
#include "offsets.cuh"
#include "take.cuh"

constexpr int TAKE_BLOCK = 256;

// Offsets of what each row gives. Notes: the most of a row, the longest row, and slots where slices of 32 rows are filled
// up to the most of each.
template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    take_counts(int rows, int first, int last, int above, int upto, const I* __restrict__ row_ptr, P* __restrict__ ptr,
                unsigned long long* __restrict__ state) {
  int most = 0, longest = 0;
  long long slots = 0;
  write_offsets<OFFSETS_EACH>(rows, ptr, state, [&](long long row) {
    const int length = row < rows ? static_cast<int>(row_ptr[row + 1] - row_ptr[row]) : 0;
    const int end = length < last ? length : last;
    const int count = length > above && length <= upto && end > first ? end - first : 0;
    most = most < count ? count : most;
    longest = longest < length ? length : longest;
    slots += static_cast<long long>(warp_max(count)) * WARP;
    return static_cast<long long>(count);
  });
  most = warp_max(most), longest = warp_max(longest);
  if (lane_id() == 0) {
    note_most(state, most);
    note_most(state + 1, longest);
  }
  add_once(state + 2, lane_id() == 0 ? slots : 0);
}

// ptr: of the rows of the result. OWNERS: the row of each of its entries, too.
template <typename V, typename I, typename P, bool OWNERS>
__global__ void __launch_bounds__(TAKE_BLOCK)
    take_entries(int rows, long long total, int first, const I* __restrict__ row_ptr, const P* __restrict__ ptr,
                 const int* __restrict__ col_idx, const V* __restrict__ values, int* __restrict__ owners,
                 int* __restrict__ columns, V* __restrict__ taken) {
  take_each(rows, total, ptr, [&](int row, long long at) {
    const long long from = static_cast<long long>(row_ptr[row]) + first + (at - static_cast<long long>(ptr[row]));
    if (OWNERS) owners[at] = row;
    columns[at] = col_idx[from];
    taken[at] = values[from];
  });
}

// The list that owns each of `total` entries.
template <typename P>
__global__ void __launch_bounds__(TAKE_BLOCK)
    take_owners(int lists, long long total, const P* __restrict__ ptr, int* __restrict__ owners) {
  take_each(lists, total, ptr, [&](int list, long long at) { owners[at] = list; });
}

// Offsets of the entries of every row rounded up to a multiple.
template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    align_counts(int rows, int multiple, const I* __restrict__ row_ptr, P* __restrict__ ptr,
                 unsigned long long* __restrict__ state) {
  write_offsets<OFFSETS_EACH>(rows, ptr, state, [=](long long row) {
    const long long length = row < rows ? static_cast<long long>(row_ptr[row + 1] - row_ptr[row]) : 0;
    return (length + multiple - 1) / multiple * multiple;
  });
}

// Rows at `ptr`, what is longer than a row filled with its last column and zeros.
template <typename V, typename I, typename P>
__global__ void __launch_bounds__(TAKE_BLOCK)
    align_entries(int rows, long long total, const I* __restrict__ row_ptr, const P* __restrict__ ptr,
                  const int* __restrict__ col_idx, const V* __restrict__ values, int* __restrict__ columns,
                  V* __restrict__ aligned) {
  take_each(rows, total, ptr, [&](int row, long long at) {
    const long long from = static_cast<long long>(row_ptr[row]) + (at - static_cast<long long>(ptr[row]));
    const long long last = static_cast<long long>(row_ptr[row + 1]) - 1;
    columns[at] = col_idx[from < last ? from : last];
    aligned[at] = from <= last ? values[from] : V(0);
  });
}

// How many rows with entries come before each. The first note: the longest row.
template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    filled_counts(int rows, const I* __restrict__ row_ptr, P* __restrict__ ptr,
                  unsigned long long* __restrict__ state) {
  int longest = 0;
  write_offsets<OFFSETS_EACH>(rows, ptr, state, [&](long long row) {
    const int length = row < rows ? static_cast<int>(row_ptr[row + 1] - row_ptr[row]) : 0;
    longest = longest < length ? length : longest;
    return length ? 1ll : 0ll;
  });
  longest = warp_max(longest);
  if (lane_id() == 0) note_most(state, longest);
}

// Those rows, and where they begin, with the end. ptr: how many are before each row.
template <typename I, typename P>
__global__ void __launch_bounds__(TAKE_BLOCK)
    filled_rows(int rows, const I* __restrict__ row_ptr, const P* __restrict__ ptr, int* __restrict__ filled,
                I* __restrict__ begins) {
  const long long row = global_thread();
  if (row > rows) return;
  const P place = ptr[row];
  const bool last = row == rows;
  if (!last && ptr[row + 1] == place) return;
  begins[place] = row_ptr[row];
  if (!last) filled[place] = static_cast<int>(row);
}
