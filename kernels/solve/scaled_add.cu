// What alpha and beta add to a product: y = alpha * product + beta * y.
#include "spmv.cuh"

// KEEP: y counts; without it y is only written, whatever it held (NaN too). product may be y itself.
template <typename V, bool KEEP>
__global__ void scaled_add(V alpha, const V* product, V beta, V* y, long long n) {
  const long long i = global_thread();
  if (i < n) y[i] = KEEP ? alpha * product[i] + beta * y[i] : alpha * product[i];
}
