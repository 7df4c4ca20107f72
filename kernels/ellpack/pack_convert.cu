// CSR to sell-pack on the device: what spmvbench/formats/ellpack/sell_coded.py computes by arrays on the host.
#include "largest.cuh"
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

// A row of a slice, and the columns of its entries one after the other.
template <typename I, bool SORTED>
struct Walk {
  const int* __restrict__ columns;  // of the row
  I begin;
  int length;

  __device__ __forceinline__ Walk(int rows, long long place, const int* __restrict__ perm,
                                  const I* __restrict__ row_ptr, const int* __restrict__ col_idx)
      : columns(col_idx), begin(0), length(0) {
    if (place >= rows) return;
    const int row = SORTED ? perm[place] : static_cast<int>(place);
    begin = row_ptr[row];
    length = static_cast<int>(row_ptr[row + 1] - begin);
    columns = col_idx + begin;
  }

  // The least first column of the warp's rows, `cols` if all are empty.
  __device__ __forceinline__ int base(int cols) const { return warp_min(length ? columns[0] : cols); }
};

// The base column and the slots of each slice of 32 rows, where a slot moves on by less than `jump` columns, or by
// `jump` without an entry: a warp per slice.
template <typename I, bool SORTED>
__global__ void __launch_bounds__(CONVERT_BLOCK)
    pack_slots(int rows, int cols, int slices, int jump, const int* __restrict__ perm, const I* __restrict__ row_ptr,
               const int* __restrict__ col_idx, int* __restrict__ bases, long long* __restrict__ slots) {
  const long long slice = global_thread() / WARP;
  if (slice >= slices) return;  // the whole warp
  const Walk<I, SORTED> row(rows, slice * WARP + lane_id(), perm, row_ptr, col_idx);
  const int base = row.base(cols);
  int before = base;
  long long size = row.length;
  for (int i = 0; i < row.length; ++i) {
    const int column = row.columns[i];
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
  const long long slice = global_thread() / WARP;
  if (slice >= slices) return;  // the whole warp
  const Walk<I, SORTED> row(rows, slice * WARP + lane_id(), perm, row_ptr, col_idx);
  const Word* from = reinterpret_cast<const Word*>(values) + row.begin;
  Word* to = reinterpret_cast<Word*>(packed);
  int before = bases[slice], i = 0;
  int column = row.length ? row.columns[0] : 0;
  for (long long at = slice_ptr[slice] + lane_id(); at < slice_ptr[slice + 1]; at += WARP) {
    Word word = static_cast<Word>(jump);
    if (i < row.length) {
      if (column - before >= jump) {
        before += jump;
      } else {
        word = from[i] | static_cast<Word>(column - before);
        before = column;
        if (++i < row.length) column = row.columns[i];
      }
    }
    to[at] = word;
  }
}
