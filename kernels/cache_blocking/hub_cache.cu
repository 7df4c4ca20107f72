// CSR5 over columns in the order of their lengths, the x of the first of them in shared memory; see
// spmvbench/formats/cache_blocking/hub_cache.py.
#include "csr5.cuh"
#include "spmv.cuh"

constexpr int THREADS = 1024;  // of a block

// x by place: up to `cached` from shared memory, all others from where it is.
template <typename V>
struct Hubs {
  const V* cache;
  const V* x;
  int cached;
};

template <typename V>
__device__ __forceinline__ V load_x(Hubs<V> hubs, int place) {
  return place < hubs.cached ? hubs.cache[place] : __ldg(hubs.x + place);
}

// y = 0, and x in the order of the columns, in one launch.
template <typename V>
__global__ void prepare(int n, const int* __restrict__ order, const V* __restrict__ x, V* __restrict__ ordered,
                        int rows, V* __restrict__ y) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = global_thread(); i < n; i += stride) ordered[i] = __ldg(x + load_stream(order + i));
  for (long long i = global_thread(); i < rows; i += stride) y[i] = V(0);
}

// Blocks that stay, so that each fills its cache once; their warps take tiles in turn. y is zero. No second block has
// room next to one's cache: without the 1 the compiler leaves registers for it, and gathers wait for each other.
template <typename V, typename I, int SIGMA, int BATCH, int CUT, typename S = V>
__global__ void __launch_bounds__(THREADS, 1)
    hub_cache(int rows, int cached, int tiles, int first_row, const I* __restrict__ row_ptr,
              const unsigned* __restrict__ tile_ptr, const unsigned* __restrict__ tile_desc,
              const int* __restrict__ empty_ptr, const int* __restrict__ empty_offset, const int* __restrict__ col_idx,
              const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y, V* __restrict__ carry) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* const cache = reinterpret_cast<V*>(dynamic_shared);
  for (int i = threadIdx.x; i < cached; i += blockDim.x) cache[i] = __ldg(x + i);
  __syncthreads();

  const Tiles<V, int, const S*> a{tile_ptr, tile_desc, empty_ptr, empty_offset, col_idx, values};
  const Hubs<V> hubs{cache, x, cached};
  const long long warps = static_cast<long long>(gridDim.x) * (blockDim.x / WARP);
  long long w = static_cast<long long>(threadIdx.x / WARP) * gridDim.x + blockIdx.x;
  for (; w < tiles + rows - first_row; w += warps) {
    csr5_share<CUT, false, SIGMA, BATCH>(w, rows, tiles, first_row, row_ptr, a, hubs, y, carry);
  }
}
