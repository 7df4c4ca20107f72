// 8 x 4 blocks as words of a column and a bitmap, and other entries in CSR; see
// spmvbench/formats/dense_blocks/bit_blocks.py.
#include "spmv.cuh"

constexpr int HEIGHT = 8;
constexpr int WIDTH = 4;
constexpr int MAP_SHIFT = 32;  // of the bitmap in a word
constexpr int LONG = 1024;     // entries outside of blocks, from which a row is cut into pieces of as many
constexpr int BIT_BLOCK = 128;
constexpr int REST_FLIGHT = 4;  // entries outside of blocks that a thread has in flight

// What is stored for an entry: its value, or its number in a table.
template <typename V>
__device__ __forceinline__ V decode(V stored, const V*) {
  return stored;
}
template <typename V>
__device__ __forceinline__ V decode(unsigned char code, const V* __restrict__ table) {
  return __ldg(table + code);
}
template <typename V>
__device__ __forceinline__ V decode(unsigned short code, const V* __restrict__ table) {
  return __ldg(table + code);
}

// The part of every STEP-th of the entries begin .. end, from `lane` on.
template <int STEP, typename V, typename C>
__device__ __forceinline__ V rest_sum(int begin, int end, int lane, const int* __restrict__ columns,
                                      const C* __restrict__ stored, const V* __restrict__ table,
                                      const V* __restrict__ x) {
  V sum = 0;
  for (int first = begin + lane; first < end; first += REST_FLIGHT * STEP) {
    int column[REST_FLIGHT];
    C code[REST_FLIGHT];
    V factor[REST_FLIGHT];
#pragma unroll
    for (int u = 0; u < REST_FLIGHT; ++u) {
      const int k = min(first + u * STEP, end - 1);
      column[u] = load_stream(columns + k);
      code[u] = load_stream(stored + k);
    }
#pragma unroll
    for (int u = 0; u < REST_FLIGHT; ++u) factor[u] = load_x(x, column[u]);
#pragma unroll
    for (int u = 0; u < REST_FLIGHT; ++u) {
      if (first + u * STEP < end) sum += decode(code[u], table) * factor[u];
    }
  }
  return sum;
}

// The lane's part of `blocks` blocks from `first` on, whose values begin at `value`: a block at a time.
template <typename V, typename C>
__device__ __forceinline__ V one_by_one(int first, int blocks, int value, const unsigned long long* __restrict__ words,
                                        const C* __restrict__ stored, const V* __restrict__ table,
                                        const V* __restrict__ x) {
  const int lane = lane_id();
  V sum = 0;
  for (int block = first; block < first + blocks; ++block) {
    const unsigned long long word = load_stream(words + block);
    const unsigned map = static_cast<unsigned>(word >> MAP_SHIFT);
    if (map >> lane & 1) {
      const int column = static_cast<int>(word & 0x7fffffffu) * WIDTH + lane % WIDTH;
      const C code = load_stream(stored + value + __popc(map & ((1u << lane) - 1)));
      sum += decode(code, table) * load_x(x, column);
    }
    value += __popc(map);
  }
  return sum;
}

// The same with FLIGHT blocks in flight. Words past the last are the last once more, without bits.
template <int FLIGHT, typename V, typename C>
__device__ __forceinline__ V in_flight(int first, int blocks, int value, const unsigned long long* __restrict__ words,
                                       const C* __restrict__ stored, const V* __restrict__ table,
                                       const V* __restrict__ x) {
  const int lane = lane_id();
  const unsigned below = (1u << lane) - 1;
  V sum = 0;
  for (int base = 0; base < blocks; base += FLIGHT) {
    unsigned long long word[FLIGHT];
    C code[FLIGHT];
    V factor[FLIGHT];
    bool has[FLIGHT];
#pragma unroll
    for (int u = 0; u < FLIGHT; ++u) word[u] = load_stream(words + first + min(base + u, blocks - 1));
#pragma unroll
    for (int u = 0; u < FLIGHT; ++u) {
      const unsigned map = base + u < blocks ? static_cast<unsigned>(word[u] >> MAP_SHIFT) : 0u;
      has[u] = map >> lane & 1;
      code[u] = has[u] ? load_stream(stored + value + __popc(map & below)) : C(0);
      factor[u] = has[u] ? load_x(x, static_cast<int>(word[u] & 0x7fffffffu) * WIDTH + lane % WIDTH) : V(0);
      value += __popc(map);
    }
#pragma unroll
    for (int u = 0; u < FLIGHT; ++u) {
      if (has[u]) sum += decode(code[u], table) * factor[u];
    }
  }
  return sum;
}

// A warp per item {block row, ~ it if other warps add to it; first block; 2 * blocks + 1 if it does the other entries of
// the block row, too; first value}, then one per piece {row, first entry} of a row with many other entries.
template <typename V, typename C, int FLIGHT>
__global__ void __launch_bounds__(BIT_BLOCK)
    bit_blocks_spmv(int items, int chunks, int rows, const int4* __restrict__ item,
                    const unsigned long long* __restrict__ words, const C* __restrict__ stored,
                    const V* __restrict__ table, const int* __restrict__ rest_ptr, const int* __restrict__ rest_columns,
                    const C* __restrict__ rest_stored, const int2* __restrict__ chunk, const V* __restrict__ x,
                    V* __restrict__ y) {
  const long long warp = global_thread() / WARP;
  const int lane = lane_id();
  if (warp >= items) {
    if (warp >= static_cast<long long>(items) + chunks) return;
    const int2 at = chunk[warp - items];
    const int end = min(at.y + LONG, rest_ptr[at.x + 1]);
    const V sum = group_sum<WARP>(rest_sum<WARP>(at.y, end, lane, rest_columns, rest_stored, table, x));
    if (lane == 0) atomicAdd(y + at.x, sum);
    return;
  }
  const int4 mine = item[warp];
  const bool shared = mine.x < 0;
  const long long row = static_cast<long long>(shared ? ~mine.x : mine.x) * HEIGHT + lane / WIDTH;
  const bool leads = mine.z % 2 && row < rows;
  const int begin = leads ? rest_ptr[row] : 0, end = leads ? rest_ptr[row + 1] : 0;
  V sum;
  if constexpr (FLIGHT == 1) {
    sum = one_by_one(mine.y, mine.z / 2, mine.w, words, stored, table, x);
  } else {
    sum = in_flight<FLIGHT>(mine.y, mine.z / 2, mine.w, words, stored, table, x);
  }
  if (end - begin <= LONG) sum += rest_sum<WIDTH>(begin, end, lane % WIDTH, rest_columns, rest_stored, table, x);
  __syncwarp();
  sum = group_sum<WIDTH>(sum);
  if (lane % WIDTH > 0 || row >= rows) return;
  if (shared) {
    atomicAdd(y + row, sum);
  } else {
    y[row] = sum;
  }
}
