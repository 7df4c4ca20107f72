// Rows in blocks whose y is in shared memory: a block sweeps the columns in order, so that neighbouring lanes read
// neighbouring places of x, and adds its products up there; see spmvbench/formats/cache_blocking/column_sweep.py.
#include "column_sweep.cuh"
#include "spmv.cuh"

// y = 0 at the rows that several blocks share.
template <typename V>
__global__ void zero_continued(int blocks, const unsigned* __restrict__ row_start, V* __restrict__ y) {
  const long long i = global_thread();
  if (i >= blocks) return;
  const unsigned start = row_start[i];
  if (start & CONTINUED && (i == 0 || row_start[i - 1] != start)) y[start & ~CONTINUED] = V(0);
}

// CHUNKS chunks of a warp, in flight: a place is the entry's row in the block and the low half of its
// column, the high half is the chunk's.
template <typename S, int CHUNKS>
struct Chunks {
  unsigned place[CHUNKS];
  unsigned panel[CHUNKS];
  S value[CHUNKS];

  __device__ __forceinline__ void load(int first, int end, int stride, const unsigned short* __restrict__ panels,
                                       const unsigned* __restrict__ places, const S* __restrict__ values) {
#pragma unroll
    for (int u = 0; u < CHUNKS; ++u) {
      const int chunk = first + u * stride;
      place[u] = PADDING << 16;
      panel[u] = 0;
      value[u] = S(0);
      if (chunk < end) {
        const long long at = static_cast<long long>(chunk) * WARP + lane_id();
        place[u] = load_stream(places + at);
        value[u] = load_stream(values + at);
        panel[u] = __ldg(panels + chunk);
      }
    }
  }
};

// `parts` thread blocks share a row block, each a stretch of its columns; ADD: they add what they have to y.
template <typename V, int CHUNKS, bool ADD, typename S = V>
__global__ void __launch_bounds__(THREADS)
    column_sweep(int parts, const unsigned* __restrict__ row_start, const int* __restrict__ chunk_start,
                 const unsigned short* __restrict__ panels, const unsigned* __restrict__ places,
                 const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* const sums = reinterpret_cast<V*>(dynamic_shared);
  const int block = blockIdx.x / parts;
  const int part = blockIdx.x % parts;
  const unsigned start = row_start[block];
  const unsigned next = row_start[block + 1];
  const int first_row = start & ~CONTINUED;
  const int rows = static_cast<int>(next & ~CONTINUED) - first_row + (next & CONTINUED ? 1 : 0);
  for (int i = threadIdx.x; i < rows; i += blockDim.x) sums[i] = V(0);
  __syncthreads();

  const long long all = chunk_start[block + 1] - chunk_start[block];
  const int begin = chunk_start[block] + static_cast<int>(all * part / parts);
  const int end = chunk_start[block] + static_cast<int>(all * (part + 1) / parts);
  const int warps = blockDim.x / WARP;
  int chunk = begin + threadIdx.x / WARP;
  Chunks<S, CHUNKS> coming;
  coming.load(chunk, end, warps, panels, places, values);
  for (; chunk < end; chunk += CHUNKS * warps) {
    const Chunks<S, CHUNKS> now = coming;
    coming.load(chunk + CHUNKS * warps, end, warps, panels, places, values);
    V product[CHUNKS];
#pragma unroll
    for (int u = 0; u < CHUNKS; ++u) {
      const int column = static_cast<int>(now.panel[u] << 16 | (now.place[u] & 0xffffu));
      product[u] = now.place[u] >> 16 == PADDING ? V(0) : now.value[u] * load_x(x, column);
    }
#pragma unroll
    for (int u = 0; u < CHUNKS; ++u) {
      const unsigned row = now.place[u] >> 16;
      if (row != PADDING) atomicAdd(sums + row, product[u]);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < rows; i += blockDim.x) {
    const bool shared = ADD || (i == 0 && start & CONTINUED) || (i == rows - 1 && next & CONTINUED);
    if (shared) {
      atomicAdd(y + first_row + i, sums[i]);
    } else {
      y[first_row + i] = sums[i];
    }
  }
}
