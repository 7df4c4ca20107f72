// Blocked sliced ELLPACK: dense tiles in slices of block rows, see spmvbench/formats/dense_blocks/blocks.py.
#include "spmv.cuh"
#include "together.cuh"

// Whether X is read by OwnX, and whether registers are for 1,024 threads of a multiprocessor, as a tile's loads need that
// are all in flight: on an H200 up to 1.7 times as fast for tiles of several columns and up to 64 bytes of a row of X,
// and slower for other tiles (stokes:4 70 us in place of 62).
template <typename V, int R, int C>
constexpr bool OWN = C > 1 ? sizeof(V) <= 64 : R == 1;
template <typename V, int R, int C>
constexpr bool LIMITED = C > 1 && OWN<V, R, C> && sizeof(V) > 8;

// Block (ACROSS, THREADS): THREADS threads share a block row, each in a warp of its own, and meet in shared memory. A
// thread takes every THREADS-th tile, TILES of them at a time, their columns loaded one round before. R x C: a tile.
// HEIGHT: block rows of a slice. LOAD: values that are, and are loaded, together. ADD: y += A x.
template <typename V, typename I, int R, int C, int HEIGHT, int LOAD, bool SORTED, int ACROSS, int THREADS, int TILES,
          bool ADD, typename S = V>
__global__ void __launch_bounds__((LIMITED<V, R, C>) ? ACROSS * THREADS : 0,
                                  (LIMITED<V, R, C>) ? 1024 / (ACROSS * THREADS) : 0)
    block_sell_spmv(int block_rows, int rows, int cols, const I* __restrict__ slice_ptr,
                    const int* __restrict__ block_col, const S* __restrict__ values, const int* __restrict__ perm,
                    const V* __restrict__ x, V* __restrict__ y) {
  constexpr int SIZE = R * C;
  constexpr int WHOLE = SIZE / LOAD * LOAD;
  const long long place = static_cast<long long>(blockIdx.x) * (ACROSS / SHARING<V>)+row_thread<V>();
  const OwnX<V> own_x{x};
  const int sorted = SORTED && place < block_rows ? perm[place] : 0;  // a wait less at the end
  V sum[R] = {};
  if (place < block_rows) {
    const int lane = static_cast<int>(place % HEIGHT);
    const I end = slice_ptr[place / HEIGHT + 1];
    long long step = slice_ptr[place / HEIGHT] + static_cast<int>(thread_of_row<V>());
    int next[TILES];
    const auto load_columns = [&]() {
#pragma unroll
      for (int t = 0; t < TILES; ++t) {
        const long long of_tile = step + t * THREADS;
        next[t] = of_tile < end ? load_stream(block_col + of_tile * HEIGHT + lane) : -1;
      }
    };
    load_columns();
    while (next[0] >= 0) {  // a block row's tiles come first, then only -1
      int column[TILES];
      S value[TILES][SIZE];
#pragma unroll
      for (int t = 0; t < TILES; ++t) {
        column[t] = next[t];
        if (t > 0 && column[t] < 0) continue;
        const S* tile = values + (step + t * THREADS) * (SIZE * HEIGHT);
#pragma unroll
        for (int e = 0; e < WHOLE; e += LOAD) load_values<LOAD>(tile + e * HEIGHT + lane * LOAD, value[t] + e);
#pragma unroll
        for (int e = WHOLE; e < SIZE; ++e) load_values<1>(tile + e * HEIGHT + lane, value[t] + e);
      }
      step += TILES * THREADS;
      load_columns();
#pragma unroll
      for (int t = 0; t < TILES; ++t) {
        if (t > 0 && column[t] < 0) continue;
#pragma unroll
        for (int q = 0; q < C; ++q) {
          const int at = column[t] * C + q;
          // The last tile of a row may reach over the edge; its values there are zeros.
          const int inside = C == 1 || at < cols ? at : cols - 1;
          const V factor = OWN<V, R, C> ? own_x[inside] : load_x(x, inside);
#pragma unroll
          for (int p = 0; p < R; ++p) sum[p] += value[t][p * C + q] * factor;
        }
      }
    }
  }
  if constexpr (THREADS > 1) {
    __shared__ V partial[THREADS][R][ACROSS / SHARING<V>];
#pragma unroll
    for (int p = 0; p < R; ++p) put<false>(&partial[thread_of_row<V>()][p][row_thread<V>()], sum[p]);
    __syncthreads();
    if (thread_of_row<V>() > 0) return;
#pragma unroll
    for (int p = 0; p < R; ++p) {
      for (int t = 1; t < THREADS; ++t) sum[p] += own(&partial[t][p][row_thread<V>()]);
    }
  }
  if (place >= block_rows) return;
  const int first = (SORTED ? sorted : static_cast<int>(place)) * R;
#pragma unroll
  for (int p = 0; p < R; ++p) {
    if (first + p < rows) put<ADD>(y + first + p, sum[p]);
  }
}
