// Conjugate gradients with a Jacobi preconditioner (Saad, Iterative Methods for Sparse Linear Systems, 2003, algorithm
// 9.1) around the launches of q = A p. Vectors are of type V, scalar products in double precision.
//
// An iteration is three kernels. What one of them writes that all blocks of it read is stored twice: an iteration reads
// the half `now` (0 or 1) and writes the other. Once the solver has stopped, kernels leave everything as it is. With
// STOPS = false nothing stops it: a fixed number of iterations that all do the same work, and no state.
#include "grid_sums.cuh"

// In `state`.
constexpr int ACTIVE = 0;      // [2]: whether the solver goes on
constexpr int MORE = 2;        // whether the loop's body is to run again
constexpr int ITERATIONS = 3;  // that are done
constexpr int MOST = 4;        // iterations that are allowed
constexpr int BROKEN = 5;      // whether p^T A p was not positive, or a number not finite
constexpr int CHUNK = 6;       // iterations after which the host looks at the state
constexpr int CONVERGED = 7;   // whether the norm of r has reached its limit

// In `numbers`.
constexpr int RHO = 0;        // [2]: r^T z
constexpr int LIMIT = 2;      // of the norm of r
constexpr int RELATIVE = 3;   // tolerance: of the norm of b
constexpr int ABSOLUTE = 4;   // tolerance
constexpr int FIRST = 5;      // norm of r before the first iteration
constexpr int RESIDUALS = 6;  // [CHUNK]: norms of r after each iteration of a chunk

// Of r^T r, where b is about 1: the next p^T A p may be too small for a double, and is then not positive.
constexpr double LEAST = 1e-280;

template <bool JACOBI, typename V>
__device__ __forceinline__ V preconditioned(const V* __restrict__ inverse_diagonal, long long i, V r) {
  return JACOBI ? inverse_diagonal[i] * r : r;
}

// r = b - q, p = z; r may be b itself. partial: sums of r^T z, r^T r and b^T b, `gridDim.x` each. GUESS: q holds A x;
// without it x is 0.
template <typename V, bool JACOBI, bool GUESS>
__global__ void __launch_bounds__(SUM_BLOCK)
    cg_start(long long n, const V* b, const V* __restrict__ q, const V* __restrict__ inverse_diagonal,
             V* __restrict__ x, V* r, V* __restrict__ p, double* __restrict__ partial) {
  double rz = 0, rr = 0, bb = 0;
  const long long stride = static_cast<long long>(gridDim.x) * SUM_BLOCK;
  for (long long i = global_thread(); i < n; i += stride) {
    const V right = b[i];
    const V residual = GUESS ? right - q[i] : right;
    if (!GUESS) x[i] = V(0);
    const V z = preconditioned<JACOBI>(inverse_diagonal, i, residual);
    r[i] = residual;
    p[i] = z;
    rz += static_cast<double>(residual) * z;
    rr += static_cast<double>(residual) * residual;
    bb += static_cast<double>(right) * right;
  }
  put_partial(rz, partial);
  put_partial(rr, partial + gridDim.x);
  put_partial(bb, partial + 2 * gridDim.x);
}

// One block: the scalars that the first iteration reads.
template <bool STOPS>
__global__ void __launch_bounds__(SUM_BLOCK)
    cg_begin(int blocks, const double* __restrict__ partial, int* __restrict__ state, double* __restrict__ numbers) {
  const double rz = grid_total(partial, blocks);
  const double rr = grid_total(partial + blocks, blocks);
  const double bb = grid_total(partial + 2 * blocks, blocks);
  if (threadIdx.x > 0) return;
  numbers[RHO] = rz;
  if (!STOPS) return;
  const double norm = sqrt(rr), relative = numbers[RELATIVE] * sqrt(bb), absolute = numbers[ABSOLUTE];
  const double limit = relative > absolute ? relative : absolute;
  const bool broken = !is_finite(norm);
  numbers[LIMIT] = limit;
  numbers[FIRST] = norm;
  state[ITERATIONS] = 0;
  state[BROKEN] = broken;
  state[CONVERGED] = norm <= limit;
  state[ACTIVE] = state[MORE] = !broken && norm > limit && state[MOST] > 0;
}

