// Sliced ELLPACK of low slices that warps or blocks walk place by place (PETSc's SELL on CUDA). See
// spmvbench/formats/ellpack/petsc.py.
#include "sell.cuh"

constexpr int HALF_WARP = 16;  // places; slices are multiples of them

// Sum over the places `first`, first + STEP, ... before `end`.
template <int STEP, typename V, typename P, typename S>
__device__ __forceinline__ V places_sum(P first, P end, const int* __restrict__ columns, const S* __restrict__ values,
                                        const V* __restrict__ x) {
  const int count = first < end ? static_cast<int>((end - first + STEP - 1) / STEP) : 0;
  columns += first;
  const auto at = [](int i) { return static_cast<long long>(i) * STEP; };
  return slot_sum<1>(0, count, values + first, x, at, [=](int i) { return load_stream(columns + at(i)); });
}

// Sum over lanes a multiple of HEIGHT apart: in the first HEIGHT lanes, those of the rows of a slice.
template <int HEIGHT, int LANES, typename V>
__device__ __forceinline__ V columns_sum(V sum) {
#pragma unroll
  for (int offset = LANES / 2; offset >= HEIGHT; offset /= 2) {
    sum += __shfl_down_sync(FULL_MASK, sum, offset, LANES);
  }
  return sum;
}

// The sums of a slice's rows over WARPS warps, in the first HEIGHT threads. Every thread must call it.
template <int HEIGHT, int WARPS, typename V>
__device__ __forceinline__ V slice_sum(V sum) {
  __shared__ V of_warp[HEIGHT][WARPS];
  __shared__ V of_row[HEIGHT];
  const int t = threadIdx.y * WARP + threadIdx.x;
  sum = columns_sum<HEIGHT, WARP>(sum);
  if (threadIdx.x < HEIGHT) of_warp[threadIdx.x][threadIdx.y] = sum;
  __syncthreads();
  sum = t / WARPS < HEIGHT ? of_warp[t / WARPS][t % WARPS] : V(0);
  sum = group_sum<WARPS>(sum);
  if (t % WARPS == 0 && t / WARPS < HEIGHT) of_row[t / WARPS] = sum;
  __syncthreads();
  return t < HEIGHT ? of_row[t] : V(0);
}

// A warp per slice, WARPS in a block.
template <typename V, typename P, int HEIGHT, int WARPS, bool ADD, typename S = V>
__global__ void __launch_bounds__(WARP* WARPS)
    petsc_warp(int rows, int slices, const P* __restrict__ slice_ptr, const int* __restrict__ columns,
               const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long slice = static_cast<long long>(blockIdx.x) * WARPS + threadIdx.y;
  if (slice >= slices) return;  // the whole warp
  const P first = slice_ptr[slice] + static_cast<P>(threadIdx.x);
  const V sum = columns_sum<HEIGHT, WARP>(places_sum<WARP>(first, slice_ptr[slice + 1], columns, values, x));
  const long long row = slice * HEIGHT + threadIdx.x;
  if (threadIdx.x < HEIGHT && row < rows) put<ADD>(y + row, sum);
}

// A block of WARPS warps per slice.
template <typename V, typename P, int HEIGHT, int WARPS, bool ADD, typename S = V>
__global__ void __launch_bounds__(WARP* WARPS)
    petsc_block(int rows, const P* __restrict__ slice_ptr, const int* __restrict__ columns,
                const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const int t = threadIdx.y * WARP + threadIdx.x;
  const long long slice = blockIdx.x;
  V sum = places_sum<WARP * WARPS>(slice_ptr[slice] + static_cast<P>(t), slice_ptr[slice + 1], columns, values, x);
  sum = slice_sum<HEIGHT, WARPS>(sum);
  const long long row = slice * HEIGHT + t;
  if (t < HEIGHT && row < rows) put<ADD>(y + row, sum);
}

// Chunks of as many places as the block has threads, `per_block` of them to a block. chunk_slice: the slice of each
// chunk's first place. Places of one slice are added up over its chunks. In a chunk of several, half warps of one slice
// are added up, for no half warp has places of two. y holds what is added to.
template <typename V, typename P, int HEIGHT, int WARPS, typename S = V>
__global__ void __launch_bounds__(WARP* WARPS)
    petsc_chunk(int rows, int slices, int chunks, int per_block, const int* __restrict__ chunk_slice,
                const P* __restrict__ slice_ptr, const int* __restrict__ columns, const S* __restrict__ values,
                const V* __restrict__ x, V* __restrict__ y) {
  constexpr int CHUNK = WARP * WARPS, HALVES = 2 * WARPS;
  static_assert(HEIGHT <= HALF_WARP, "a half warp has whole columns of a slice");
  __shared__ V of_half[HALVES][HALF_WARP];
  __shared__ int owner[HALVES];
  const int t = threadIdx.y * WARP + threadIdx.x;
  const int half = t / HALF_WARP, lane = t % HALF_WARP;
  const long long total = slice_ptr[slices];
  const int begin = blockIdx.x * per_block;
  const int end = begin + per_block < chunks ? begin + per_block : chunks;
  V sum = 0;
  for (int chunk = begin; chunk < end; ++chunk) {
    int slice = chunk_slice[chunk];
    const long long first = static_cast<long long>(chunk) * CHUNK, place = first + t;
    const long long slice_end = slice_ptr[slice + 1];
    const int column = place < total ? load_stream(columns + place) : -1;
    const V product = column >= 0 ? load_stream(values + place) * load_x(x, column) : V(0);
    if (first + CHUNK <= slice_end) {  // of one slice
      sum += product;
      if (chunk + 1 < end && first + 2 * CHUNK <= slice_end) continue;
      sum = slice_sum<HEIGHT, WARPS>(sum);
      const long long row = static_cast<long long>(slice) * HEIGHT + t;
      if (t < HEIGHT && row < rows) atomicAdd(y + row, sum);
      sum = 0;
      __syncthreads();
      continue;
    }
    while (place < total && place >= slice_ptr[slice + 1]) ++slice;
    of_half[half][lane] = columns_sum<HEIGHT, HALF_WARP>(product);
    if (lane == 0) owner[half] = place < total ? slice : -1;
    __syncthreads();
#pragma unroll
    for (int offset = 1; offset < HALVES; offset *= 2) {
      const bool joins = half + offset < HALVES && owner[half + offset] == owner[half];
      const V more = joins ? of_half[half + offset][lane] : V(0);
      __syncthreads();
      of_half[half][lane] += more;
      __syncthreads();
    }
    const long long row = static_cast<long long>(slice) * HEIGHT + lane;
    const bool heads = half == 0 || owner[half - 1] != owner[half];
    if (place < total && heads && lane < HEIGHT && row < rows) atomicAdd(y + row, of_half[half][lane]);
    __syncthreads();
  }
}
