// The last kernel of a loop's body in a CUDA graph: whether the body is run again.

#ifndef SPMVBENCH_EMULATED
// The driver resolves it when it loads the code; CUDA 12.4.
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned value);
#else
inline void cudaGraphSetConditional(unsigned long long, unsigned) {}
#endif

// One thread. more: not 0 if the body is to run again. iterations: how often it has run, 0 before the first time and
// left 0 after the last; a loop without end is left after `limit` of them.
__global__ void repeat(unsigned long long handle, const int* __restrict__ more, int* __restrict__ iterations,
                       int limit) {
  const int done = *iterations + 1;
  const bool again = *more != 0 && done < limit;
  *iterations = again ? done : 0;
  cudaGraphSetConditional(handle, again);
}
