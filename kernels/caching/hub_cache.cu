// CSR5 in two parts: columns with many entries, whose x lies in shared memory, and all others; see
// spmvbench/formats/caching/hub_cache.py.
#include "csr5.cuh"
#include "spmv.cuh"

// x in shared memory, read as load_x reads it elsewhere.
template <typename V>
struct Cached {
  const V* x;
};

template <typename V>
__device__ __forceinline__ V load_x(Cached<V> cached, int column) {
  return cached.x[column];
}

// y = 0, and x in the order of the columns, in one launch.
template <typename V>
__global__ void prepare(int n, const int* __restrict__ order, const V* __restrict__ x, V* __restrict__ ordered, int rows,
                        V* __restrict__ y) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = global_thread(); i < n; i += stride) ordered[i] = __ldg(x + load_stream(order + i));
  for (long long i = global_thread(); i < rows; i += stride) y[i] = V(0);
}

// The tiles of a part, and the rows of its tail, that are a warp's: from `first` on, every `warps`-th. AHEAD: the next tile
// is loaded before this one is summed.
template <bool AHEAD, int SIGMA, int BATCH, typename V, typename I, typename C, typename X>
__device__ __forceinline__ void add_tiles(long long first, long long warps, int rows, int tiles, int tail_row,
                                          const I* __restrict__ row_ptr, const Tiles<V, C>& a, X x,
                                          V* __restrict__ y) {
  long long w = first;
  if (AHEAD) {
    TileHead<V, C, SIGMA, BATCH> coming;
    if (w < tiles) coming.load(a, static_cast<int>(w));
    for (; w < tiles; w += warps) {
      TileHead<V, C, SIGMA, BATCH> now = coming;
      if (w + warps < tiles) coming.load(a, static_cast<int>(w + warps));
      sum_tile<true, V, SIGMA, BATCH>(
          a, static_cast<int>(w), now, x, y, [=](int row, V sum) { atomicAdd(y + row, sum); },
          [=](int row, V sum, bool) { atomicAdd(y + row, sum); });
    }
  }
  for (; w < tiles + rows - tail_row; w += warps) {
    csr5_share<true, SIGMA, BATCH>(w, rows, tiles, tail_row, row_ptr, a, x, y);
  }
}

// A block or two a multiprocessor, its warps half at one part and half at the other, so that loads which wait for L2 and
// loads which stream are under way at the same time. x: in the order of the columns, `hubs` of them cached. y is zero.
template <typename V, typename H, typename R, int SIGMA, int BATCH, bool AHEAD>
__global__ void __launch_bounds__(1024)
    hub_cache(int rows, int hubs, int hub_tiles, int hub_tail, const H* __restrict__ hub_row_ptr,
              const unsigned* __restrict__ hub_tile_ptr, const unsigned* __restrict__ hub_desc,
              const int* __restrict__ hub_empty_ptr, const int* __restrict__ hub_empty_offset,
              const unsigned short* __restrict__ hub_columns, const V* __restrict__ hub_values, int rest_tiles,
              int rest_tail, const R* __restrict__ rest_row_ptr, const unsigned* __restrict__ rest_tile_ptr,
              const unsigned* __restrict__ rest_desc, const int* __restrict__ rest_empty_ptr,
              const int* __restrict__ rest_empty_offset, const int* __restrict__ rest_columns,
              const V* __restrict__ rest_values, const V* __restrict__ x, V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* const cache = reinterpret_cast<V*>(dynamic_shared);
  for (int i = threadIdx.x; i < hubs; i += blockDim.x) cache[i] = __ldg(x + i);
  __syncthreads();

  const Tiles<V, unsigned short> hub{hub_tile_ptr, hub_desc, hub_empty_ptr, hub_empty_offset, hub_columns, hub_values};
  const Tiles<V> rest{rest_tile_ptr, rest_desc, rest_empty_ptr, rest_empty_offset, rest_columns, rest_values};
  const long long first = static_cast<long long>(threadIdx.x / WARP) * gridDim.x + blockIdx.x;
  const long long warps = static_cast<long long>(gridDim.x) * (blockDim.x / WARP);
  const int odd = threadIdx.x / WARP % 2;
  for (int pass = 0; pass < 2; ++pass) {
    if (pass == odd) {
      add_tiles<AHEAD, SIGMA, BATCH>(first, warps, rows, hub_tiles, hub_tail, hub_row_ptr, hub, Cached<V>{cache}, y);
    } else {
      add_tiles<AHEAD, SIGMA, BATCH>(first, warps, rows, rest_tiles, rest_tail, rest_row_ptr, rest, x, y);
    }
  }
}
