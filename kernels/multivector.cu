// Vectors packed into rows of N values, and back. `rows`: elements of a vector.
#include "spmv.cuh"

constexpr int TILE_ROWS = 64;     // of a block
constexpr int TILE_VECTORS = 16;  // at most
constexpr int TILE_THREADS = 256;

// Of rows of k values, from that at `whole` on.
template <typename V, int N>
__global__ void pack_rows(const V* __restrict__ whole, V* __restrict__ part, long long rows, long long k) {
  const long long i = global_thread();
  if (i < rows * N) part[i] = load_stream(whole + i / N * k + i % N);
}

template <typename V, int N>
__global__ void unpack_rows(V* __restrict__ whole, const V* __restrict__ part, long long rows, long long k) {
  const long long i = global_thread();
  if (i < rows * N) whole[i / N * k + i % N] = load_stream(part + i);
}

// One vector after the other: some rows and vectors of a block go through shared memory, so that neighbouring threads
// read and write neighbouring values.
template <int N>
struct Tile {
  static constexpr int VECTORS = N < TILE_VECTORS ? N : TILE_VECTORS;

  // visit(place in memory, row and vector in the tile), as values lie in columns or in rows.
  template <bool BY_COLUMN, typename Visit>
  static __device__ __forceinline__ void each(long long rows, Visit visit) {
    const long long first = static_cast<long long>(blockIdx.x) * TILE_ROWS;
    const int vector = blockIdx.y * VECTORS;
    for (int i = threadIdx.x; i < VECTORS * TILE_ROWS; i += TILE_THREADS) {
      const int row = BY_COLUMN ? i % TILE_ROWS : i / VECTORS, j = BY_COLUMN ? i / TILE_ROWS : i % VECTORS;
      if (first + row >= rows || vector + j >= N) continue;
      visit(BY_COLUMN ? (vector + j) * rows + first + row : (first + row) * N + vector + j, row, j);
    }
  }
};

template <typename V, int N>
__global__ void __launch_bounds__(TILE_THREADS)
    pack_columns(const V* __restrict__ whole, V* __restrict__ part, long long rows) {
  __shared__ V tile[Tile<N>::VECTORS][TILE_ROWS + 1];
  Tile<N>::template each<true>(rows, [&](long long at, int row, int j) { tile[j][row] = load_stream(whole + at); });
  __syncthreads();
  Tile<N>::template each<false>(rows, [&](long long at, int row, int j) { part[at] = tile[j][row]; });
}

template <typename V, int N>
__global__ void __launch_bounds__(TILE_THREADS)
    unpack_columns(V* __restrict__ whole, const V* __restrict__ part, long long rows) {
  __shared__ V tile[Tile<N>::VECTORS][TILE_ROWS + 1];
  Tile<N>::template each<false>(rows, [&](long long at, int row, int j) { tile[j][row] = load_stream(part + at); });
  __syncthreads();
  Tile<N>::template each<true>(rows, [&](long long at, int row, int j) { whole[at] = tile[j][row]; });
}
