// CSR, one thread a row, with one fault. It knows the longest row, where faults are hardest to see.
#include "spmv.cuh"

enum Fault {
  NONE,
  LAST_ENTRY,
  ONE_IN_1000,
  TWICE,
  NEIGHBOUR,
  FINITE_RETURNS,
  ADDS,
  REMEMBERS,
  ONE_RUN_IN_50,
  BEYOND_X,
  BEYOND_Y,
  INTO_X,
  PREVIOUS_Y,
  WRONG_FROM_ZERO,
  CACHES_Y,
  OTHER_BITS,
  TWO_BEFORE
};

template <typename V, typename I>
__global__ void planted(int fault, int rows, int cols, int longest, int step, const I* __restrict__ row_ptr,
                        const int* __restrict__ col_idx, const V* __restrict__ values, const V* __restrict__ known,
                        V* x, V* y, int* runs, V* kept) {
  const long long row = global_thread();
  if (row >= rows) return;
  if (fault == FINITE_RETURNS && y[row] - y[row] == 0) return;
  // Unless x is the other sign of what it was, or another x, y is that of the launch before.
  if (fault == CACHES_Y && kept[rows + row] == x[0]) {
    y[row] = kept[row];
    return;
  }
  const bool from_zero = y[row] == 0;
  V sum = 0;
  for (I k = row_ptr[row]; k < row_ptr[row + 1]; ++k) {
    const bool here = row == longest && k == row_ptr[row + 1] - 1;
    if (fault == LAST_ENTRY && here) continue;
    if (fault == ONE_IN_1000 && k % step == step - 1) continue;
    const int column = fault == NEIGHBOUR && here ? (col_idx[k] + 1) % cols : col_idx[k];
    sum += values[k] * x[column] * V(fault == TWICE && here ? 2 : 1);
  }
  if (fault == ADDS && y[row] - y[row] == 0) sum += y[row];
  if (fault == REMEMBERS) sum = known[row];
  if (fault == ONE_RUN_IN_50 && row == longest && ++*runs % 50 == 0) sum = 2 * sum + 1;
  // Within the bound of any row with an entry; sums of integers stay exact.
  if (fault == OTHER_BITS && sum != V((long long)sum) && row == longest && ++*runs % 40 == 0)
    sum *= 1 + V(sizeof(V) == 4 ? 0x1p-23 : 0x1p-52);
  if (fault == WRONG_FROM_ZERO && from_zero) sum = 2 * sum + 1;
  if (fault == PREVIOUS_Y) {
    const V previous = kept[row];
    kept[row] = sum;
    if (++runs[row] % 7 == 0) sum = previous;
  }
  if (fault == TWO_BEFORE) {  // in every third launch y of the first of the three
    const int turn = ++runs[row] % 3;
    if (turn == 1) kept[row] = sum;
    if (turn == 0) sum = kept[row];
  }
  if (fault == CACHES_Y) kept[row] = sum, kept[rows + row] = x[0], ++runs[row];
  y[row] = sum;
  if (row == rows - 1) {
    if (fault == BEYOND_X) x[cols] = 1;
    if (fault == BEYOND_Y) y[rows] = 1;
  }
}

// After the product: others may read x during it.
template <typename V>
__global__ void spoil(int cols, V* x) {
  x[cols - 1] = 0;
}
