// TileSpMV (Niu et al., IPDPS 2021): 16 x 16 tiles in seven formats. A warp takes a chunk: some tiles of one tile row.
//
// ALL_CSR: there is no other format. DEFERRED: COO tiles and tails of HYB are in y already; what is left adds to it.
#include "spmv.cuh"

constexpr int TILE = 16;
enum TileFormat { CSR, COO, ELL, HYB, DNS, DNS_ROW, DNS_COL };
using Byte = unsigned char;

// The matrix. O: type of offsets. A matrix all in CSR has the first five arrays only.
template <typename V, typename O>
struct Matrix {
  int cols;
  const int* tile_col;
  const O* tile_nnz;
  const V* csr_val;
  const Byte* csr_col;
  const Byte* csr_row_ptr;
  const Byte* fmt;   // format | width << 3
  const Byte* tail;  // entries of a HYB tile beyond its ELL part
  const O* off1;
  const O* off2;
  const V* coo_val;
  const Byte* coo_idx;
  const V* ell_val;
  const Byte* ell_col;
  const V* hyb_val;
  const Byte* hyb_idx;
  const V* dns_val;
  const V* dns_row_val;
  const Byte* row_id;
  const V* dns_col_val;
  const Byte* col_id;
};

// What a warp needs to know of a tile, loaded for a whole chunk at once. info: entries, format, width and tail.
template <typename O>
struct alignas(16) Tile {
  int first_col;  // of the matrix
  unsigned info;
  O off1;
  O off2;

  __device__ int nnz() const { return info & 511; }
  __device__ int fmt() const { return info >> 9 & 7; }
  __device__ int width() const { return info >> 12 & 31; }
  __device__ int tail() const { return info >> 17; }
};

template <bool ALL_CSR, typename V, typename O>
__device__ __forceinline__ Tile<O> load_tile(const Matrix<V, O>& a, int i) {
  Tile<O> tile;
  const O begin = load_stream(a.tile_nnz + i);
  tile.first_col = TILE * load_stream(a.tile_col + i);
  tile.info = static_cast<unsigned>(load_stream(a.tile_nnz + i + 1) - begin);
  if (ALL_CSR) {
    tile.off1 = begin;
    tile.off2 = static_cast<O>(i) * TILE;
  } else {
    tile.off1 = load_stream(a.off1 + i);
    tile.off2 = load_stream(a.off2 + i);
    tile.info |= load_stream(a.fmt + i) << 9 | load_stream(a.tail + i) << 17;
  }
  return tile;
}

// Half byte k of packed columns.
template <typename O>
__device__ __forceinline__ int half_byte(const Byte* packed, O k) {
  return load_stream(packed + k / 2) >> (k % 2 ? 0 : 4) & 15;
}

template <bool ADD, typename V>
__device__ __forceinline__ void store_row(V* y, long long row, int rows, V sum) {
  if (row < rows) y[row] = ADD ? y[row] + sum : sum;
}

// Each half warp takes every second dense row; x: the value of column lane % 16.
template <typename V, typename O>
__device__ __forceinline__ void add_dns_rows(const Matrix<V, O>& a, const Tile<O>& tile, V x, V* sums) {
  const int half = lane_id() / TILE;
  const int col = lane_id() % TILE;
  for (int i = 0; i < tile.width(); i += 2) {
    const bool inside = i + half < tile.width();
    V sum = inside ? load_stream(a.dns_row_val + tile.off1 + (i + half) * TILE + col) * x : V(0);
    sum = group_sum<TILE>(sum);
    if (col == 0 && inside) atomicAdd(sums + load_stream(a.row_id + tile.off2 + i + half), sum);
  }
}

// Coordinates, one lane an entry. x: of the tile.
template <typename V>
__device__ __forceinline__ void add_coo(int nnz, const V* values, const Byte* idx, const V* x, V* sums) {
  for (int k = lane_id(); k < nnz; k += WARP) {
    const int at = load_stream(idx + k);
    atomicAdd(sums + (at >> 4), load_stream(values + k) * x[at & 15]);
  }
}

