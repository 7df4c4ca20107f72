// Drops the lines of a buffer from L2 without writing them back: they leave room instead of being in the way.
#pragma once

// data: aligned to a line of 128 bytes; its contents are lost. Before compute capability 8.0 there is no such
// instruction.
__global__ void discard(char* data, long long lines) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const long long line = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (line < lines) asm volatile("discard.global.L2 [%0], 128;" ::"l"(data + line * 128) : "memory");
#endif
}
