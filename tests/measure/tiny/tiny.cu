// The plainest kernels for a sparse x and for a search; WRONG makes them lose the last row's answer.

template <typename V, typename I, bool WRONG>
__global__ void rows_of_sparse_x(int rows, const I* row_ptr, const int* col_idx, const V* values, int entries,
                                 const int* index, const V* value, V* y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  V sum = 0;
  for (I k = row_ptr[row]; k < row_ptr[row + 1]; ++k) {
    for (int e = 0; e < entries; ++e) {
      if (index[e] == col_idx[k]) sum += values[k] * value[e];
    }
  }
  y[row] = WRONG && row == rows - 1 ? V(1) : sum;
}

__global__ void begin_search(int n, const int* source, int* level, int* depth, int* more) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v < n) level[v] = v == *source ? 0 : -1;
  if (v == 0) *depth = *more = 0;
}

// One thread for all: nothing to race for. trace, where it is not null: (time, kernel) by level.
template <typename I, bool WRONG>
__global__ void next_level(int n, const I* row_ptr, const int* col_idx, int* level, int* depth, int* more,
                           long long* trace, int capacity) {
  *more = 0;
  for (int v = 0; v < n; ++v) {
    if (level[v] != *depth) continue;
    for (I k = row_ptr[v]; k < row_ptr[v + 1]; ++k) {
      if (level[col_idx[k]] < 0) {
        level[col_idx[k]] = *depth + (WRONG && *depth == 2 ? 2 : 1);
        *more = 1;
      }
    }
  }
  *depth += 1;
  if (*more && *depth < capacity) {
    trace[2 * *depth] = 1000ll * *depth * *depth;
    trace[2 * *depth + 1] = 7;
  }
}
