// Vectors without a matrix: zeroing y, permuting, and kernels that measure launch overhead and bandwidth.
#include "overlap.cuh"
#include "spmv.cuh"
#include "zero.cuh"

template <typename V>
__global__ void zero_fill(V* __restrict__ y, int n) {
  let_next_start();
  set_zero(y, n);
}

// y = 0 at the rows in which shares of the work begin (ascending): those that a cut can leave in several parts. The
// kernel that sums the shares may start before this one has ended.
template <typename V, typename R>
__global__ void zero_cut_rows(int n, const R* __restrict__ row, V* __restrict__ y) {
  let_next_start();
  const long long i = global_thread();
  if (i < n && (i == 0 || row[i - 1] != row[i])) y[row[i]] = V(0);
}

template <typename V, typename I>
__global__ void gather(I n, const I* __restrict__ index, const V* __restrict__ from, V* __restrict__ to) {
  const long long i = global_thread();
  if (i < n) to[i] = __ldg(from + load_stream(index + i));
}

template <typename V>
__global__ void copy(const V* __restrict__ from, V* __restrict__ to, long long n) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = global_thread(); i < n; i += stride) to[i] = load_stream(from + i);
}

// x becomes total - x: the other sign of values, the other of two sources. Twice in a row leaves x as it was.
template <typename V>
__global__ void reflect(V* __restrict__ x, V total, long long n) {
  const long long i = global_thread();
  if (i < n) x[i] = total - x[i];
}

// Reads everything and writes nothing: the ceiling of kernels that read far more than they write. What is read again
// and again stays in L2 in part: the first `kept` elements are read as x is, the others as the matrix.
template <typename V>
__global__ void read(const V* __restrict__ from, V* __restrict__ never, long long kept, long long n) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  V sum = {};
#pragma unroll 4
  for (long long i = global_thread(); i < n; i += stride) {
    const V value = i < kept ? __ldg(from + i) : load_stream(from + i);
    sum.x += value.x;
    sum.y += value.y;
  }
  // Never true of the zeros that the benchmark reads, but the compiler cannot know and must load.
  if (sum.x + sum.y != 0) never[0] = sum;
}

// Reads x at random places, 8 of them in flight in a thread, and writes nothing. RUN neighbouring lanes read
// neighbours, from a multiple of RUN on. x holds a power of two of zeros.
template <typename V, int RUN>
__global__ void gather_random(const V* __restrict__ x, unsigned mask, int rounds, V* __restrict__ never) {
  unsigned state = static_cast<unsigned>(global_thread() / RUN) * 2654435761u + 1u;
  V sum = 0;
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int u = 0; u < 8; ++u) {
      state ^= state << 13, state ^= state >> 17,
          state ^= state << 5;  // Marsaglia's xorshift: 0 alone stays where it is
      sum += load_x(x, static_cast<int>(((state & mask) & ~(RUN - 1u)) + threadIdx.x % RUN));
    }
  }
  if (sum != 0) never[0] = sum;
}

template <int UNUSED>
__global__ void empty() {}
