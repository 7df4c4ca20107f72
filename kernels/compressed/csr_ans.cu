// CSR with column differences and values in an entropy code; see spmvbench/formats/compressed/csr_ans.py.
#include "spmv.cuh"

constexpr int SLOTS = 4096;    // of a table
constexpr int SLOT_BITS = 12;  // of a slot's number
constexpr int ENTRIES = 4;     // of a segment, two symbols each, three words in all
constexpr int THREADS = 512;

// The value of a literal of one or two words.
__device__ __forceinline__ double from_words(unsigned low, unsigned high, double) {
  return __longlong_as_double(static_cast<long long>(static_cast<unsigned long long>(high) << 32 | low));
}
__device__ __forceinline__ float from_words(unsigned low, unsigned, float) {
  return __int_as_float(static_cast<int>(low));
}

// The words of a warp's lanes: those that lanes load at the same point lie side by side.
struct WordStream {
  const unsigned* __restrict__ words;

  // The next word of a lane that wants one, 0 for others. All lanes arrive.
  __device__ __forceinline__ unsigned load(bool wants) {
    const unsigned asked = __ballot_sync(FULL_MASK, wants);
    const unsigned before = __popc(asked & ((1u << lane_id()) - 1));
    const unsigned word = wants ? load_stream(words + before) : 0u;
    words += __popc(asked);
    return word;
  }
};

// Slot `i` of a segment; i is known when compiling.
__device__ __forceinline__ int slot_of(const unsigned (&words)[3], int i) {
  const int bit = i * SLOT_BITS, word = bit / 32, inside = bit % 32;
  unsigned found = words[word] >> inside;
  if (inside + SLOT_BITS > 32) found |= words[word + 1] << (32 - inside);
  return static_cast<int>(found & (SLOTS - 1));
}

// A lane per line, which is a row or, if LISTED, what line_row says: ~ of a row of which it is a piece. Tables are in
// shared memory: what a slot stands for, and 256 times its number among those of its symbol plus their number less 1.
// Slots from *_escape on stand for a literal.
template <typename V, bool LISTED>
__global__ void __launch_bounds__(THREADS)
    csr_ans_spmv(int lines, int delta_count, int value_count, int delta_escape, int value_escape,
                 const unsigned* __restrict__ delta_table, const unsigned short* __restrict__ delta_slots,
                 const V* __restrict__ value_table, const unsigned short* __restrict__ value_slots,
                 const unsigned* __restrict__ words, const long long* __restrict__ group_ptr,
                 const unsigned short* __restrict__ lengths, const int* __restrict__ line_row, const V* __restrict__ x,
                 V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* const values = reinterpret_cast<V*>(dynamic_shared);
  unsigned* const deltas = reinterpret_cast<unsigned*>(values + value_count);
  unsigned short* const of_delta = reinterpret_cast<unsigned short*>(deltas + delta_count);
  unsigned short* const of_value = of_delta + delta_count;
  for (int i = threadIdx.x; i < delta_count; i += THREADS) {
    deltas[i] = delta_table[i];
    of_delta[i] = delta_slots[i];
  }
  for (int i = threadIdx.x; i < value_count; i += THREADS) {
    values[i] = value_table[i];
    of_value[i] = value_slots[i];
  }
  __syncthreads();

  const int lane = lane_id(), groups = (lines + WARP - 1) / WARP;
  const int step = static_cast<int>(gridDim.x) * (THREADS / WARP);
  for (int group = static_cast<int>(global_thread() / WARP); group < groups; group += step) {
    const int line = group * WARP + lane;
    const int length = line < lines ? load_stream(lengths + line) : 0;
    const int place = line < lines ? (LISTED ? load_stream(line_row + line) : line) : 0;
    const int row = place < 0 ? ~place : place;
    WordStream stream{words + group_ptr[group]};
    unsigned now[3];
#pragma unroll
    for (int w = 0; w < 3; ++w) now[w] = stream.load(length > 0);
    int column = row;
    unsigned long long d = 0, r = 1;
    V sum = 0;
    for (int t = 0; __any_sync(FULL_MASK, t < length); t += ENTRIES) {
      const bool live = t < length, goes_on = t + ENTRIES < length;
      int delta[ENTRIES];
      V value[ENTRIES];
      unsigned code[2 * ENTRIES];
      unsigned escaped = 0;  // bit i: symbol i is a literal
#pragma unroll
      for (int k = 0; k < ENTRIES; ++k) {
        const int of_column = live ? slot_of(now, 2 * k) : 0;
        const int slot = live ? slot_of(now, 2 * k + 1) : 0;
        delta[k] = static_cast<int>(deltas[of_column]);
        code[2 * k] = of_delta[of_column];
        value[k] = values[slot];
        code[2 * k + 1] = of_value[slot];
        if (t + k < length) escaped |= (of_column >= delta_escape) << (2 * k) | (slot >= value_escape) << (2 * k + 1);
      }
      if (__any_sync(FULL_MASK, escaped != 0)) {
#pragma unroll
        for (int k = 0; k < ENTRIES; ++k) {
          const bool no_column = escaped >> (2 * k) & 1, no_value = escaped >> (2 * k + 1) & 1;
          const unsigned word = stream.load(no_column);
          if (no_column) delta[k] = static_cast<int>(word);
          const unsigned low = stream.load(no_value);
          const unsigned high = sizeof(V) > 4 ? stream.load(no_value) : 0u;
          if (no_value) value[k] = from_words(low, high, V(0));
        }
      }
      V factor[ENTRIES];
#pragma unroll
      for (int k = 0; k < ENTRIES; ++k) {
        if (t + k < length) {
          column += delta[k];
          factor[k] = load_x(x, column);
        }
      }
      now[0] = stream.load(goes_on);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        unsigned count = 1, digits = 0;  // of the four symbols: at most 2^32 slots, so that the last is apart
#pragma unroll
        for (int i = 0; i < ENTRIES; ++i) {
          const unsigned of_symbol = code[half * ENTRIES + i];
          const unsigned slots = (of_symbol & 255) + 1, digit = of_symbol >> 8;
          if (i < ENTRIES - 1) {
            digits = digits * slots + digit;
            count *= slots;
          } else {
            const unsigned long long all = static_cast<unsigned long long>(count) * slots;
            d = d * all + static_cast<unsigned long long>(digits) * slots + digit;
            r *= all;
          }
        }
        const bool full = r >> 32 != 0;
        const unsigned word = stream.load(goes_on && !full);
        now[1 + half] = full ? static_cast<unsigned>(d) : word;
        if (full) {
          d >>= 32;
          r >>= 32;
        }
      }
#pragma unroll
      for (int k = 0; k < ENTRIES; ++k) {
        if (t + k < length) sum += value[k] * factor[k];
      }
    }
    if (line >= lines) continue;
    if (place < 0) {
      atomicAdd(y + row, sum);
    } else {
      y[row] = sum;
    }
  }
}
