// What becomes of the sums of a product's rows if they are not stored as y. A kernel whose y is of a type Y takes a
// pointer, or one of these; `put(y + row, sum)` hands the sum of a row over, once. See spmvbench/formats/epilogue.py.
//
// Primal-dual hybrid gradient with diagonal steps (Pock and Chambolle, ICCV 2011) for min c^T x, A x = b, x >= 0: with
// the steps t and s, x' = max(0, x - t (c - A^T y)) and y' = y + s (b - A (2 x' - x)).
#pragma once
#include "spmv.cuh"

// The place of a row for the thread that stores its sum: before the row's entries are loaded, for an epilogue loads, too.
// Another thread loads nothing: the owner of the row may store to it meanwhile.
template <typename V>
__device__ __forceinline__ V* place_of(V* y, long long row, bool) {
  return y + row;
}
template <typename Y>
__device__ __forceinline__ auto place_of(Y y, long long row, bool stores) {
  return stores ? y + row : decltype(y + row){};
}

// The place of a column, from g = A^T y. Its values are loaded before the sum is known.
template <typename V>
struct PrimalPlace {
  V c, step, old;
  V* x;
};
template <typename V, typename S>
struct Primal {
  const V* c;
  const S* step;
  V* x;

  __device__ __forceinline__ PrimalPlace<V> operator+(long long i) const {
    return {load_stream(c + i), static_cast<V>(load_stream(step + i)), x[i], x + i};
  }
};
template <bool ADD, typename V, typename Sum>
__device__ __forceinline__ void put(PrimalPlace<V> to, Sum g) {
  const V moved = to.old - to.step * (to.c - g);
  *to.x = moved < V(0) ? V(0) : moved;
}

// The place of a row, from q = A x'. A (2 x' - x) is 2 q less q of the iteration before, which `ahead` holds as
// y + s (b + q): the product reads x' itself, and y and q are not read.
template <typename V>
struct DualPlace {
  V b, step, old;
  V* ahead;
  V* y;
};
template <typename V, typename S>
struct Dual {
  const V* b;
  const S* step;
  V* ahead;
  V* y;

  __device__ __forceinline__ DualPlace<V> operator+(long long i) const {
    return {load_stream(b + i), static_cast<V>(load_stream(step + i)), ahead[i], ahead + i, y + i};
  }
};
template <bool ADD, typename V, typename Sum>
__device__ __forceinline__ void put(DualPlace<V> to, Sum q) {
  const V moved = to.old - V(2) * to.step * q;
  *to.y = moved;
  *to.ahead = moved + to.step * (to.b + q);
}
