// What a kernel can do to the process that runs it.
#include "spmv.cuh"

#ifdef SPMVBENCH_EMULATED
extern "C" unsigned sleep(unsigned);  // hangs as well, and leaves the host's cores to others
#else
__device__ void sleep(unsigned) {}
#endif

template <int UNUSED>
__global__ void hang(double* y) {
  while (true) {
    *static_cast<volatile double*>(y) = 0;
    sleep(1);
  }
}

template <int UNUSED>
__global__ void fault(double* y) {
  *reinterpret_cast<volatile double*>(8) = y[0];
}

template <int UNUSED>
__global__ void lie(double* y, int n) {
  const long long row = global_thread();
  if (row < n) y[row] = 1;
}
