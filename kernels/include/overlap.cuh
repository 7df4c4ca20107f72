// Two launches of which the second starts while the first still runs (programmatic dependent launch, CUDA C++
// Programming Guide; from compute capability 9.0 on). `Launch.overlaps` asks for it. Where the device or the launch has
// none, both do nothing: the launches follow each other.
#pragma once

// In the first kernel: the next one may start once every block has come here. It sees nothing of what this one writes.
__device__ __forceinline__ void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// In the second kernel: waits until the first has ended, with all that it has written. Before it only what no kernel
// just before has written may be read, and nothing that the first touches may be written. Later calls take no time.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
