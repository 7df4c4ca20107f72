// Vectors packed into rows of N values, and back.
#include "spmv.cuh"

// Where a thread's value is: neighbouring threads take neighbouring values of the whole.
struct Place {
  long long row;
  int vector;

  template <int N, bool BY_ROW>
  static __device__ __forceinline__ Place of(long long rows) {
    const long long i = global_thread();
    return BY_ROW ? Place{i / N, static_cast<int>(i % N)} : Place{i % rows, static_cast<int>(i / rows)};
  }
};

// Value j of row i of the whole is at i * by_row + j * by_column. BY_ROW: by_column is 1.
template <typename V, int N, bool BY_ROW>
__global__ void pack(const V* __restrict__ whole, V* __restrict__ part, long long rows, long long by_row,
                     long long by_column) {
  if (global_thread() >= rows * N) return;
  const Place at = Place::of<N, BY_ROW>(rows);
  part[at.row * N + at.vector] = load_stream(whole + at.row * by_row + at.vector * by_column);
}

template <typename V, int N, bool BY_ROW>
__global__ void unpack(V* __restrict__ whole, const V* __restrict__ part, long long rows, long long by_row,
                       long long by_column) {
  if (global_thread() >= rows * N) return;
  const Place at = Place::of<N, BY_ROW>(rows);
  whole[at.row * by_row + at.vector * by_column] = load_stream(part + at.row * N + at.vector);
}
