// What a GPU forbids, one kernel each; the tests look for the lines marked here.
#include "spmv.cuh"

__global__ void deadlock(int* out) {
  if (threadIdx.x < 7) __syncwarp(FULL_MASK);  // deadlock-1
  if (threadIdx.x >= 7) __syncthreads();       // deadlock-2
  out[threadIdx.x] = 1;
}

__global__ void divergent_barrier(int* out) {
  if (threadIdx.x < 32) {
    __syncthreads();  // barrier-1
  } else {
    __syncthreads();  // barrier-2
  }
  out[threadIdx.x] = 1;
}

__global__ void divergent_shuffle(int* out) {
  int v = threadIdx.x;
  if (threadIdx.x < 16) {
    v = __shfl_sync(FULL_MASK, v, 0);  // shuffle-1
  } else {
    v = __shfl_sync(FULL_MASK, v, 1);  // shuffle-2
  }
  out[threadIdx.x] = v;
}

__global__ void not_in_mask(int* out) {
  out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1, 0);  // mask-1
}

__global__ void masks_differ(int* out) {
  out[threadIdx.x] = __ballot_sync(threadIdx.x < 16 ? 0xffffffffu : 0xfffffffeu, 1);  // mask-2
}

__global__ void spins(volatile int* flag) {
  while (*flag == 0) __nanosleep(1);
}

__global__ void race_in_block(int* out) {
  out[0] = threadIdx.x;  // race-1
}

__global__ void race_of_blocks(int* out) {
  if (threadIdx.x == 0) out[blockIdx.x / 2] = 1;  // race-2
}

__global__ void race_with_atomic(int* out) {
  if (threadIdx.x == 0) {
    out[0] = 5;  // race-3
  } else {
    atomicAdd(out, 1);
  }
}

__global__ void out_of_bounds(const double* in, double* out) {
  out[threadIdx.x] = in[threadIdx.x + 1];  // bounds-1
}

__global__ void out_of_shared(double* out) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  double* const tile = reinterpret_cast<double*>(dynamic_shared);
  tile[threadIdx.x] = 1;  // bounds-2
  out[threadIdx.x] = tile[threadIdx.x];
}

__global__ void uninitialised(float* out) {
  __shared__ float tile[64];
  if (threadIdx.x != 5) tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];  // uninitialised-1
}

__global__ void casts_const_away(const int* in) {
  const_cast<int*>(in)[threadIdx.x] = 1;  // const-1
}

// Each call reads its caller's frame, so that no compiler makes a loop of the recursion.
__device__ __noinline__ int deep(int n, volatile char* above) {
  volatile char frame[1024];
  frame[n] = above[n];
  return n == 0 ? 1 : deep(n - 1, frame) + above[n] + frame[n];
}

__global__ void smashes_stack(int* out) {
  volatile char frame[1024];
  frame[0] = 0;
  out[0] = deep(1000, frame);
}