// ---- The fast kernel. What is known of a chunk's tiles is loaded at once, row pointers too. Then the formats in turn:
// tiles of one format lie one behind another, so loads run on across tiles and never wait for a tile to be done. No
// sum crosses lanes before the chunk's end: a lane adds what it reads of row lane / 2 (CSR) to one sum, of row
// lane % 16 (column-major formats) to another. x is gathered through L1, where a tile's 16 values are one or two lines.
// A __syncwarp between loads of the matrix and their first use keeps the compiler from waiting for one load before it
// issues the next.

constexpr int FAST_WARPS = 4;

template <typename V, typename O>
struct WarpMemory {
  Tile<O> tiles[WARP];
  uint4 row_ptr[WARP];         // 16 of each CSR tile
  int ends[WARP];              // entries of COO tiles up to the end of each tile
  V sums[TILE];                // of rows, from formats that scatter
  Byte tile_of[WARP * TILE];   // of each column of the ELL tiles
};

// What a lane has loaded of a row of a CSR tile: two pairs of entries, from an even position on. What pairs at a row's
// ends share with its neighbours is not multiplied.
template <typename V, typename O>
struct CsrStep {
  typename PairOf<V>::type near;
  typename PairOf<V>::type far;
  int near_cols;
  int far_cols;
  int first_col;
  O k;
  O begin;
  O end;

  __device__ __forceinline__ void load(const Matrix<V, O>& a) {
    using Pair = typename PairOf<V>::type;
    if (k < end) {
      near = load_stream(reinterpret_cast<const Pair*>(a.csr_val + k));
      near_cols = load_stream(a.csr_col + k / 2);
    }
    if (k + 4 < end) {
      far = load_stream(reinterpret_cast<const Pair*>(a.csr_val + k + 4));
      far_cols = load_stream(a.csr_col + k / 2 + 2);
    }
  }

  __device__ __forceinline__ V product(const V* __restrict__ x) const {
    V sum = 0;
    if (k >= begin && k < end) sum += near.x * load_x(x, first_col + (near_cols >> 4));
    if (k + 1 < end) sum += near.y * load_x(x, first_col + (near_cols & 15));
    if (k + 4 < end) sum += far.x * load_x(x, first_col + (far_cols >> 4));
    if (k + 5 < end) sum += far.y * load_x(x, first_col + (far_cols & 15));
    return sum;
  }
};

// Two lanes a row; the next tile is loaded before this one is multiplied. tiles: bits of the CSR tiles.
template <typename V, typename O>
__device__ __forceinline__ V fast_csr(const Matrix<V, O>& a, const WarpMemory<V, O>& memory, unsigned tiles,
                                      const V* __restrict__ x) {
  const int row = lane_id() / 2;
  auto first_step = [&](unsigned remaining) {
    CsrStep<V, O> step;
    step.k = step.begin = step.end = 0;
    if (remaining) {
      const int i = __ffs(remaining) - 1;
      const Tile<O> tile = memory.tiles[i];
      const Byte* row_ptr = reinterpret_cast<const Byte*>(memory.row_ptr + i);
      step.first_col = tile.first_col;
      step.begin = tile.off1 + row_ptr[row];
      step.end = tile.off1 + (row < TILE - 1 ? row_ptr[row + 1] : tile.nnz());
      step.k = (step.begin & ~O(1)) + 2 * (lane_id() % 2);
      step.load(a);
    }
    return step;
  };
  V sum = 0;
  CsrStep<V, O> next = first_step(tiles);
  while (tiles) {
    CsrStep<V, O> step = next;
    tiles &= tiles - 1;
    next = first_step(tiles);
    __syncwarp();
    // The compiler takes x to be constant and would multiply above the loads, did the product not wait for a shuffle.
    step.first_col = __shfl_sync(FULL_MASK, step.first_col, 0);
    sum += step.product(x);
#pragma unroll 1
    for (step.k += 8; step.k < step.end; step.k += 8) {
      step.load(a);
      sum += step.product(x);
    }
  }
  return sum;
}

