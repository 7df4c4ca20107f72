// CSR to sell-pack on the device: what spmvbench/formats/ellpack/sell_coded.py computes by arrays on the host.
#include "largest.cuh"
#include "side_by_side.cuh"
#include "spmv.cuh"

constexpr int CONVERT_BLOCK = 256;

template <typename V>
struct WordOf;
template <>
struct WordOf<double> {
  using type = unsigned long long;
};
template <>
struct WordOf<float> {
  using type = unsigned;
};
template <>
struct WordOf<f16> {
  using type = unsigned short;
};

// The bits that are set in any value; found: zero before.
template <typename V>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    pack_bits(long long nnz, const V* __restrict__ values, unsigned long long* __restrict__ found) {
  using Word = typename WordOf<V>::type;
  const Word* words = reinterpret_cast<const Word*>(values);
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  unsigned long long any = 0;
#pragma unroll 4
  for (long long k = global_thread(); k < nnz; k += stride) any |= load_stream(words + k);
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) any |= __shfl_xor_sync(FULL_MASK, any, offset);
  if (lane_id() == 0 && any) atomicOr(found, any);
}

// A row of a slice.
template <typename I, bool SORTED>
struct SliceRow {
  I begin = 0;
  int length = 0;

  __device__ __forceinline__ SliceRow(int rows, long long place, const int* __restrict__ perm,
                                      const I* __restrict__ row_ptr) {
    if (place >= rows) return;
    const int row = SORTED ? perm[place] : static_cast<int>(place);
    begin = row_ptr[row];
    length = static_cast<int>(row_ptr[row + 1] - begin);
  }
};

// The base column and the slots of each slice of 32 rows, where a slot moves on by less than `jump` columns, or by
// `jump` without an entry: a warp per slice.
template <typename I, bool SORTED>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    pack_slots(int rows, int cols, int slices, int jump, const int* __restrict__ perm, const I* __restrict__ row_ptr,
               const int* __restrict__ col_idx, int* __restrict__ bases, long long* __restrict__ slots) {
  const long long slice = global_thread() / WARP;
  if (slice >= slices) return;  // the whole warp
  const SliceRow<I, SORTED> row(rows, slice * WARP + lane_id(), perm, row_ptr);
  const int base = warp_min(row.length ? col_idx[row.begin] : cols);  // the least; `cols` if all rows are empty
  int before = base;
  long long size = row.length;
  for (int i = 0; i < row.length; ++i) {
    const int column = col_idx[row.begin + static_cast<I>(i)];
    size += (column - before) / jump;
    before = column;
  }
  size = warp_max(size);
  if (lane_id() != 0) return;
  bases[slice] = base;
  slots[slice] = WARP * size;
}

// Values and differences: a warp per slice, position by position.
template <typename V, typename I, typename P, bool SORTED>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    pack_fill(int rows, int slices, int jump, const P* __restrict__ slice_ptr, const int* __restrict__ bases,
              const int* __restrict__ perm, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
              const V* __restrict__ values, V* __restrict__ packed) {
  using Word = typename WordOf<V>::type;
  __shared__ Side<Word> sides[CONVERT_BLOCK / WARP];
  const long long slice = global_thread() / WARP;
  if (slice >= slices) return;  // the whole warp
  const SliceRow<I, SORTED> row(rows, slice * WARP + lane_id(), perm, row_ptr);
  Walk<Word, I> walk(sides[threadIdx.x / WARP], row.begin, row.begin + static_cast<I>(row.length), col_idx,
                     reinterpret_cast<const Word*>(values));
  Word* to = reinterpret_cast<Word*>(packed);
  int before = bases[slice];
  for (long long at = slice_ptr[slice] + lane_id(); at < slice_ptr[slice + 1]; at += WARP) {
    Word word = static_cast<Word>(jump);
    const bool any = walk.any();
    const int step = any ? walk.column() - before : 0;
    if (step >= jump) {
      before += jump;
    } else if (any) {
      word = walk.value() | static_cast<Word>(step);
      before += step;
      ++walk.at;
    }
    to[at] = word;
  }
}
