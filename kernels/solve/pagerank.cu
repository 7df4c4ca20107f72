// PageRank by the power method (Page, Brin, Motwani & Winograd, Stanford InfoLab 1999-66) around the launches of q = A p,
// where entry (i, j) of A is an arc from j to i and p = x / (weight that leaves a vertex). Vertices without arcs that
// leave give their rank to all. Ranks are of type V, sums in double precision. With STOPS = false it begins with given
// ranks and nothing stops it: a fixed number of iterations, without `pagerank_check` and without a state.
#include "grid_sums.cuh"

// In `state`.
constexpr int ACTIVE = 0;      // whether the iteration goes on
constexpr int MORE = 1;        // whether the loop's body is to run again
constexpr int ITERATIONS = 2;  // that are done
constexpr int MOST = 3;        // iterations that are allowed
constexpr int CHUNK = 4;       // iterations after which the host looks at the state
constexpr int CONVERGED = 5;   // whether the last change was within the tolerance

// In `numbers`.
constexpr int DAMPING = 0;
constexpr int TOLERANCE = 1;
constexpr int CHANGES = 2;  // [CHUNK]: sums of the changes of all ranks, of each iteration of a chunk

// x = 1 / n, without STOPS the ranks `first`. dangling: the sums of ranks of vertices that no arc leaves.
template <typename V, bool STOPS>
__global__ void __launch_bounds__(SUM_BLOCK)
    pagerank_start(long long n, const V* __restrict__ first, const V* __restrict__ inverse_weight, V* __restrict__ x,
                   V* __restrict__ p, int* __restrict__ state, double* __restrict__ dangling) {
  double sum = 0;
  const V equal = static_cast<V>(1.0 / n);
  const long long stride = static_cast<long long>(gridDim.x) * SUM_BLOCK;
  for (long long i = global_thread(); i < n; i += stride) {
    const V rank = STOPS ? equal : first[i];
    x[i] = rank;
    p[i] = rank * inverse_weight[i];
    if (inverse_weight[i] == 0) sum += rank;
  }
  put_partial(sum, dangling);
  if (!STOPS || !first_thread()) return;
  state[ITERATIONS] = state[CONVERGED] = 0;
  state[ACTIVE] = state[MORE] = state[MOST] > 0;
}

// x = damping (q + dangling / n) + (1 - damping) / n. The sums of what dangles are read in one half and written to the
// other.
template <typename V, bool STOPS>
__global__ void __launch_bounds__(SUM_BLOCK)
    pagerank_step(long long n, int now, const V* __restrict__ q, const V* __restrict__ inverse_weight,
                  V* __restrict__ x, V* __restrict__ p, const int* __restrict__ state,
                  const double* __restrict__ numbers, double* __restrict__ dangling, double* __restrict__ changes) {
  if (STOPS && !state[ACTIVE]) return;
  const double damping = numbers[DAMPING];
  const double held = grid_total(dangling + now * gridDim.x, gridDim.x);
  const double everywhere = (damping * held + (1 - damping)) / n;
  double sum = 0, change = 0;
  const long long stride = static_cast<long long>(gridDim.x) * SUM_BLOCK;
#pragma unroll 2
  for (long long i = global_thread(); i < n; i += stride) {
    const V rank = static_cast<V>(damping * q[i] + everywhere);
    const V inverse = inverse_weight[i];
    if (STOPS) change += fabs(static_cast<double>(rank) - x[i]);
    if (inverse == 0) sum += rank;
    x[i] = rank;
    p[i] = rank * inverse;
  }
  put_partial(sum, dangling + (1 - now) * gridDim.x);
  if (STOPS) put_partial(change, changes);
}

// One block: whether the iteration goes on.
template <int UNUSED>
__global__ void __launch_bounds__(SUM_BLOCK) pagerank_check(int blocks, const double* __restrict__ changes,
                                                            int* __restrict__ state, double* __restrict__ numbers) {
  if (!state[ACTIVE]) {
    if (threadIdx.x == 0) state[MORE] = 0;
    return;
  }
  const double change = grid_total(changes, blocks);
  // All have read whether it goes on: grid_total waits for them.
  if (threadIdx.x > 0) return;
  const int done = state[ITERATIONS] + 1;
  const bool active = change > numbers[TOLERANCE] && is_finite(change) && done < state[MOST];
  numbers[CHANGES + (done - 1) % state[CHUNK]] = change;
  state[ITERATIONS] = done;
  state[CONVERGED] = change <= numbers[TOLERANCE];
  state[ACTIVE] = active;
  state[MORE] = active && done % state[CHUNK] > 0;
}