// All ELL tiles, or HYB tiles without tails, as one sequence of columns. tiles: their bits.
template <typename V, typename O>
__device__ __forceinline__ V fast_ell(const V* values, const Byte* packed, WarpMemory<V, O>& memory, unsigned tiles,
                                      const V* __restrict__ x) {
  constexpr int STEPS = 4;
  const int lane = lane_id();
  const int shift = lane % 2 ? 0 : 4;
  const O off1 = memory.tiles[__ffs(tiles) - 1].off1;
  values += off1;
  packed += off1 / 2;
  const Tile<O> last = memory.tiles[WARP - 1 - __clz(tiles)];
  const int slots = static_cast<int>(last.off1 - off1) + TILE * last.width();
  if (tiles >> lane & 1) {
    const int first = static_cast<int>(memory.tiles[lane].off1 - off1) / TILE;
    for (int column = 0; column < memory.tiles[lane].width(); ++column) memory.tile_of[first + column] = lane;
  }
  __syncwarp();
  V sum = 0;
  for (int begin = 0; begin < slots; begin += STEPS * WARP) {
    V value[STEPS];
    int cols[STEPS];
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
      const int slot = begin + i * WARP + lane;
      if (slot < slots) {
        value[i] = load_stream(values + slot);
        cols[i] = load_stream(packed + slot / 2);
      }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
      const int slot = begin + i * WARP + lane;
      if (slot < slots) {
        const int first_col = memory.tiles[memory.tile_of[slot / TILE]].first_col;
        sum += value[i] * load_x(x, first_col + (cols[i] >> shift & 15));
      }
    }
  }
  return sum;
}

// All COO tiles as one sequence of entries. nnz: of the lane's tile if that is COO, else 0. tiles: bits of the COO
// tiles.
template <typename V, typename O>
__device__ __forceinline__ void fast_coo(const Matrix<V, O>& a, WarpMemory<V, O>& memory, unsigned tiles, int nnz,
                                         const V* __restrict__ x) {
  const int lane = lane_id();
  int end = nnz;
#pragma unroll
  for (int offset = 1; offset < WARP; offset *= 2) {
    const int before = __shfl_up_sync(FULL_MASK, end, offset);
    if (lane >= offset) end += before;
  }
  memory.ends[lane] = end;
  const int total = __shfl_sync(FULL_MASK, end, WARP - 1);
  __syncwarp();
  const O off1 = memory.tiles[__ffs(tiles) - 1].off1;
  for (int k = lane; k < total; k += WARP) {
    const V value = load_stream(a.coo_val + off1 + k);
    const int at = load_stream(a.coo_idx + off1 + k);
    int tile = 0;  // the first one that ends behind k
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) {
      if (memory.ends[tile + step - 1] <= k) tile += step;
    }
    atomicAdd(memory.sums + (at >> 4), value * load_x(x, memory.tiles[tile].first_col + (at & 15)));
  }
}

// Sixteen slots a column; column_of(slot) is the column of x.
template <typename V, typename ColumnOf>
__device__ __forceinline__ V fast_columns(int slots, const V* values, const V* __restrict__ x, ColumnOf column_of) {
  constexpr int STEPS = 4;
  V sum = 0;
  for (int begin = 0; begin < slots; begin += STEPS * WARP) {
    V value[STEPS];
    int column[STEPS];
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
      const int slot = begin + i * WARP + lane_id();
      if (slot < slots) {
        value[i] = load_stream(values + slot);
        column[i] = column_of(slot);
      }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
      if (begin + i * WARP + lane_id() < slots) sum += value[i] * load_x(x, column[i]);
    }
  }
  return sum;
}

