// Blocks: barriers, shared memory, atomics, geometry.
#include "spmv.cuh"

// Sum of each block's BLOCK items: a tree in shared memory down to a warp, then a butterfly of its lanes.
template <typename V, int BLOCK>
__global__ void block_sum(const V* __restrict__ items, V* __restrict__ sums) {
  __shared__ V partial[BLOCK];
  const int t = threadIdx.x;
  partial[t] = items[blockIdx.x * BLOCK + t];
  __syncthreads();
  for (int half = BLOCK / 2; half >= 32; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    __syncthreads();
  }
  if (t >= 32) return;
  for (int half = 16; half > 0; half /= 2) {
    const V other = partial[t ^ half];
    __syncwarp();
    partial[t] += other;
    __syncwarp();
  }
  if (t == 0) sums[blockIdx.x] = partial[0];
}

// Reverses the items of each block through dynamic shared memory.
template <typename V>
__global__ void reverse(const V* __restrict__ items, V* __restrict__ reversed) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* const tile = reinterpret_cast<V*>(dynamic_shared);
  const long long i = global_thread();
  tile[threadIdx.x] = items[i];
  __syncthreads();
  reversed[i] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ void votes(const int* predicates, int* result) {
  const int mine = predicates[threadIdx.x];
  const int count = __syncthreads_count(mine);
  const int all = __syncthreads_and(mine);
  const int any = __syncthreads_or(mine);
  if (threadIdx.x == 0) {
    result[0] = count;
    result[1] = all;
    result[2] = any;
  }
}

// Each thread of a 3-D grid of 3-D blocks writes its own number at its own number.
__global__ void geometry(int* numbers) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  const int z = blockIdx.z * blockDim.z + threadIdx.z;
  const int number = (z * gridDim.y * blockDim.y + y) * gridDim.x * blockDim.x + x;
  numbers[number] = number;
}

template <typename T>
__global__ void add_all(const T* items, T* sum, int n) {
  const long long i = global_thread();
  if (i < n) atomicAdd(sum, items[i]);
}

// The last block to arrive adds what all of them left: a fence and a counter in place of a second launch.
__global__ void last_block(double* partial, unsigned* arrived, double* sum) {
  partial[blockIdx.x] = blockIdx.x + 1;
  __threadfence();
  if (atomicAdd(arrived, 1u) + 1 < gridDim.x) return;
  __threadfence();
  double total = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) total += partial[b];
  *sum = total;
}

// Thread 1 waits for thread 0, which starts later where lanes run backwards.
__global__ void spin(volatile int* flag, int* seen) {
  if (threadIdx.x == 0) {
    __threadfence();
    *flag = 1;
  } else {
    while (*flag == 0) __nanosleep(100);
    *seen = 1;
  }
}

__global__ void fill_nothing() {}
