// Fields of any width out of streams of 32-bit words; see spmvbench/formats/packed/bits.py.
#pragma once

// A thread's stream, whose next word lies `step` further. The word behind those in the window is always under way.
// MOST_FIRST: a stream's first bit is its word's highest; else the lowest.
template <bool MOST_FIRST>
struct BitReader {
  const unsigned* __restrict__ words;
  const unsigned* __restrict__ end;
  long long step;
  unsigned long long window;
  unsigned coming;
  int bits;

  __device__ __forceinline__ BitReader(const unsigned* __restrict__ words, const unsigned* __restrict__ end,
                                       long long step)
      : words(words), end(end), step(step), window(0), coming(0), bits(0) {
    load();
  }

  __device__ __forceinline__ void load() {
    coming = words < end ? __ldcs(words) : 0u;
    words += step;
  }

  // The next `width` bits, 0 to 32 of them.
  __device__ __forceinline__ unsigned take(int width) {
    if (bits < width) {
      if (MOST_FIRST) {
        window = window << 32 | coming;
      } else {
        window |= static_cast<unsigned long long>(coming) << bits;
      }
      bits += 32;
      load();
    }
    bits -= width;
    const unsigned long long mask = (1ull << width) - 1;
    if (MOST_FIRST) return static_cast<unsigned>(window >> bits & mask);
    const unsigned field = static_cast<unsigned>(window & mask);
    window >>= width;
    return field;
  }
};
