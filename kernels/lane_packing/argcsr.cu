// ArgCSR (Heller & Oberhuber 2012): groups of rows, a block each, its threads distributed to the rows by their lengths.
// Step i of thread t of a group is at BLOCK * (the group's first step + i) + t.
#include "sell.cuh"

// groups: four numbers each, rows, steps, first row, first step. threads_end: of each row, the threads of its group
// that it and the rows before it have.
template <typename V, int BLOCK, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    argcsr(const int* __restrict__ groups, const int* __restrict__ threads_end, const int* __restrict__ columns,
           const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  __shared__ V partial[BLOCK];
  const int* group = groups + 4ll * blockIdx.x;
  const int rows = group[0], steps = group[1], t = threadIdx.x;
  const long long first_row = group[2], slot = static_cast<long long>(group[3]) * BLOCK + t;
  const auto at = [](int step) { return static_cast<long long>(step) * BLOCK; };
  partial[t] =
      slot_sum<1>(0, steps, values + slot, x, at, [=](int step) { return load_stream(columns + slot + at(step)); });
  __syncthreads();

  // A thread sums a row of few threads, a warp one of more.
  const int end = t < rows ? threads_end[first_row + t] : 0;
  const int begin = 0 < t && t < rows ? threads_end[first_row + t - 1] : 0;
  const bool many = end - begin > WARP;
  if (t < rows && !many) {
    V sum = 0;
    for (int i = begin; i < end; ++i) sum += partial[i];
    y[first_row + t] = sum;
  }
  for (unsigned int left = __ballot_sync(FULL_MASK, many); left; left &= left - 1) {
    const int place = __ffs(static_cast<int>(left)) - 1;
    const int to = __shfl_sync(FULL_MASK, end, place);
    V sum = 0;
    for (int i = __shfl_sync(FULL_MASK, begin, place) + lane_id(); i < to; i += WARP) sum += partial[i];
    sum = group_sum<WARP>(sum);
    if (lane_id() == 0) y[first_row + t + place] = sum;
  }
}
