// Reads of an array in shared memory by 32-bit addresses.
#pragma once
#include "spmv.cuh"

// Values in shared memory that no thread writes any more. A compiler that has few registers forms the address of an array
// in shared memory anew for each read, by an instruction that takes as long as the read; here the address is a register.
template <typename V>
class SharedRead {
 public:
#if defined(__CUDA_ARCH__)
  __device__ __forceinline__ explicit SharedRead(const V* first)
      : first_(static_cast<unsigned>(__cvta_generic_to_shared(first))) {}

  __device__ __forceinline__ V operator[](int i) const {
    return read(first_ + static_cast<unsigned>(i) * static_cast<unsigned>(sizeof(V)), V(0));
  }

 private:
  // Volatile: not before a barrier.
  __device__ static __forceinline__ double read(unsigned at, double) {
    double found;
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(found) : "r"(at));
    return found;
  }
  __device__ static __forceinline__ float read(unsigned at, float) {
    float found;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(found) : "r"(at));
    return found;
  }

  unsigned first_;
#else
  __device__ __forceinline__ explicit SharedRead(const V* first) : first_(first) {}
  __device__ __forceinline__ V operator[](int i) const { return first_[i]; }

 private:
  const V* first_;
#endif
};