// partial: the sums of p^T q.
template <typename V, bool STOPS>
__global__ void __launch_bounds__(SUM_BLOCK)
    cg_dot(long long n, int now, const V* __restrict__ p, const V* __restrict__ q, const int* __restrict__ state,
           double* __restrict__ partial) {
  if (STOPS && !state[ACTIVE + now]) return;
  double pq = 0;
  const long long stride = static_cast<long long>(gridDim.x) * SUM_BLOCK;
#pragma unroll 4
  for (long long i = global_thread(); i < n; i += stride) pq += static_cast<double>(p[i]) * q[i];
  put_partial(pq, partial);
}

// x += alpha p, r -= alpha q. partial: the sums of p^T q, then those of r^T z and r^T r, which it writes.
template <typename V, bool JACOBI, bool STOPS>
__global__ void __launch_bounds__(SUM_BLOCK)
    cg_update(long long n, int now, const V* __restrict__ p, const V* __restrict__ q,
              const V* __restrict__ inverse_diagonal, V* __restrict__ x, V* __restrict__ r, int* __restrict__ state,
              const double* __restrict__ numbers, double* __restrict__ partial) {
  if (STOPS && !state[ACTIVE + now]) return;
  const double pq = grid_total(partial, gridDim.x);
  const double rho = numbers[RHO + now];
  if (STOPS) {
    const bool broken = !(pq > 0) || !is_finite(rho / pq);
    if (first_thread()) state[BROKEN] = broken;
    if (broken) return;
  }
  const V alpha = static_cast<V>(rho / pq);
  double rz = 0, rr = 0;
  const long long stride = static_cast<long long>(gridDim.x) * SUM_BLOCK;
#pragma unroll 2
  for (long long i = global_thread(); i < n; i += stride) {
    const V residual = r[i] - alpha * q[i];
    x[i] += alpha * p[i];
    r[i] = residual;
    rz += static_cast<double>(residual) * preconditioned<JACOBI>(inverse_diagonal, i, residual);
    rr += static_cast<double>(residual) * residual;
  }
  put_partial(rz, partial + gridDim.x);
  put_partial(rr, partial + 2 * gridDim.x);
}

// p = z + beta p, and whether the solver goes on. An iteration that broke down is not counted.
template <typename V, bool JACOBI, bool STOPS>
__global__ void __launch_bounds__(SUM_BLOCK)
    cg_direction(long long n, int now, const V* __restrict__ r, const V* __restrict__ inverse_diagonal,
                 V* __restrict__ p, int* __restrict__ state, double* __restrict__ numbers,
                 const double* __restrict__ partial) {
  if (STOPS && (!state[ACTIVE + now] || state[BROKEN])) {
    if (first_thread()) state[ACTIVE + 1 - now] = state[MORE] = 0;
    return;
  }
  const double rz = grid_total(partial + gridDim.x, gridDim.x);
  const double rr = grid_total(partial + 2 * gridDim.x, gridDim.x);
  const V beta = static_cast<V>(rz / numbers[RHO + now]);
  const long long stride = static_cast<long long>(gridDim.x) * SUM_BLOCK;
#pragma unroll 4
  for (long long i = global_thread(); i < n; i += stride) {
    p[i] = preconditioned<JACOBI>(inverse_diagonal, i, r[i]) + beta * p[i];
  }
  if (!first_thread()) return;
  numbers[RHO + 1 - now] = rz;
  if (!STOPS) return;
  const int done = state[ITERATIONS] + 1;
  const double norm = sqrt(rr);
  const bool active = norm > numbers[LIMIT] && rr > LEAST && is_finite(rr) && done < state[MOST];
  numbers[RESIDUALS + (done - 1) % state[CHUNK]] = norm;
  state[ITERATIONS] = done;
  state[CONVERGED] = norm <= numbers[LIMIT];
  state[ACTIVE + 1 - now] = active;
  state[MORE] = active && done % state[CHUNK] > 0;
}
