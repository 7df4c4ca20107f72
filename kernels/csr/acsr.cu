// ACSR (Ashari et al., SC 2014): the longest rows have a grid each, which a thread on the device launches; see
// spmvbench/formats/csr/bins.py.
#include "device_launch.cuh"
#include "shares.cuh"

// A row by a grid of its own, with a thread for every SHARE entries.
template <typename V, typename I, int BLOCK, int SHARE, typename S>
__global__ void __launch_bounds__(BLOCK)
    row_grid(int row, I begin, I end, const int* __restrict__ col_idx, const S* __restrict__ values,
             const V* __restrict__ x, V* __restrict__ y, unsigned* __restrict__ arrived) {
  V sum = 0;
#pragma unroll
  for (int u = 0; u < SHARE; ++u) {
    const long long k = begin + (static_cast<long long>(u) * gridDim.x + blockIdx.x) * BLOCK + threadIdx.x;
    if (k < end) sum += load_stream(values + k) * load_x(x, load_stream(col_idx + k));
  }
  sum = block_sum<BLOCK>(sum);
  if (threadIdx.x > 0) return;
  atomicAdd(y + row, sum);
  block_arrives(arrived);
}

// A thread for each of `rows` long rows, which launches the grid of its row. y is zero in these rows.
template <typename V, typename I, int BLOCK, int SHARE, typename S = V>
__global__ void launch_row_grids(int rows, const int* __restrict__ list, const I* __restrict__ row_ptr,
                                 const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                                 V* __restrict__ y, unsigned* __restrict__ arrived) {
  const long long place = global_thread();
  if (place >= rows) return;
  const int row = list[place];
  const I begin = row_ptr[row], end = row_ptr[row + 1];
  const I blocks = (end - begin + BLOCK * SHARE - 1) / (BLOCK * SHARE);
  launch_grid<row_grid<V, I, BLOCK, SHARE, S>>(static_cast<unsigned>(blocks), BLOCK, row, begin, end, col_idx, values,
                                               x, y, arrived);
}

__global__ void wait_for_row_grids(unsigned blocks, unsigned* arrived) { wait_for_arrivals(blocks, arrived); }
