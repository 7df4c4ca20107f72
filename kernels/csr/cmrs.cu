// Rows in strips that share a pointer. Every entry holds its row in the strip (Koza et al. 2014).
#include "spmv.cuh"

constexpr int BLOCK = 128;

// A warp per strip of H rows. Each lane adds up what it takes of every row in a place of its own: lanes never meet,
// whatever rows their entries are of. PACKED: the row in the strip is in the highest 4 bits of the column, else in
// `in_strip`.
template <typename V, typename I, int H, bool PACKED>
__global__ void __launch_bounds__(BLOCK)
    cmrs_spmv(int rows, int strips, const I* __restrict__ strip_ptr, const int* __restrict__ columns,
              const unsigned char* __restrict__ in_strip, const V* __restrict__ values, const V* __restrict__ x,
              V* __restrict__ y) {
  __shared__ V of_lane[BLOCK / WARP][H][WARP];
  const long long strip = global_thread() / WARP;
  if (strip >= strips) return;  // the whole warp
  const int lane = lane_id();
  V(&sums)[H][WARP] = of_lane[threadIdx.x / WARP];
#pragma unroll
  for (int row = 0; row < H; ++row) sums[row][lane] = V(0);
  const I end = strip_ptr[strip + 1];
#pragma unroll 4
  for (I k = strip_ptr[strip] + lane; k < end; k += WARP) {
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
  sum = group_sum<WARP / H>(sum);
  const long long at = strip * H + row;
  if (first == 0 && at < rows) y[at] = sum;
}
