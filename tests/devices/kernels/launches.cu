// Grids that threads launch.
#include "device_launch.cuh"

// A thread launches a grid of as many threads as it has before it, and itself, DEPTH times.
template <int DEPTH>
__global__ void tree(int threads, int* count) {
  const int t = static_cast<int>(global_thread());
  if (t >= threads) return;
  atomicAdd(count + DEPTH, 1);
  if constexpr (DEPTH > 0) launch_grid<tree<DEPTH - 1>>(2, 32, t + 1, count);
}

__global__ void no_threads(int* count) { launch_grid<tree<0>>(1, count[0], 1, count); }

__global__ void writes(int place, int* out) { out[place] = 1; }

__global__ void beyond(int* out) { launch_grid<writes>(1, 1, 7, out); }
