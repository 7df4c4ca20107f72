// Rows in strips that share a pointer. Every entry holds its row in the strip (Koza et al. 2014).
#include "spmv.cuh"

constexpr int BLOCK = 128;

// The sum of row lane_id() / (WARP / H) of a strip of up to H rows, in the first lane of the row's WARP / H. Each lane adds
// up what it takes of every row in a place of its own: lanes never meet, whatever rows their entries are of. PACKED: the
// row in the strip is in the highest 4 bits of the column, else in `in_strip`.
template <typename V, typename I, int H, bool PACKED, typename S>
__device__ __forceinline__ V strip_sum(I begin, I end, const int* __restrict__ columns,
                                       const unsigned char* __restrict__ in_strip, const S* __restrict__ values,
                                       const V* __restrict__ x) {
  __shared__ V of_lane[BLOCK / WARP][H][WARP];
  const int lane = lane_id();
  V(&sums)[H][WARP] = of_lane[threadIdx.x / WARP];
#pragma unroll
  for (int row = 0; row < H; ++row) sums[row][lane] = V(0);
#pragma unroll 4
  for (I k = begin + lane; k < end; k += WARP) {
    const unsigned column = static_cast<unsigned>(load_stream(columns + k));
    const int row = PACKED ? static_cast<int>(column >> 28) : load_stream(in_strip + k);
    sums[row][lane] += load_stream(values + k) * load_x(x, static_cast<int>(PACKED ? column & 0x0fffffffu : column));
  }
  __syncwarp();
  // WARP / H lanes add up each row: H places each, beginning at different ones, so that banks do not collide.
  const int row = lane / (WARP / H);
  const int first = lane % (WARP / H) * H;
  V sum = 0;
#pragma unroll
  for (int i = 0; i < H; ++i) sum += sums[row][first + (i + row) % H];
  return group_sum<WARP / H>(sum);
}

// A warp per strip of H rows.
template <typename V, typename I, int H, bool PACKED, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    cmrs_spmv(int rows, int strips, const I* __restrict__ strip_ptr, const int* __restrict__ columns,
              const unsigned char* __restrict__ in_strip, const S* __restrict__ values, const V* __restrict__ x,
              V* __restrict__ y) {
  const long long strip = global_thread() / WARP;
  if (strip >= strips) return;  // the whole warp
  const V sum = strip_sum<V, I, H, PACKED>(strip_ptr[strip], strip_ptr[strip + 1], columns, in_strip, values, x);
  const long long at = strip * H + lane_id() / (WARP / H);
  if (lane_id() % (WARP / H) == 0 && at < rows) y[at] = sum;
}

// A warp per strip of rows first_row[s] to first_row[s + 1], up to H. Strips of one row may have its parts: the next or
// the one before then begins with the same row, which is zero in y.
template <typename V, typename I, int H, bool PACKED, typename S = V>
__global__ void __launch_bounds__(BLOCK)
    amf_spmv(int strips, const int* __restrict__ first_row, const I* __restrict__ strip_ptr,
             const int* __restrict__ columns, const unsigned char* __restrict__ in_strip, const S* __restrict__ values,
             const V* __restrict__ x, V* __restrict__ y) {
  const long long strip = global_thread() / WARP;
  if (strip >= strips) return;  // the whole warp
  const int first = first_row[strip], end = first_row[strip + 1];
  const bool part = end == first || (strip > 0 && first_row[strip - 1] == first);
  const V sum = strip_sum<V, I, H, PACKED>(strip_ptr[strip], strip_ptr[strip + 1], columns, in_strip, values, x);
  const int row = first + lane_id() / (WARP / H);
  if (lane_id() % (WARP / H)) return;
  if (part) {
    if (row == first) atomicAdd(y + row, sum);
  } else if (row < end) {
    y[row] = sum;
  }
}
