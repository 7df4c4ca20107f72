// Rows that a kernel cuts between tiles, summed in a fixed order: the same bits every time.
#include "shares.cuh"
#include "spmv.cuh"

// y[row] += the carries of each row below `rows`, BLOCK of them per block; rows ascend, and a row's highest bit is no
// part of it. A run of one row is added by the block that it begins in, its part in later blocks by a strided sum.
template <typename V, typename R, int BLOCK>
__global__ void __launch_bounds__(BLOCK) carry_ordered(int n, int rows, const R* __restrict__ carry_row,
                                                       const V* __restrict__ carry_sum, V* __restrict__ y) {
  __shared__ V in_block;
  const auto row_of = [=](long long i) { return i < n ? static_cast<int>(carry_row[i] & 0x7fffffff) : rows; };
  const long long first = blockIdx.x * static_cast<long long>(BLOCK), behind = first + BLOCK;
  const long long i = first + threadIdx.x;
  const int before = first ? row_of(first - 1) : -1, last = row_of(behind - 1);
  const int row = row_of(i);
  const V sum = row < rows ? carry_sum[i] : V(0);
  const bool ends = row_of(i + 1) != row;
  V open = ends ? V(0) : sum;
  const V carry = open_before<BLOCK>(open, lanes_back(ends));
  if (ends && row != before && row < rows) y[row] += carry + sum;
  if (last == before || last >= rows || row_of(behind) != last) return;  // the whole block

  V rest = 0;
  for (long long k = behind + threadIdx.x; row_of(k) == last; k += BLOCK) rest += carry_sum[k];
  if (threadIdx.x == BLOCK - 1) in_block = open;
  rest = block_sum<BLOCK>(rest);  // with a barrier
  if (threadIdx.x == 0) y[last] += in_block + rest;
}
