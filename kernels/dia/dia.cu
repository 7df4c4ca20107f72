// Diagonals, of all rows at once or of slices of 32 rows; see spmvbench/formats/dia/dia.py.
#include "dia.cuh"

constexpr int BLOCK = 128;

// All rows are one hack: `pitch` values per diagonal. Two rows per thread.
//
// Threads on a multiprocessor count for more than loads of a thread, so the compiler has to make room for more blocks:
// without them pde:200 in hacks gives 730 GFLOPS on an H200 instead of 807, fem:60:3 in one hack 776 instead
// of 865.
template <typename V, bool ADD, typename S = V>
__global__ void __launch_bounds__(BLOCK, blocks<V>(10))
    dia_spmv(int rows, int cols, int diagonals, long long pitch, const int* __restrict__ offset,
             const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const unsigned row = global_thread<V>() * 2;
  if (row >= rows) return;
  V sum[2] = {V(0), V(0)};
  sum_diagonals<2, 4, false>(row, cols, diagonals, pitch, offset, values + row, x, sum);
  put<ADD>(y + row, sum[0]);
  if (row + 1 < rows) put<ADD>(y + row + 1, sum[1]);
}

// The same of DIAGONALS, known when compiling, so that all loads of a row are in flight without a test before each: for
// several vectors.
constexpr int FEW_BLOCK = 256;
template <typename V, int DIAGONALS, typename S = V>
__global__ void __launch_bounds__(FEW_BLOCK, 4)
    dia_few(int rows, int cols, long long pitch, const int* __restrict__ offset, const S* __restrict__ values,
            const V* __restrict__ x, V* __restrict__ y) {
  const unsigned row = global_thread<V>();
  if (row >= rows) return;
  V sum[1] = {V(0)};
  sum_diagonals<1, DIAGONALS, false>(row, cols, DIAGONALS, pitch, offset, values + row, x, sum);
  put<false>(y + row, sum[0]);
}

// A warp a hack of 32 rows. In single precision twice the batch takes the same registers, and is faster than AHEAD.
template <typename V, typename I, bool ADD, typename S = V>
__global__ void __launch_bounds__(BLOCK, blocks<V>(16))
    hdi_spmv(int rows, int cols, const I* __restrict__ hack_ptr, const int* __restrict__ offset,
             const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  constexpr bool DOUBLE = sizeof(V) == 8;
  const unsigned row = global_thread<V>();
  if (row >= rows) return;
  const unsigned hack = row / WARP;
  const I begin = __ldg(hack_ptr + hack);
  const int diagonals = static_cast<int>(__ldg(hack_ptr + hack + 1) - begin);
  V sum[1] = {V(0)};
  sum_diagonals<1, DOUBLE ? 4 : 8, DOUBLE>(row, cols, diagonals, WARP, offset + begin,
                                           values + (static_cast<long long>(begin) * WARP + row % WARP), x, sum);
  put<ADD>(y + row, sum[0]);
}
