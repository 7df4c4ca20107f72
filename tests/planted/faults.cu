// Kernels that hang, crash or return a wrong result.
#include "spmv.cuh"

#ifdef SPMVBENCH_EMULATED
extern "C" unsigned sleep(unsigned);  // hangs without using the host's cores
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
__global__ void wrong(double* y, int n) {
  const long long row = global_thread();
  if (row < n) y[row] = 1;
}
