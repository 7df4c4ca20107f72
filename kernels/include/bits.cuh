// Fields of any width out of streams of 32-bit words; see spmvbench/formats/compressed/bits.py.
#pragma once

// A thread's stream, whose next word is `step` further. The AHEAD words after those in the window are always in flight.
// MOST_FIRST: a stream's first bit is its word's highest; else the lowest.
template <bool MOST_FIRST, int AHEAD = 1>
struct BitReader {
  const unsigned* __restrict__ words;
  int left;  // words that are not in flight yet
  int step;
  unsigned long long window;
  unsigned coming[AHEAD];
  int bits;

  __device__ __forceinline__ BitReader(const unsigned* __restrict__ words, int count, int step)
      : words(words), left(count), step(step), window(0), bits(0) {
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) coming[i] = next();
  }

  __device__ __forceinline__ unsigned next() {
    const unsigned word = left > 0 ? __ldcs(words) : 0u;
    words += step;
    --left;
    return word;
  }

  // The next `width` bits, 0 to 32 of them.
  __device__ __forceinline__ unsigned take(int width) {
    if (bits < width) {
      if (MOST_FIRST) {
        window = window << 32 | coming[0];
      } else {
        window |= static_cast<unsigned long long>(coming[0]) << bits;
      }
      bits += 32;
#pragma unroll
      for (int i = 1; i < AHEAD; ++i) coming[i - 1] = coming[i];
      coming[AHEAD - 1] = next();
    }
    bits -= width;
    const unsigned long long mask = (1ull << width) - 1;
    if (MOST_FIRST) return static_cast<unsigned>(window >> bits & mask);
    const unsigned field = static_cast<unsigned>(window & mask);
    window >>= width;
    return field;
  }
};
