// Primal-dual hybrid gradient with diagonal steps (Pock and Chambolle, ICCV 2011) for min c^T x, A x = b, x >= 0,
// around the launches of g = A^T y and q = A x. Vectors are of type V, steps of type S.
//
// A (2 x' - x) is taken as 2 q - q of the iteration before: the product reads x' itself, and nothing of the length of x
// is stored beside it.
#include "spmv.cuh"

template <typename V, typename S>
__global__ void __launch_bounds__(256) pdhg_primal(long long n, const V* __restrict__ g, const V* __restrict__ c,
                                                   const S* __restrict__ step, V* __restrict__ x) {
  const long long i = global_thread();
  if (i >= n) return;
  const V moved = x[i] - static_cast<V>(load_stream(step + i)) * (load_stream(c + i) - load_stream(g + i));
  x[i] = moved < V(0) ? V(0) : moved;
}

// before: q of the iteration before.
template <typename V, typename S>
__global__ void __launch_bounds__(256)
    pdhg_dual(long long n, const V* __restrict__ q, const V* __restrict__ before, const V* __restrict__ b,
              const S* __restrict__ step, V* __restrict__ y) {
  const long long i = global_thread();
  if (i >= n) return;
  const V left = load_stream(b + i) - (V(2) * q[i] - load_stream(before + i));
  y[i] += static_cast<V>(load_stream(step + i)) * left;
}