template <bool ALL_CSR, bool DEFERRED, typename V, typename O>
__device__ __forceinline__ void fast_chunk(int rows, int chunks, const int* chunk_ptr, const int* chunk_row,
                                           const Matrix<V, O>& a, const V* __restrict__ x, V* __restrict__ y,
                                           V* __restrict__ partial) {
  __shared__ WarpMemory<V, O> memory_of[FAST_WARPS];
  const long long chunk = global_thread() / WARP;
  if (chunk >= chunks) return;  // the whole warp
  const int lane = lane_id();
  WarpMemory<V, O>& memory = memory_of[threadIdx.x / WARP];

  const int begin = chunk_ptr[chunk];
  const int count = chunk_ptr[chunk + 1] - begin;
  const int marked_row = chunk_row[chunk];
  int fmt = -1;
  int nnz = 0;
  if (lane < count) {
    const Tile<O> tile = load_tile<ALL_CSR>(a, begin + lane);
    memory.tiles[lane] = tile;
    fmt = tile.fmt();
    nnz = tile.nnz();
    if (fmt == CSR) memory.row_ptr[lane] = load_stream(reinterpret_cast<const uint4*>(a.csr_row_ptr + tile.off2));
  }
  if (!ALL_CSR && lane < TILE) memory.sums[lane] = 0;
  __syncwarp();

  V by_pair = fast_csr(a, memory, __ballot_sync(FULL_MASK, fmt == CSR), x);  // of row lane / 2
  V by_half = 0;                                                             // of row lane % 16
  if (!ALL_CSR) {
    const unsigned ell = __ballot_sync(FULL_MASK, fmt == ELL);
    const unsigned hyb = __ballot_sync(FULL_MASK, fmt == HYB);
    const unsigned coo = __ballot_sync(FULL_MASK, fmt == COO);
    unsigned others = __ballot_sync(FULL_MASK, fmt >= (DEFERRED ? DNS : HYB));
    if (ell) by_half += fast_ell(a.ell_val, a.ell_col, memory, ell, x);
    if (DEFERRED && hyb) {
      __syncwarp();
      by_half += fast_ell(a.hyb_val, a.hyb_idx, memory, hyb, x);
    }
    if (!DEFERRED && coo) fast_coo(a, memory, coo, fmt == COO ? nnz : 0, x);
    for (; others; others &= others - 1) {
      const Tile<O> tile = memory.tiles[__ffs(others) - 1];
      const int first_col = tile.first_col;
      if (!DEFERRED && tile.fmt() == HYB) {
        const int slots = TILE * tile.width();
        const V* values = a.hyb_val + tile.off1;
        const Byte* idx = a.hyb_idx + tile.off2;
        by_half += fast_columns(slots, values, x, [=](int slot) { return first_col + half_byte(idx, slot); });
        add_coo(tile.tail(), values + slots, idx + slots / 2, x + first_col, memory.sums);
      } else if (tile.fmt() == DNS) {
        // Columns beyond the matrix are padding: they read its last one.
        const int last_col = a.cols - 1;
        by_half += fast_columns(TILE * TILE, a.dns_val + tile.off1, x,
                                [=](int slot) { return min(first_col + slot / TILE, last_col); });
      } else if (tile.fmt() == DNS_ROW) {
        add_dns_rows(a, tile, load_x(x, first_col + lane % TILE), memory.sums);
      } else {
        const Byte* id = a.col_id + tile.off2;
        by_half += fast_columns(TILE * tile.width(), a.dns_col_val + tile.off1, x,
                                [=](int slot) { return first_col + load_stream(id + slot / TILE); });
      }
    }
  }

  by_pair += __shfl_down_sync(FULL_MASK, by_pair, 1);
  V sum = __shfl_sync(FULL_MASK, by_pair, 2 * lane % WARP);
  sum += by_half + __shfl_down_sync(FULL_MASK, by_half, TILE);
  __syncwarp();
  if (lane >= TILE) return;
  if (!ALL_CSR) sum += memory.sums[lane];
  if (marked_row < 0) {
    partial[chunk * TILE + lane] = sum;
  } else {
    store_row<DEFERRED>(y, static_cast<long long>(marked_row) * TILE + lane, rows, sum);
  }
}

// Block (16, GROUPS) for each tile row of several chunks: adds up what they left.
template <typename V, bool ADD>
__global__ void add_partials(int rows, int chunks, const int* __restrict__ chunk_row, const int* __restrict__ split,
                             const V* __restrict__ partial, V* __restrict__ y) {
  constexpr int GROUPS = 8;
  __shared__ V sums[GROUPS][TILE];
  const int first = split[blockIdx.x];
  const int marked_row = chunk_row[first];
  V sum = 0;
  for (long long chunk = first + threadIdx.y; chunk < chunks && chunk_row[chunk] == marked_row; chunk += GROUPS) {
    sum += partial[chunk * TILE + threadIdx.x];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0) return;
  for (int group = 1; group < GROUPS; ++group) sum += sums[group][threadIdx.x];
  store_row<ADD>(y, static_cast<long long>(marked_row & 0x7fffffff) * TILE + threadIdx.x, rows, sum);
}

