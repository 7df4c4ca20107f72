// y += A^T x from the arrays of A: every entry adds its value times the x of its row to the y of its column, by
// atomics. See spmvbench/formats/transposed.py.
#include "spmv.cuh"

constexpr int BLOCK = 256;
constexpr int SUMMING = 1024;  // threads of a block with sums of its own

// CSR: LANES threads per row, which read the row's entries side by side and its x once. LISTED: `rows` holds the row of
// each of `places` lists of entries; else they are all rows.
template <typename V, typename I, int LANES, bool LISTED, typename S = V>
__global__ void csr_transposed(int places, const int* __restrict__ rows, const I* __restrict__ row_ptr,
                               const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                               V* __restrict__ y) {
  const long long place = global_thread() / LANES;
  if (place >= places) return;
  const V factor = load_x(x, LISTED ? rows[place] : static_cast<int>(place));
  const I end = row_ptr[place + 1];
  for (I k = row_ptr[place] + threadIdx.x % LANES; k < end; k += LANES) {
    atomicAdd(y + load_stream(col_idx + k), load_stream(values + k) * factor);
  }
}

// The same by blocks that stay, each with sums of its own of all `cols` elements of y in shared memory: y meets as many
// additions as there are blocks.
template <typename V, typename I, int LANES, bool LISTED, typename S = V>
__global__ void __launch_bounds__(SUMMING, 1)
    csr_transposed_sums(int places, int cols, const int* __restrict__ rows, const I* __restrict__ row_ptr,
                        const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                        V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* const sums = reinterpret_cast<V*>(dynamic_shared);
  for (int i = threadIdx.x; i < cols; i += SUMMING) sums[i] = V(0);
  __syncthreads();
  const long long groups = static_cast<long long>(gridDim.x) * (SUMMING / LANES);
  for (long long place = global_thread() / LANES; place < places; place += groups) {
    const V factor = load_x(x, LISTED ? rows[place] : static_cast<int>(place));
    const I end = row_ptr[place + 1];
    for (I k = row_ptr[place] + threadIdx.x % LANES; k < end; k += LANES) {
      atomicAdd(sums + load_stream(col_idx + k), load_stream(values + k) * factor);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < cols; i += SUMMING) atomicAdd(y + i, sums[i]);
}

// Sliced ELLPACK, stored as for ellpack/sell.cu: THREADS threads per row take every THREADS-th position. HEIGHT: rows of a
// slice; 0: all rows are one slice of `pitch` rows and `width` positions. Padding has the column -1.
template <typename V, typename P, int HEIGHT, int THREADS, bool INTERLEAVED, bool STOP, bool SORTED, typename S = V>
__global__ void sell_transposed(unsigned rows, long long pitch, int width, const P* __restrict__ slice_ptr,
                                const int* __restrict__ lengths, const int* __restrict__ perm,
                                const int* __restrict__ columns, const S* __restrict__ values, const V* __restrict__ x,
                                V* __restrict__ y) {
  constexpr int C = HEIGHT ? HEIGHT : 1;
  constexpr int LANES = INTERLEAVED ? THREADS : 1;
  const long long thread = global_thread();
  // Threads of a row are neighbours if its slots are, else neighbouring threads take neighbouring rows.
  const long long padded = (static_cast<long long>(rows) + WARP - 1) / WARP * WARP;
  const long long place = INTERLEAVED ? thread / THREADS : thread % padded;
  const int t = static_cast<int>(INTERLEAVED ? thread % THREADS : thread / padded);
  if (place >= rows || t >= THREADS) return;
  const long long height = HEIGHT ? HEIGHT : pitch;
  long long slot = (HEIGHT ? place % C : place) * LANES;
  if (HEIGHT) {
    const P begin = slice_ptr[place / C];
    width = static_cast<int>((slice_ptr[place / C + 1] - begin) / C);
    slot += begin;
  }
  if (STOP) width = lengths[place];
  const V factor = load_x(x, SORTED ? perm[place] : static_cast<int>(place));
  for (int position = t; position < width; position += THREADS) {
    const long long at = slot + (INTERLEAVED ? (position - t) * height + t : position * height);
    const int column = load_stream(columns + at);
    if (column >= 0) atomicAdd(y + column, load_stream(values + at) * factor);
  }
}

// Diagonals of all rows, `pitch` values each: y[j] takes the entry of row j - offset of every diagonal, so that no two
// threads add to one element.
template <typename V, typename S = V>
__global__ void dia_transposed(int rows, int cols, int diagonals, long long pitch, const int* __restrict__ offset,
                               const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long column = global_thread();
  if (column >= cols) return;
  V sum = 0;
  for (int d = 0; d < diagonals; ++d) {
    const long long row = column - __ldg(offset + d);
    if (row >= 0 && row < rows) sum += load_stream(values + d * pitch + row) * load_x(x, static_cast<int>(row));
  }
  y[column] += sum;
}

// Diagonals of hacks of 32 rows: a thread per row.
template <typename V, typename I, typename S = V>
__global__ void hdi_transposed(int rows, int cols, const I* __restrict__ hack_ptr, const int* __restrict__ offset,
                               const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  const long long row = global_thread();
  if (row >= rows) return;
  const V factor = load_x(x, static_cast<int>(row));
  const I end = hack_ptr[row / WARP + 1];
  for (I d = hack_ptr[row / WARP]; d < end; ++d) {
    const long long column = row + __ldg(offset + d);
    const V value = load_stream(values + static_cast<long long>(d) * WARP + row % WARP);
    if (column >= 0 && column < cols && value != V(0)) atomicAdd(y + column, value * factor);
  }
}

// Tiles of R x C by rows: LANES threads per block row, each takes a column of a tile and adds its R products first.
template <typename V, typename I, int R, int C, int LANES, typename S = V>
__global__ void bsr_transposed(int block_rows, int rows, int cols, const I* __restrict__ block_ptr,
                               const int* __restrict__ block_col, const S* __restrict__ values,
                               const int* __restrict__ perm, bool sorted, const V* __restrict__ x, V* __restrict__ y) {
  const long long place = global_thread() / LANES;
  if (place >= block_rows) return;
  const long long first_row = static_cast<long long>(sorted ? perm[place] : static_cast<int>(place)) * R;
  const long long begin = block_ptr[place];
  const long long columns = (block_ptr[place + 1] - begin) * C;
  for (long long k = threadIdx.x % LANES; k < columns; k += LANES) {
    const long long tile = begin + k / C;
    const int q = static_cast<int>(k % C);
    V sum = 0;
#pragma unroll
    for (int p = 0; p < R; ++p) {
      if (first_row + p < rows) sum += values[tile * (R * C) + p * C + q] * load_x(x, static_cast<int>(first_row) + p);
    }
    const long long column = static_cast<long long>(load_stream(block_col + tile)) * C + q;
    if (column < cols) atomicAdd(y + column, sum);
  }
}

// Tiles of R x C in slices of HEIGHT block rows: a thread per block row. LOAD: values of a tile that are together.
template <typename V, typename I, int R, int C, int HEIGHT, int LOAD>
__global__ void block_sell_transposed(int block_rows, int rows, int cols, const I* __restrict__ slice_ptr,
                                      const int* __restrict__ block_col, const V* __restrict__ values,
                                      const int* __restrict__ perm, bool sorted, const V* __restrict__ x,
                                      V* __restrict__ y) {
  constexpr int WHOLE = R * C / LOAD * LOAD;
  const long long place = global_thread();
  if (place >= block_rows) return;
  const int lane = static_cast<int>(place % HEIGHT);
  const long long first_row = static_cast<long long>(sorted ? perm[place] : static_cast<int>(place)) * R;
  V factor[R];
#pragma unroll
  for (int p = 0; p < R; ++p) factor[p] = first_row + p < rows ? load_x(x, static_cast<int>(first_row) + p) : V(0);
  const I end = slice_ptr[place / HEIGHT + 1];
  for (long long step = slice_ptr[place / HEIGHT]; step < end; ++step) {
    const int column = load_stream(block_col + step * HEIGHT + lane);
    if (column < 0) return;  // a block row's tiles come first
    const V* tile = values + step * (R * C * HEIGHT);
#pragma unroll
    for (int q = 0; q < C; ++q) {
      V sum = 0;
#pragma unroll
      for (int p = 0; p < R; ++p) {
        const int e = p * C + q;
        const int at = e < WHOLE ? (e / LOAD * HEIGHT + lane) * LOAD + e % LOAD : e * HEIGHT + lane;
        sum += load_stream(tile + at) * factor[p];
      }
      const long long of_y = static_cast<long long>(column) * C + q;
      if (of_y < cols) atomicAdd(y + of_y, sum);
    }
  }
}
