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

// Rows of several vectors, of which a thread reads its 16 bytes.
template <typename V, int T, int K, int LANES>
class SharedRead<Multi<V, T, K, LANES>> {
  static_assert(T * sizeof(V) == 16, "a thread reads 16 bytes");
  using Row = Multi<V, T * LANES>;
  static __device__ __forceinline__ int lane() { return LANES == 1 ? 0 : threadIdx.x; }

 public:
#if defined(__CUDA_ARCH__)
  __device__ __forceinline__ explicit SharedRead(const Row* first)
      : first_(static_cast<unsigned>(__cvta_generic_to_shared(first)) + lane() * 16u) {}

  __device__ __forceinline__ Multi<V, T> operator[](int i) const {
    Multi<V, T> found;
    read(first_ + static_cast<unsigned>(i) * static_cast<unsigned>(sizeof(Row)), found.v);
    return found;
  }

 private:
  __device__ static __forceinline__ void read(unsigned at, double* to) {
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(to[0]), "=d"(to[1]) : "r"(at));
  }
  __device__ static __forceinline__ void read(unsigned at, float* to) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(at));
  }

  unsigned first_;
#else
  __device__ __forceinline__ explicit SharedRead(const Row* first) : first_(first) {}
  __device__ __forceinline__ Multi<V, T> operator[](int i) const {
    Multi<V, T> found;
    for (int j = 0; j < T; ++j) found.v[j] = first_[i].v[lane() * T + j];
    return found;
  }

 private:
  const Row* first_;
#endif
};
