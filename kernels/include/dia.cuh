// What every kernel on diagonals does with those of a row: no column is stored, the entry of row i on a diagonal is in
// column i + offset of the diagonal.
#pragma once
#include "spmv.cuh"

// The offsets of a list of diagonals, of which operator() gives those of the next batch in order.
struct Listed {
  const int* __restrict__ offset;
  __device__ __forceinline__ int operator()(int u) { return __ldg(offset + u); }
  __device__ __forceinline__ void pass(int batch) { offset += batch; }
};

// The same of groups of adjacent diagonals: the first one's offset, and how many there are.
struct Grouped {
  const int* __restrict__ first;
  const int* __restrict__ width;
  int offset, left;
  __device__ __forceinline__ int operator()(int) {
    if (left == 0) {
      offset = __ldg(first++);
      left = __ldg(width++);
    }
    --left;
    return offset++;
  }
  __device__ __forceinline__ void pass(int) {}
};

// A diagonal's value, or two. KEPT: the matrix stays in L2 from one product to the next, where lines that are marked as
// read once are the first to go. PARTLY_KEPT: it is up to twice as large as L2. A sixth of its lines, by their addresses,
// stays there, and all others go before them. On an H200 (f64) fem:40:3 has 1,080 GFLOPS so, 960 without; pde:100 900 and
// 865.
#if defined(PARTLY_KEPT) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ unsigned long long partly_kept() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_normal.L2::evict_first.b64 %0, 0.167;" : "=l"(policy));
  return policy;
}
template <typename T>
__device__ __forceinline__ T load_diagonal(const T* p) {
  if constexpr (sizeof(T) == 16) {
    ulonglong2 found;
    asm("ld.global.L1::evict_first.L2::cache_hint.v2.b64 {%0, %1}, [%2], %3;"
        : "=l"(found.x), "=l"(found.y)
        : "l"(p), "l"(partly_kept()));
    return *reinterpret_cast<const T*>(&found);
  } else if constexpr (sizeof(T) == 8) {
    unsigned long long found;
    asm("ld.global.L1::evict_first.L2::cache_hint.b64 %0, [%1], %2;" : "=l"(found) : "l"(p), "l"(partly_kept()));
    return *reinterpret_cast<const T*>(&found);
  } else if constexpr (sizeof(T) == 4) {
    unsigned found;
    asm("ld.global.L1::evict_first.L2::cache_hint.b32 %0, [%1], %2;" : "=r"(found) : "l"(p), "l"(partly_kept()));
    return *reinterpret_cast<const T*>(&found);
  } else {
    return load_stream(p);
  }
}
#elif defined(KEPT)
template <typename T>
__device__ __forceinline__ T load_diagonal(const T* p) {
  if constexpr (sizeof(T) < 4 || alignof(T) < 4) {
    return load_stream(p);
  } else {
    return __ldg(p);
  }
}
template <typename S>
__device__ __forceinline__ HalfPair<S> load_diagonal(const HalfPair<S>* p) {
  return load_stream(p);
}
#else
template <typename T>
__device__ __forceinline__ T load_diagonal(const T* p) {
  return load_stream(p);
}
#endif

// Some diagonals' values of ROWS neighbouring rows, in flight.
template <typename V, int ROWS, int BATCH, typename S = V>
struct Batch {
  S value[BATCH][ROWS];

  // The next BATCH of the `left` diagonals that are left, `stride` values apart.
  __device__ __forceinline__ void load(const S* __restrict__ values, long long stride, int left) {
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) value[u][r] = S(0);
      if (u >= left) continue;
      if constexpr (ROWS == 1) {
        value[u][0] = load_diagonal(values + u * stride);
      } else {
        const auto pair = load_diagonal(reinterpret_cast<const typename PairOf<S>::type*>(values + u * stride));
        value[u][0] = pair.x;
        value[u][1] = pair.y;
      }
    }
  }

  // Columns are unsigned: those before the first one are after the last one, too.
  template <typename Offsets>
  __device__ __forceinline__ void multiply(unsigned row, unsigned cols, Offsets& offset, int left,
                                           const V* __restrict__ x, V (&sum)[ROWS]) const {
    unsigned column[BATCH];
    V factor[BATCH][ROWS];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) column[u] = row + (u < left ? offset(u) : 0);
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        factor[u][r] = u < left && column[u] + r < cols ? __ldg(x + (column[u] + r)) : V(0);
      }
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) sum[r] += value[u][r] * factor[u][r];
    }
  }
};

// The sums of ROWS neighbouring rows over the diagonals of their hack, BATCH at a time. AHEAD: the values of the next
// batch are loaded before the x of this one.
template <int ROWS, int BATCH, bool AHEAD, typename Offsets, typename V, typename S>
__device__ __forceinline__ void sum_diagonals(unsigned row, unsigned cols, int diagonals, long long stride,
                                              Offsets offset, const S* __restrict__ values, const V* __restrict__ x,
                                              V (&sum)[ROWS]) {
  Batch<V, ROWS, BATCH, S> now;
  if (AHEAD) now.load(values, stride, diagonals);
#pragma unroll 1
  for (int d = 0; d < diagonals; d += BATCH) {
    if (AHEAD) {
      values += BATCH * stride;
      Batch<V, ROWS, BATCH, S> next;
      next.load(values, stride, diagonals - d - BATCH);
      now.multiply(row, cols, offset, diagonals - d, x, sum);
      now = next;
    } else {
      now.load(values, stride, diagonals - d);
      values += BATCH * stride;
      now.multiply(row, cols, offset, diagonals - d, x, sum);
    }
    offset.pass(BATCH);
  }
}
template <int ROWS, int BATCH, bool AHEAD, typename V, typename S>
__device__ __forceinline__ void sum_diagonals(unsigned row, unsigned cols, int diagonals, long long stride,
                                              const int* __restrict__ offset, const S* __restrict__ values,
                                              const V* __restrict__ x, V (&sum)[ROWS]) {
  sum_diagonals<ROWS, BATCH, AHEAD>(row, cols, diagonals, stride, Listed{offset}, values, x, sum);
}
