// Grids that a thread launches (dynamic parallelism). Who includes this is compiled as relocatable code and linked with
// CUDA's device runtime: see spmvbench/devices/nvrtc.py.
#pragma once
#include "spmv.cuh"

// Launches a grid of KERNEL, which runs when this grid is done.
template <auto KERNEL, typename... A>
__device__ __forceinline__ void launch_grid(unsigned blocks, unsigned threads, A... args) {
#ifdef SPMVBENCH_EMULATED
  emulation::Launched<KERNEL>::start(blocks, threads, args...);
#else
  // clang-format off: it takes >>> apart
  KERNEL<<<blocks, threads>>>(args...);
  // clang-format on
#endif
}
