// Primal-dual hybrid gradient around the launches of g = A^T y and q = A x: what becomes of both; see
// include/epilogue.cuh.
#include "epilogue.cuh"

// From y = 0 and q = 0.
template <typename V, typename S>
__global__ void __launch_bounds__(256) pdhg_start(long long n, const V* __restrict__ b, const S* __restrict__ step,
                                                  V* __restrict__ ahead, V* __restrict__ y) {
  const long long i = global_thread();
  if (i >= n) return;
  y[i] = V(0);
  ahead[i] = static_cast<V>(step[i]) * b[i];
}

// sums: (n,), y of a product whose kernel has no epilogue Y.
template <typename V, typename Y>
__global__ void __launch_bounds__(256) pdhg_step(long long n, const V* __restrict__ sums, Y y) {
  const long long i = global_thread();
  if (i < n) put<false>(y + i, load_stream(sums + i));
}
