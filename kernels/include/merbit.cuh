// MERBIT's bit fields; see spmvbench/formats/load_balanced/merbit.py.
#pragma once

constexpr unsigned NO_END = 0x80000000u;  // in tile_row: no row ends in the tile

template <bool WIDE>
struct WordOf {
  using type = unsigned;
};
template <>
struct WordOf<true> {
  using type = unsigned long long;
};

// A lane's field, from the low bits on: entries before it in its tile, row ends before it in its tile, and a bit for
// each of its SIGMA steps, 1 where a row ends.
template <int SIGMA>
struct LaneBits {
  using Word = typename WordOf<(SIGMA > 14)>::type;
  static constexpr int COUNT = SIGMA > 14 ? 11 : 9;  // bits of a count
  Word word;

  __device__ __forceinline__ LaneBits(Word word) : word(word) {}
  __device__ __forceinline__ LaneBits(int entries, int rows, Word ends)
      : word(static_cast<Word>(entries) | static_cast<Word>(rows) << COUNT | ends << 2 * COUNT) {}

  __device__ __forceinline__ int entries() const { return static_cast<int>(word & ((Word(1) << COUNT) - 1)); }
  __device__ __forceinline__ int rows() const { return static_cast<int>(word >> COUNT & ((Word(1) << COUNT) - 1)); }
  __device__ __forceinline__ bool ends(int step) const { return word >> (2 * COUNT + step) & 1; }
};
