// What `irregular` looks at before it chooses, in place of some dozen array operations; see
// spmvbench/formats/cache_blocking/irregular.py.
#include "largest.cuh"

constexpr int LOOK_EACH = 8;  // entries of a thread

// Stretches of `share` entries each, as many as the grid is high, spread over the matrix: a bit for each group of `width`
// neighbouring columns that a stretch names, and every column's entries. seen: `words` words of zeros a stretch.
__global__ void look_at_columns(long long nnz, long long share, int width, long long words,
                                const int* __restrict__ col_idx, unsigned* seen, unsigned* __restrict__ counts) {
  const long long stretch = blockIdx.y, at = static_cast<long long>(blockIdx.x) * (blockDim.x * LOOK_EACH);
  const int* columns = col_idx + stretch * (nnz - share) / (gridDim.y - 1);
  int column[LOOK_EACH];
#pragma unroll
  for (int u = 0; u < LOOK_EACH; ++u) {
    const long long i = at + u * static_cast<int>(blockDim.x) + threadIdx.x;
    column[u] = i < share ? load_stream(columns + i) : -1;
  }
#pragma unroll
  for (int u = 0; u < LOOK_EACH; ++u) {
    if (column[u] < 0) continue;
    const int group = column[u] / width;
    unsigned* const word = seen + stretch * words + group / 32;
    const unsigned bit = 1u << group % 32;
    if (!(*static_cast<volatile unsigned*>(word) & bit)) atomicOr(word, bit);  // what is read may be old
    atomicAdd(counts + column[u], 1u);
  }
}

// found[1]: slots of the rows where every 32 neighbours are padded to one length. found[2]: the longest row.
template <typename I>
__global__ void look_at_rows(int rows, const I* __restrict__ row_ptr, unsigned long long* __restrict__ found) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  unsigned long long slots = 0;
  unsigned long long longest = 0;
  for (long long first = global_thread() - lane_id(); first < rows; first += stride) {
    const long long row = first + lane_id();
    unsigned long long length = row < rows ? row_ptr[row + 1] - row_ptr[row] : 0;
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
      const unsigned long long other = __shfl_down_sync(FULL_MASK, length, offset);
      if (other > length) length = other;
    }
    slots += WARP * length;
    if (length > longest) longest = length;
  }
  add_once(found + 1, lane_id() == 0 ? slots : 0);
  if (lane_id() == 0) note_most(found + 2, static_cast<int>(longest));
}

constexpr int BINS = 1024;

// found[0]: bits in `seen`. found[3 + n]: columns of n entries, the last n for those of more, too; then how many entries
// these have.
__global__ void look_at_counts(int cols, long long words, const unsigned* __restrict__ seen,
                               const unsigned* __restrict__ counts, unsigned long long* __restrict__ found) {
  __shared__ unsigned columns[BINS];
  __shared__ unsigned long long full;  // entries of the last bin
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) columns[bin] = 0;
  if (threadIdx.x == 0) full = 0;
  __syncthreads();
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long column = global_thread(); column < cols; column += stride) {
    const unsigned entries = counts[column];
    if (entries) atomicAdd(columns + (entries < BINS ? entries : BINS - 1), 1u);
    if (entries >= BINS - 1) atomicAdd(&full, static_cast<unsigned long long>(entries));
  }
  int bits = 0;
  for (long long word = global_thread(); word < words; word += stride) bits += __popc(seen[word]);
  add_once(found, bits);
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
    if (columns[bin]) atomicAdd(found + 3 + bin, static_cast<unsigned long long>(columns[bin]));
  }
  if (threadIdx.x == 0 && full) atomicAdd(found + 3 + BINS, full);
}
