// Grids that a thread launches (dynamic parallelism). Who includes this is compiled as relocatable code and linked with
// CUDA's device runtime: see spmvbench/devices/nvrtc.py.
#pragma once
#include "spmv.cuh"

// Launches a grid of KERNEL, which may run at once. A later kernel may run before it, and a captured graph end: each of
// its blocks calls block_arrives, and a launch after this one waits for them by wait_for_arrivals.
template <auto KERNEL, typename... A>
__device__ __forceinline__ void launch_grid(unsigned blocks, unsigned threads, A... args) {
#ifdef SPMVBENCH_EMULATED
  emulation::Launched<KERNEL>::start(blocks, threads, args...);
#else
  const auto fire_and_forget = (cudaStream_t)4ULL;  // cudaStreamFireAndForget, a macro that NVRTC has not
  // clang-format off: it takes >>> apart
  KERNEL<<<blocks, threads, 0, fire_and_forget>>>(args...);
  // clang-format on
#endif
}

// One thread of a block, which has written all that the block has to write.
__device__ __forceinline__ void block_arrives(unsigned* arrived) {
  __threadfence();
  atomicAdd(arrived, 1u);
}

// Of one thread: waits until so many blocks have arrived, and sets the count to zero. It gives up after seconds, for
// grids that could not be launched: the result is wrong then, and the device does not hang.
__device__ __forceinline__ void wait_for_arrivals(unsigned blocks, unsigned* arrived) {
  for (int rounds = 0; atomicAdd(arrived, 0u) < blocks && rounds < 1 << 24; ++rounds) __nanosleep(100);
  *arrived = 0;
}
