// Copies from global to shared memory that go on while the thread does; plain ones before compute capability 8.0.
#pragma once

// BYTES (4, 8 or 16) to an address aligned to as many. All of them are read: of what is shorter, copy the rest one by one.
template <int BYTES>
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(BYTES) : "memory");
  }
#else
  const unsigned char* from = static_cast<const unsigned char*>(global);
  unsigned char* to = static_cast<unsigned char*>(shared);
  for (int i = 0; i < BYTES; ++i) to[i] = from[i];
#endif
}

// A value, or a row of several, aligned to what is copied at a time.
template <typename V>
__device__ __forceinline__ void copy_value_async(V* shared, const V* global) {
  constexpr int SIZE = sizeof(V), EACH = SIZE % 16 == 0 ? 16 : SIZE % 8 == 0 ? 8 : 4;
#pragma unroll
  for (int i = 0; i < SIZE; i += EACH) {
    copy_async<EACH>(reinterpret_cast<char*>(shared) + i, reinterpret_cast<const char*>(global) + i);
  }
}

// Until all copies of the warp's threads have arrived, for all of them to read.
__device__ __forceinline__ void await_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  __syncwarp();
}
