// Sliced ELLPACK: position p of the row at place r of a slice of C rows is at p * C + r, or, interleaved for T threads
// a row, at p / T * T * C + r * T + p % T. One kernel for every name; see spmvbench/formats/ellpack/ellpack.py.
#include "sell.cuh"

// The share of one thread in its row: threads take every THREADS-th position. HEIGHT: rows of a slice; 0: all rows are
// one slice of `pitch` rows and `width` positions, and slice_ptr is not read. STOP: rows end at their length, not at
// the slice's width.
template <typename P, int HEIGHT, int THREADS, bool INTERLEAVED, bool STOP, typename S, typename V>
__device__ __forceinline__ V thread_sum(unsigned place, int t, long long pitch, int width,
                                        const P* __restrict__ slice_ptr, const int* __restrict__ lengths,
                                        const int* __restrict__ columns, const S* __restrict__ values,
                                        const V* __restrict__ x) {
  constexpr int LANES = INTERLEAVED ? THREADS : 1;
  const long long height = HEIGHT ? HEIGHT : pitch;
  long long slot = static_cast<long long>(HEIGHT ? place % (HEIGHT ? HEIGHT : 1) : place) * LANES;
  if (HEIGHT) {
    const unsigned slice = place / (HEIGHT ? HEIGHT : 1);
    const P begin = slice_ptr[slice];
    width = static_cast<int>((slice_ptr[slice + 1] - begin) / (HEIGHT ? HEIGHT : 1));
    slot += begin;
  }
  if (STOP) width = lengths[place];
  if (INTERLEAVED) slot += t;
  columns += slot;
  const auto at = [=](int position) { return (INTERLEAVED ? position - t : position) * height; };
  return slot_sum<THREADS>(t, width, values + slot, x, at,
                           [=](int position) { return load_stream(columns + at(position)); });
}

// Threads that share a row sit in different warps of a block of (ROWS, THREADS). SORTED: `perm` holds the row of each
// of `rows` places. ADD: y += A x. ROOM: threads for which a multiprocessor must have registers; 0: as the compiler has it.
template <typename V, typename P, int HEIGHT, int THREADS, int ROWS, bool STOP, bool SORTED, bool ADD, typename S = V,
          int ROOM = 0>
__global__ void __launch_bounds__(ROWS* THREADS, ROOM / (ROWS * THREADS))
    sell_spmv(unsigned rows, long long pitch, int width, const P* __restrict__ slice_ptr,
              const int* __restrict__ lengths, const int* __restrict__ perm, const int* __restrict__ columns,
              const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  // 32 bits hold the places and a block more; 64 take 8 registers more in `ell`, and a quarter of its warps with them.
  const unsigned place = blockIdx.x * (ROWS / SHARING<V>)+row_thread<V>();
  V sum = 0;
  if (place < rows) {
    sum = thread_sum<P, HEIGHT, THREADS, false, STOP>(place, thread_of_row<V>(), pitch, width, slice_ptr, lengths,
                                                      columns, values, x);
  }
  sum = rows_sum<ROWS, THREADS>(sum);
  if (place < rows && thread_of_row<V>() == 0) put<ADD>(y + (SORTED ? perm[place] : place), sum);
}

// Threads that share a row are neighbours, as are their slots.
template <typename V, typename P, int HEIGHT, int THREADS, bool STOP, bool SORTED, bool ADD, typename S = V>
__global__ void sell_spmv_interleaved(unsigned rows, long long pitch, int width, const P* __restrict__ slice_ptr,
                                      const int* __restrict__ lengths, const int* __restrict__ perm,
                                      const int* __restrict__ columns, const S* __restrict__ values,
                                      const V* __restrict__ x, V* __restrict__ y) {
  const unsigned place = static_cast<unsigned>(global_thread<V>() / THREADS);
  const int t = row_thread<V>() % THREADS;
  V sum = 0;
  if (place < rows) {
    sum = thread_sum<P, HEIGHT, THREADS, true, STOP>(place, t, pitch, width, slice_ptr, lengths, columns, values, x);
  }
  sum = group_sum<THREADS>(sum);
  if (place < rows && t == 0) put<ADD>(y + (SORTED ? perm[place] : place), sum);
}

// Slices of rows first_row[s] to first_row[s + 1], a power of two and at most BLOCK: one per block, all of whose
// threads take part.
template <typename V, typename P, int BLOCK, bool ADD, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    sell_var_spmv(int rows, const int* __restrict__ first_row, const P* __restrict__ slice_ptr,
                  const int* __restrict__ columns, const S* __restrict__ values, const V* __restrict__ x,
                  V* __restrict__ y) {
  __shared__ V partial[BLOCK];
  const int first = first_row[blockIdx.x];
  const int height = first_row[blockIdx.x + 1] - first;
  const P begin = slice_ptr[blockIdx.x];
  const int width = static_cast<int>((slice_ptr[blockIdx.x + 1] - begin) / height);
  const int threads = BLOCK / height;
  // Thread t of row r starts at t * height + r and goes on by BLOCK: by `threads` positions.
  columns += begin + threadIdx.x;
  const int count = (width - static_cast<int>(threadIdx.x) / height + threads - 1) / threads;
  const auto at = [](int i) { return static_cast<long long>(i) * BLOCK; };
  V sum =
      slot_sum<1>(0, count, values + begin + threadIdx.x, x, at, [=](int i) { return load_stream(columns + at(i)); });
  partial[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= height || first + threadIdx.x >= rows) return;
  for (int t = 1; t < threads; ++t) sum += partial[t * height + threadIdx.x];
  put<ADD>(y + first + threadIdx.x, sum);
}
