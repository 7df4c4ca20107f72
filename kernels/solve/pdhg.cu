// Primal-dual hybrid gradient: before the first iteration, whose kernels are those of the products with the epilogues of
// include/epilogue.cuh.
#include "spmv.cuh"

// From y = 0 and q = 0.
template <typename V, typename S>
__global__ void __launch_bounds__(256) pdhg_start(long long n, const V* __restrict__ b, const S* __restrict__ step,
                                                  V* __restrict__ ahead, V* __restrict__ y) {
  const long long i = global_thread();
  if (i >= n) return;
  y[i] = V(0);
  ahead[i] = static_cast<V>(step[i]) * b[i];
}