// ---- The paper's kernel: x of a tile in shared memory or in the lanes, each tile's sums brought to lanes 0 to 15 as
// it ends, an atomic where a tile row has several chunks. With the barriers that the authors' code lacks.

constexpr int PAPER_WARPS = 2;

// Two lanes a row, every second entry each.
template <typename V, typename O>
__device__ __forceinline__ V paper_csr(const Matrix<V, O>& a, const Tile<O>& tile, const V* shared_x) {
  const int lane = lane_id();
  const int row = lane / 2;
  const Byte* row_ptr = a.csr_row_ptr + tile.off2;
  const int end = row < TILE - 1 ? row_ptr[row + 1] : tile.nnz();
  V sum = 0;
  for (int j = row_ptr[row] + lane % 2; j < end; j += 2) {
    sum += load_stream(a.csr_val + tile.off1 + j) * shared_x[half_byte(a.csr_col, tile.off1 + j)];
  }
  sum += __shfl_down_sync(FULL_MASK, sum, 1);
  return __shfl_sync(FULL_MASK, sum, 2 * lane % WARP);
}

// Two columns of 16 slots a step; column_of(slot) names the column of x, which the lane of that number holds.
template <typename V, typename ColumnOf>
__device__ __forceinline__ V paper_columns(int slots, const V* values, V x, ColumnOf column_of) {
  V sum = 0;
  for (int begin = 0; begin < slots; begin += WARP) {
    const int slot = begin + lane_id();
    const bool inside = slot < slots;
    const V factor = __shfl_sync(FULL_MASK, x, inside ? column_of(slot) : 0);
    if (inside) sum += load_stream(values + slot) * factor;
  }
  return sum + __shfl_down_sync(FULL_MASK, sum, TILE);
}

template <bool ALL_CSR, bool DEFERRED, typename V, typename O>
__device__ __forceinline__ void paper_chunk(int rows, int chunks, const int* chunk_ptr, const int* chunk_row,
                                            const Matrix<V, O>& a, const V* __restrict__ x, V* __restrict__ y) {
  __shared__ Tile<O> tiles_of[PAPER_WARPS][WARP];
  __shared__ V x_of[PAPER_WARPS][TILE];
  __shared__ V sums_of[PAPER_WARPS][TILE];
  const long long chunk = global_thread() / WARP;
  if (chunk >= chunks) return;  // the whole warp
  const int lane = lane_id();
  Tile<O>* tiles = tiles_of[threadIdx.x / WARP];
  V* shared_x = x_of[threadIdx.x / WARP];
  V* sums = sums_of[threadIdx.x / WARP];

  const int begin = chunk_ptr[chunk];
  const int count = chunk_ptr[chunk + 1] - begin;
  if (lane < count) tiles[lane] = load_tile<ALL_CSR>(a, begin + lane);
  if (lane < TILE) sums[lane] = 0;
  V sum = 0;  // of row `lane`, in lanes 0 to 15
  for (int i = 0; i < count; ++i) {
    __syncwarp();  // shared_x has been read
    const Tile<O> tile = tiles[i];
    const int col = tile.first_col + lane % TILE;
    const V tile_x = col < a.cols ? load_x(x, col) : V(0);
    if (lane < TILE) shared_x[lane] = tile_x;
    __syncwarp();
    if (tile.fmt() == CSR) {
      sum += paper_csr(a, tile, shared_x);
    } else if (!DEFERRED && tile.fmt() == COO) {
      add_coo(tile.nnz(), a.coo_val + tile.off1, a.coo_idx + tile.off1, shared_x, sums);
    } else if (tile.fmt() == ELL) {
      const Byte* packed = a.ell_col + tile.off1 / 2;
      sum += paper_columns(TILE * tile.width(), a.ell_val + tile.off1, tile_x,
                           [=](int slot) { return half_byte(packed, slot); });
    } else if (tile.fmt() == HYB) {
      const int slots = TILE * tile.width();
      const V* values = a.hyb_val + tile.off1;
      const Byte* idx = a.hyb_idx + tile.off2;
      sum += paper_columns(slots, values, tile_x, [=](int slot) { return half_byte(idx, slot); });
      if (!DEFERRED) add_coo(tile.tail(), values + slots, idx + slots / 2, shared_x, sums);
    } else if (tile.fmt() == DNS) {
      sum += paper_columns(TILE * TILE, a.dns_val + tile.off1, tile_x, [](int slot) { return slot / TILE; });
    } else if (tile.fmt() == DNS_ROW) {
      add_dns_rows(a, tile, tile_x, sums);
    } else {
      const Byte* id = a.col_id + tile.off2;
      sum += paper_columns(TILE * tile.width(), a.dns_col_val + tile.off1, tile_x,
                           [=](int slot) -> int { return load_stream(id + slot / TILE); });
    }
  }
  __syncwarp();
  if (lane >= TILE) return;
  sum += sums[lane];
  const int marked_row = chunk_row[chunk];
  const long long row = static_cast<long long>(marked_row & 0x7fffffff) * TILE + lane;
  if (marked_row >= 0) {
    store_row<DEFERRED>(y, row, rows, sum);
  } else if (row < rows) {
    atomicAdd(y + row, sum);
  }
}

// ---- Kernels. A warp takes a chunk; blocks have as many warps as the kernel's memory.

template <bool FAST, bool ALL_CSR, bool DEFERRED, typename V, typename O>
__device__ __forceinline__ void spmv(int rows, int chunks, const int* chunk_ptr, const int* chunk_row,
                                     const Matrix<V, O>& a, const V* __restrict__ x, V* __restrict__ y,
                                     V* __restrict__ partial) {
  if (FAST) {
    fast_chunk<ALL_CSR, DEFERRED>(rows, chunks, chunk_ptr, chunk_row, a, x, y, partial);
  } else {
    paper_chunk<ALL_CSR, DEFERRED>(rows, chunks, chunk_ptr, chunk_row, a, x, y);
  }
}

template <typename V, typename O, bool FAST>
__global__ void tile_csr_spmv(int rows, int cols, int chunks, const int* __restrict__ chunk_ptr,
                              const int* __restrict__ chunk_row, const int* __restrict__ tile_col,
                              const O* __restrict__ tile_nnz, const V* __restrict__ csr_val,
                              const Byte* __restrict__ csr_col, const Byte* __restrict__ csr_row_ptr,
                              const V* __restrict__ x, V* __restrict__ y, V* __restrict__ partial) {
  const Matrix<V, O> a = {cols, tile_col, tile_nnz, csr_val, csr_col, csr_row_ptr};
  spmv<FAST, true, false>(rows, chunks, chunk_ptr, chunk_row, a, x, y, partial);
}

template <typename V, typename O, bool FAST, bool DEFERRED>
__global__ void __launch_bounds__(WARP* FAST_WARPS, 9) tile_spmv(int rows, int cols, int chunks, const int* __restrict__ chunk_ptr,
                          const int* __restrict__ chunk_row, const int* __restrict__ tile_col,
                          const O* __restrict__ tile_nnz, const V* __restrict__ csr_val,
                          const Byte* __restrict__ csr_col, const Byte* __restrict__ csr_row_ptr,
                          const Byte* __restrict__ fmt, const Byte* __restrict__ tail, const O* __restrict__ off1,
                          const O* __restrict__ off2, const V* __restrict__ coo_val, const Byte* __restrict__ coo_idx,
                          const V* __restrict__ ell_val, const Byte* __restrict__ ell_col,
                          const V* __restrict__ hyb_val, const Byte* __restrict__ hyb_idx,
                          const V* __restrict__ dns_val, const V* __restrict__ dns_row_val,
                          const Byte* __restrict__ row_id, const V* __restrict__ dns_col_val,
                          const Byte* __restrict__ col_id, const V* __restrict__ x, V* __restrict__ y,
                          V* __restrict__ partial) {
  const Matrix<V, O> a = {cols,    tile_col, tile_nnz, csr_val, csr_col,     csr_row_ptr, fmt,
                          tail,    off1,     off2,     coo_val, coo_idx,     ell_val,     ell_col,
                          hyb_val, hyb_idx,  dns_val,  dns_row_val, row_id,  dns_col_val, col_id};
  spmv<FAST, false, DEFERRED>(rows, chunks, chunk_ptr, chunk_row, a, x, y, partial);
}
