// TileSpMV (Niu et al., IPDPS 2021): 16 x 16 tiles in seven formats. A warp takes a chunk: some tiles of one tile row.
//
// ALL_CSR: there is no other format. DEFERRED: COO tiles and tails of HYB are in y already; what is left adds to it.
#include "async_copy.cuh"
#include "csr5.cuh"
#include "spmv.cuh"
#include "tile.cuh"

// The matrix. S: type of its values. O: of offsets. A matrix all in CSR has the first five arrays only.
template <typename S, typename O>
struct Matrix {
  int cols;
  const int* tile_col;
  const O* tile_nnz;
  const S* csr_val;
  const Byte* csr_col;
  const Byte* csr_row_ptr;
  const Byte* fmt;   // format | width << 3
  const Byte* tail;  // entries of a HYB tile beyond its ELL part
  const O* off1;
  const O* off2;
  const S* coo_val;
  const Byte* coo_idx;
  const S* ell_val;
  const Byte* ell_col;
  const S* hyb_val;
  const Byte* hyb_idx;
  const S* dns_val;
  const S* dns_row_val;
  const Byte* row_id;
  const S* dns_col_val;
  const Byte* col_id;
};

// The fields of a tile that a warp needs, loaded for a whole chunk at once. info: entries, format, width and tail.
// Aligned so that it is one load from shared memory where offsets are int, and has no padding where they are not.
template <typename O>
struct alignas(sizeof(O) == sizeof(int) ? 16 : 8) Tile {
  int first_col;  // of the matrix
  unsigned info;
  O off1;
  O off2;

  __device__ int nnz() const { return info & 511; }
  __device__ int fmt() const { return info >> 9 & 7; }
  __device__ int width() const { return info >> 12 & 31; }
  __device__ int tail() const { return info >> 17; }
};

template <bool ALL_CSR, typename S, typename O>
__device__ __forceinline__ Tile<O> load_tile(const Matrix<S, O>& a, int i) {
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

// A chunk's sum of row `lane` of its tile row. ADD: y holds something already; where a tile row has several chunks, y
// is zero.
template <bool ADD, typename V>
__device__ __forceinline__ void finish_row(V* y, int marked_row, int rows, V sum) {
  const long long row = static_cast<long long>(marked_row & 0x7fffffff) * TILE + lane_id();
  if (row >= rows) return;
  if (ADD || marked_row < 0) {
    atomicAdd(y + row, sum);
  } else {
    y[row] = sum;
  }
}

// Each half warp takes every second dense row; x: the value of column lane % 16. sums: of the tile's rows.
template <typename V, typename S, typename O>
__device__ __forceinline__ void add_dns_rows(const Matrix<S, O>& a, const Tile<O>& tile, V x, V* sums) {
  const int half = lane_id() / TILE;
  const int col = lane_id() % TILE;
  for (int i = 0; i < tile.width(); i += 2) {
    const bool inside = i + half < tile.width();
    V sum = 0;
    if (inside) sum = load_stream(a.dns_row_val + tile.off1 + (i + half) * TILE + col) * x;
    sum = group_sum<TILE>(sum);
    if (col == 0 && inside) atomicAdd(sums + load_stream(a.row_id + tile.off2 + i + half), sum);
  }
}

// Coordinates, one lane per entry. x: of the tile.
template <typename V, typename S>
__device__ __forceinline__ void add_coo(int nnz, const S* values, const Byte* idx, const V* x, V* sums) {
  for (int k = lane_id(); k < nnz; k += WARP) {
    const int at = load_stream(idx + k);
    atomicAdd(sums + (at >> 4), load_stream(values + k) * x[at & 15]);
  }
}

// ---- The fast kernel. What is known of a chunk's tiles is loaded at once; tiles of one format follow each other, so
// that copies and loads run on across tiles and never wait for a tile to be done. CSR tiles, entries and x, are copied
// to shared memory while the other formats are computed. No sum crosses lanes before the chunk's end: a lane adds what
// it reads of row lane % 16. x of the other formats is gathered through L1, where a tile's 16 values are one or two
// lines. A __syncwarp between loads of the matrix and their first use keeps the compiler from waiting for one load
// before it issues the next.

constexpr int FAST_WARPS = 4;
constexpr int ALIGNED = 8;  // entries whose columns fill a word

// CSR tiles of a warp: the fields of all tiles in its chunk, and the entries of some.
template <typename V, typename S, int SIZE, int MOST>
struct CsrMemory {
  alignas(16) S values[SIZE];
  alignas(16) V x[MOST * TILE];
  alignas(16) unsigned short row_ptr[WARP * TILE + ALIGNED];  // of the tiles in the chunk, as if they were one
  int first_col[WARP];
  alignas(4) Byte cols[SIZE / 2];
};

template <typename V, typename O>
struct OtherMemory {
  Tile<O> tiles[WARP];
  V sums[TILE];               // of rows, from formats that scatter
  int ends[WARP];             // entries of COO tiles up to the end of each tile
  Byte tile_of[WARP * TILE];  // of each column of the ELL tiles
};

// The CSR tiles of a chunk. What a warp has copied at once is multiplied when it has arrived, half a warp per tile, a
// thread per row.
template <typename V, typename S, typename O, int SIZE, int MOST>
struct CsrTiles {
  const Matrix<S, O>& a;
  CsrMemory<V, S, SIZE, MOST>& memory;
  const V* __restrict__ x;
  O base;      // entries before the first, or a few less: a multiple of ALIGNED
  int count;   // of the tiles
  int number;  // of the lane's tile among them, -1 if it has none
  int end;     // entries from base to that tile's end

  // tile: the lane's, of the chunk. tiles: bits of the CSR tiles.
  __device__ __forceinline__ CsrTiles(const Matrix<S, O>& a, CsrMemory<V, S, SIZE, MOST>& memory, const Tile<O>& tile,
                                      unsigned tiles, const V* __restrict__ x)
      : a(a), memory(memory), x(x), count(__popc(tiles)) {
    const int lane = lane_id();
    base = __shfl_sync(FULL_MASK, tile.off1, tiles ? __ffs(static_cast<int>(tiles)) - 1 : 0) & ~O(ALIGNED - 1);
    number = tiles >> lane & 1 ? __popc(tiles & ((1u << lane) - 1)) : -1;
    const int begin = static_cast<int>(tile.off1 - base);
    end = begin + tile.nnz();
    if (number >= 0) {
      unsigned short* row_ptr = memory.row_ptr + number * TILE;
      row_ptr[0] = static_cast<unsigned short>(begin);
      if (number == count - 1) row_ptr[TILE] = static_cast<unsigned short>(end);
      copy_async<16>(row_ptr + TILE / 2, a.csr_row_ptr + tile.off2);  // 16 bytes, for now in the place of 8 rows
      memory.first_col[number] = tile.first_col;
    }
    __syncwarp();
  }

  // Row pointers in bytes, from the tile's begin, become row pointers from base. Once, when they have arrived.
  __device__ __forceinline__ void widen_row_ptr() const {
    if (number < 0) return;
    unsigned short* row_ptr = memory.row_ptr + number * TILE;
    const unsigned begin = row_ptr[0];
    const uint4 bytes = *reinterpret_cast<const uint4*>(row_ptr + TILE / 2);
    const unsigned words[] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
    for (int row = 1; row < TILE; ++row) {
      row_ptr[row] = static_cast<unsigned short>(begin + (words[row / 4] >> (8 * (row % 4)) & 255));
    }
  }

  // Copies tiles from number `first` on, as many as there is room for. Returns the number after them.
  __device__ __forceinline__ int stage(int first) const {
    const int lane = lane_id();
    const int from = memory.row_ptr[first * TILE] & ~(ALIGNED - 1);
    const bool fits = number >= first && number < first + MOST && end - from <= SIZE;
    const int last = first + __popc(__ballot_sync(FULL_MASK, fits));
    const int entries = memory.row_ptr[last * TILE] - from;
    const S* values = a.csr_val + (base + from);
    const Byte* cols = a.csr_col + (base + from) / 2;
#pragma unroll 1
    for (int k = 2 * lane; k < entries; k += 2 * WARP) copy_async<2 * sizeof(S)>(memory.values + k, values + k);
#pragma unroll 1
    for (int k = ALIGNED * lane; k < entries; k += ALIGNED * WARP) {
      copy_async<ALIGNED / 2>(memory.cols + k / 2, cols + k / 2);
    }
#pragma unroll 1
    for (int i = lane; i < (last - first) * TILE; i += WARP) {
      const int col = memory.first_col[first + i / TILE] + i % TILE;
      if (col < a.cols) copy_value_async(memory.x + i, x + col);
    }
    return last;
  }

  // The tiles from number `first` to before `last`, which have been copied. Returns the lane's sum.
  template <int PAIRS>
  __device__ __forceinline__ V multiply(int first, int last) const {
    using Pair = typename PairOf<S>::type;
    const int half = lane_id() / TILE;
    const unsigned from = memory.row_ptr[first * TILE] & ~(ALIGNED - 1u);
    const V* tile_x = memory.x + half * TILE;
    const unsigned short* row_ptr = memory.row_ptr + first * TILE + lane_id();
    V sum = 0;
#pragma unroll 1
    for (int tiles = last - first - half; tiles > 0; tiles -= 2, tile_x += 2 * TILE, row_ptr += 2 * TILE) {
      // Pairs from an even entry on. What pairs at a row's ends share with its neighbours is not multiplied.
      const unsigned begin = row_ptr[0];
      const unsigned even = begin & ~1u;
      const Pair* pair = reinterpret_cast<const Pair*>(memory.values) + (even - from) / 2;
      const Byte* column = memory.cols + (even - from) / 2;
      bool leads = even == begin;
#pragma unroll 1
      for (int left = static_cast<int>(row_ptr[1] - even); left > 0; left -= 2 * PAIRS) {
        Pair v[PAIRS];
        int c[PAIRS];
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
          if (left > 2 * i) {
            v[i] = pair[i];
            c[i] = column[i];
          }
        }
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
          if (left > 2 * i && (i > 0 || leads)) sum += v[i].x * tile_x[c[i] >> 4];
          if (left > 2 * i + 1) sum += v[i].y * tile_x[c[i] & 15];
        }
        leads = true;
        pair += PAIRS;
        column += PAIRS;
      }
    }
    return sum;
  }
};

// All ELL tiles, or HYB tiles without tails, as one sequence of columns. tiles: their bits.
template <typename V, typename S, typename O>
__device__ __forceinline__ V fast_ell(const S* values, const Byte* packed, OtherMemory<V, O>& memory, unsigned tiles,
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
    S value[STEPS];
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
template <typename V, typename S, typename O>
__device__ __forceinline__ void fast_coo(const Matrix<S, O>& a, OtherMemory<V, O>& memory, unsigned tiles, int nnz,
                                         const V* __restrict__ x) {
  const int lane = lane_id();
  const int end = group_scan<WARP>(nnz);
  memory.ends[lane] = end;
  const int total = __shfl_sync(FULL_MASK, end, WARP - 1);
  __syncwarp();
  const O off1 = memory.tiles[__ffs(tiles) - 1].off1;
  for (int k = lane; k < total; k += WARP) {
    const S value = load_stream(a.coo_val + off1 + k);
    const int at = load_stream(a.coo_idx + off1 + k);
    int tile = 0;  // the first one that ends after k
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) {
      if (memory.ends[tile + step - 1] <= k) tile += step;
    }
    atomicAdd(memory.sums + (at >> 4), value * load_x(x, memory.tiles[tile].first_col + (at & 15)));
  }
}

// Sixteen slots per column, STEPS x 32 loaded at a time; column_of(slot) is the column of x.
template <int STEPS, typename V, typename S, typename ColumnOf>
__device__ __forceinline__ V fast_columns(int slots, const S* values, const V* __restrict__ x, ColumnOf column_of) {
  V sum = 0;
  for (int begin = 0; begin < slots; begin += STEPS * WARP) {
    S value[STEPS];
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

template <bool ALL_CSR, bool DEFERRED, int SIZE, int MOST, int PAIRS, typename V, typename S, typename O>
__device__ __forceinline__ void fast_chunk(int rows, int chunks, const int* chunk_ptr, const int* chunk_row,
                                           const Matrix<S, O>& a, const V* __restrict__ x, V* __restrict__ y) {
  __shared__ CsrMemory<V, S, SIZE, MOST> csr_memory[FAST_WARPS];
  __shared__ OtherMemory<V, O> other_memory[ALL_CSR ? 1 : FAST_WARPS];
  const long long chunk = global_thread() / WARP;
  if (chunk >= chunks) return;  // the whole warp
  const int lane = lane_id();
  OtherMemory<V, O>& memory = other_memory[ALL_CSR ? 0 : threadIdx.x / WARP];

  const int begin = chunk_ptr[chunk];
  const int count = chunk_ptr[chunk + 1] - begin;
  const int marked_row = chunk_row[chunk];
  Tile<O> tile = {};
  int fmt = -1;
  if (lane < count) {
    tile = load_tile<ALL_CSR>(a, begin + lane);
    fmt = tile.fmt();
    if (!ALL_CSR) memory.tiles[lane] = tile;
  }
  if (!ALL_CSR && lane < TILE) memory.sums[lane] = 0;

  const CsrTiles<V, S, O, SIZE, MOST> csr(a, csr_memory[threadIdx.x / WARP], tile, __ballot_sync(FULL_MASK, fmt == CSR),
                                          x);
  int staged = csr.count ? csr.stage(0) : 0;
  V sum = 0;  // of row lane % 16
  if (!ALL_CSR) {
    const unsigned ell = __ballot_sync(FULL_MASK, fmt == ELL);
    const unsigned hyb = __ballot_sync(FULL_MASK, fmt == HYB);
    const unsigned coo = __ballot_sync(FULL_MASK, fmt == COO);
    unsigned others = __ballot_sync(FULL_MASK, fmt >= (DEFERRED ? DNS : HYB));
    if (ell) sum += fast_ell(a.ell_val, a.ell_col, memory, ell, x);
    if (DEFERRED && hyb) {
      __syncwarp();
      sum += fast_ell(a.hyb_val, a.hyb_idx, memory, hyb, x);
    }
    if (!DEFERRED && coo) fast_coo(a, memory, coo, fmt == COO ? tile.nnz() : 0, x);
    for (; others; others &= others - 1) {
      const Tile<O> tile = memory.tiles[__ffs(others) - 1];
      const int first_col = tile.first_col;
      if (!DEFERRED && tile.fmt() == HYB) {
        const int slots = TILE * tile.width();
        const S* values = a.hyb_val + tile.off1;
        const Byte* idx = a.hyb_idx + tile.off2;
        sum += fast_columns<4>(slots, values, x, [=](int slot) { return first_col + half_byte(idx, slot); });
        add_coo(tile.tail(), values + slots, idx + slots / 2, x + first_col, memory.sums);
      } else if (tile.fmt() == DNS) {
        // Columns beyond the matrix are padding: they read its last one.
        const int last_col = a.cols - 1;
        sum += fast_columns<TILE * TILE / WARP>(TILE * TILE, a.dns_val + tile.off1, x,
                                                [=](int slot) { return min(first_col + slot / TILE, last_col); });
      } else if (tile.fmt() == DNS_ROW) {
        add_dns_rows(a, tile, load_x(x, first_col + lane % TILE), memory.sums);
      } else {
        const Byte* id = a.col_id + tile.off2;
        sum += fast_columns<4>(TILE * tile.width(), a.dns_col_val + tile.off1, x,
                               [=](int slot) { return first_col + load_stream(id + slot / TILE); });
      }
    }
  }

  if (csr.count) {
    await_copies();
    csr.widen_row_ptr();
    for (int first = 0;;) {
      await_copies();  // and, at first, row pointers of other lanes
      sum += csr.template multiply<PAIRS>(first, staged);
      if (staged == csr.count) break;
      __syncwarp();
      first = staged;
      staged = csr.stage(first);
    }
  }

  sum += __shfl_down_sync(FULL_MASK, sum, TILE);
  __syncwarp();
  if (lane >= TILE) return;
  if (!ALL_CSR) sum += memory.sums[lane];
  finish_row<DEFERRED>(y, marked_row, rows, sum);
}

// ---- A chunk without shared memory, for a kernel in which CSR5 needs the L1 cache: half a warp per tile, a thread per
// row. There are no COO tiles and no tails.

// The lowest bit's number, which is cleared; -1 if there is none.
__device__ __forceinline__ int take_bit(unsigned& bits) {
  const int bit = __ffs(static_cast<int>(bits)) - 1;
  bits &= bits - 1;
  return bit;
}

// Two tiles of each half warp at a time, from the lanes that hold them: ELL, or HYB.
template <typename V, typename S, typename O>
__device__ __forceinline__ V lean_ell(const S* values, const Byte* packed, const Tile<O>& tile, unsigned tiles,
                                      const V* __restrict__ x) {
  const int lane = lane_id();
  const int shift = lane % 2 ? 0 : 4;
  V sum = 0;
  while (tiles) {
    O slot[2];
    int width[2], first_col[2];
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const int lower = take_bit(tiles);
      const int upper = take_bit(tiles);
      const int mine = lane < TILE ? lower : upper;
      const int from = mine < 0 ? 0 : mine;
      slot[u] = __shfl_sync(FULL_MASK, tile.off1, from) + lane % TILE;
      first_col[u] = __shfl_sync(FULL_MASK, tile.first_col, from);
      width[u] = __shfl_sync(FULL_MASK, tile.width(), from);
      if (mine < 0) width[u] = 0;
    }
    for (int column = 0; column < width[0] || column < width[1]; ++column) {
      S value[2];
      int cols[2];
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        if (column < width[u]) {
          value[u] = load_stream(values + slot[u] + TILE * column);
          cols[u] = load_stream(packed + (slot[u] + TILE * column) / 2);
        }
      }
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        if (column < width[u]) sum += value[u] * load_x(x, first_col[u] + (cols[u] >> shift & 15));
      }
    }
  }
  return sum;
}

// One tile of each half warp at a time, STEPS entries of its row.
template <typename V, typename S, typename O>
__device__ __forceinline__ V lean_csr(const Matrix<S, O>& a, const Tile<O>& tile, unsigned tiles,
                                      const V* __restrict__ x) {
  constexpr int STEPS = 4;
  const int row = lane_id() % TILE;
  V sum = 0;
  while (tiles) {
    const int lower = take_bit(tiles);
    const int upper = take_bit(tiles);
    const int mine = lane_id() < TILE ? lower : upper;
    const int from = mine < 0 ? 0 : mine;
    const O off1 = __shfl_sync(FULL_MASK, tile.off1, from);
    const O off2 = __shfl_sync(FULL_MASK, tile.off2, from);
    const int first_col = __shfl_sync(FULL_MASK, tile.first_col, from);
    const int nnz = __shfl_sync(FULL_MASK, tile.nnz(), from);
    if (mine < 0) continue;  // the last iteration
    const Byte* row_ptr = a.csr_row_ptr + off2;
    const int end = row < TILE - 1 ? load_stream(row_ptr + row + 1) : nnz;
    for (int j = load_stream(row_ptr + row); j < end; j += STEPS) {
      S value[STEPS];
      int col[STEPS];
#pragma unroll
      for (int u = 0; u < STEPS; ++u) {
        if (j + u < end) {
          value[u] = load_stream(a.csr_val + off1 + j + u);
          col[u] = half_byte(a.csr_col, off1 + j + u);
        }
      }
#pragma unroll
      for (int u = 0; u < STEPS; ++u) {
        if (j + u < end) sum += value[u] * load_x(x, first_col + col[u]);
      }
    }
  }
  return sum;
}

template <typename V, typename S, typename O>
__device__ __forceinline__ void lean_chunk(long long chunk, int rows, int chunks, const int* chunk_ptr,
                                           const int* chunk_row, const Matrix<S, O>& a, const V* __restrict__ x,
                                           V* __restrict__ y) {
  if (chunk >= chunks) return;  // the whole warp
  const int lane = lane_id();
  const int begin = chunk_ptr[chunk];
  const int count = chunk_ptr[chunk + 1] - begin;
  const int marked_row = chunk_row[chunk];
  Tile<O> tile = {};
  int fmt = -1;
  if (lane < count) {
    tile = load_tile<false>(a, begin + lane);
    fmt = tile.fmt();
  }
  V sum = lean_ell(a.ell_val, a.ell_col, tile, __ballot_sync(FULL_MASK, fmt == ELL), x);
  sum += lean_ell(a.hyb_val, a.hyb_idx, tile, __ballot_sync(FULL_MASK, fmt == HYB), x);
  sum += lean_csr(a, tile, __ballot_sync(FULL_MASK, fmt == CSR), x);
  for (unsigned dense = __ballot_sync(FULL_MASK, fmt >= DNS); dense;) {
    const int from = take_bit(dense);
    Tile<O> one;
    one.first_col = __shfl_sync(FULL_MASK, tile.first_col, from);
    one.info = __shfl_sync(FULL_MASK, tile.info, from);
    one.off1 = __shfl_sync(FULL_MASK, tile.off1, from);
    one.off2 = __shfl_sync(FULL_MASK, tile.off2, from);
    if (one.fmt() == DNS_ROW) {
      V* first_row = y + static_cast<long long>(marked_row & 0x7fffffff) * TILE;
      add_dns_rows(a, one, load_x(x, one.first_col + lane % TILE), first_row);
    } else if (one.fmt() == DNS) {
      const int last_col = a.cols - 1;
      sum += fast_columns<4>(TILE * TILE, a.dns_val + one.off1, x,
                             [=](int slot) { return min(one.first_col + slot / TILE, last_col); });
    } else {
      const Byte* id = a.col_id + one.off2;
      sum += fast_columns<4>(TILE * one.width(), a.dns_col_val + one.off1, x,
                             [=](int slot) { return one.first_col + load_stream(id + slot / TILE); });
    }
  }
  sum += __shfl_down_sync(FULL_MASK, sum, TILE);
  if (lane < TILE) finish_row<true>(y, marked_row, rows, sum);
}

// ---- The paper's kernel: x of a tile in shared memory or in the lanes, each tile's sums brought to lanes 0 to 15 as
// it ends, an atomic where a tile row has several chunks. With the barriers that the authors' code lacks.

constexpr int PAPER_WARPS = 2;

// Two threads per row, every second entry each.
template <typename V, typename S, typename O>
__device__ __forceinline__ V paper_csr(const Matrix<S, O>& a, const Tile<O>& tile, const V* shared_x) {
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

// Two columns of 16 slots per step; column_of(slot) names the column of x, which the lane of that number holds.
template <typename V, typename S, typename ColumnOf>
__device__ __forceinline__ V paper_columns(int slots, const S* values, V x, ColumnOf column_of) {
  V sum = 0;
  for (int begin = 0; begin < slots; begin += WARP) {
    const int slot = begin + lane_id();
    const bool inside = slot < slots;
    const V factor = __shfl_sync(FULL_MASK, x, inside ? column_of(slot) : 0);
    if (inside) sum += load_stream(values + slot) * factor;
  }
  return sum + __shfl_down_sync(FULL_MASK, sum, TILE);
}

template <bool ALL_CSR, bool DEFERRED, typename V, typename S, typename O>
__device__ __forceinline__ void paper_chunk(int rows, int chunks, const int* chunk_ptr, const int* chunk_row,
                                            const Matrix<S, O>& a, const V* __restrict__ x, V* __restrict__ y) {
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
    V tile_x = 0;
    if (col < a.cols) tile_x = load_x(x, col);
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
      const S* values = a.hyb_val + tile.off1;
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
  finish_row<DEFERRED>(y, chunk_row[chunk], rows, sum + sums[lane]);
}

// ---- Kernels. A warp takes a chunk; blocks have as many warps as the kernel's memory. SIZE, MOST: entries and tiles
// of CSR that a warp copies at once; PAIRS: pairs of entries that a lane reads at a time. What they are was the fastest
// of those tried on fem:40:3 in f64 on an H200.

template <bool FAST, bool ALL_CSR, bool DEFERRED, int SIZE, int MOST, int PAIRS, typename V, typename S, typename O>
__device__ __forceinline__ void spmv(int rows, int chunks, const int* chunk_ptr, const int* chunk_row,
                                     const Matrix<S, O>& a, const V* __restrict__ x, V* __restrict__ y) {
  if (FAST) {
    fast_chunk<ALL_CSR, DEFERRED, SIZE, MOST, PAIRS>(rows, chunks, chunk_ptr, chunk_row, a, x, y);
  } else {
    paper_chunk<ALL_CSR, DEFERRED>(rows, chunks, chunk_ptr, chunk_row, a, x, y);
  }
}

template <typename V, typename O, bool FAST, typename S = V>
__global__ void __launch_bounds__(WARP* FAST_WARPS, blocks<V>(8))
    tile_csr_spmv(int rows, int chunks, const int* __restrict__ chunk_ptr, const int* __restrict__ chunk_row, int cols,
                  const int* __restrict__ tile_col, const O* __restrict__ tile_nnz, const S* __restrict__ csr_val,
                  const Byte* __restrict__ csr_col, const Byte* __restrict__ csr_row_ptr, const V* __restrict__ x,
                  V* __restrict__ y) {
  const Matrix<S, O> a = {cols, tile_col, tile_nnz, csr_val, csr_col, csr_row_ptr};
  spmv<FAST, true, false, 384, 8, 5>(rows, chunks, chunk_ptr, chunk_row, a, x, y);
}

template <typename V, typename O, bool FAST, bool DEFERRED, typename S = V>
__global__ void __launch_bounds__(WARP* FAST_WARPS, blocks<V>(8))
    tile_spmv(int rows, int chunks, const int* __restrict__ chunk_ptr, const int* __restrict__ chunk_row,
              const Matrix<S, O> a, const V* __restrict__ x, V* __restrict__ y) {
  spmv<FAST, false, DEFERRED, 272, 4, 3>(rows, chunks, chunk_ptr, chunk_row, a, x, y);
}

// The tiles, and what is computed separately in CSR5, in one launch. y is zero. Tiles go first; MIXED, for a rest that
// is the larger part: their blocks are spread evenly among those of CSR5, whose gathers of x then have nearly all of
// the L1 cache. MIXED_WARPS: warps of their blocks.
constexpr int MIXED_WARPS = 8;

template <typename V, typename O, typename I, int SIGMA, int BATCH, bool MIXED, typename S = V>
__global__ void __launch_bounds__(WARP*(MIXED ? MIXED_WARPS : FAST_WARPS), blocks<V>(MIXED ? 4 : 7))
    tile_csr5_spmv(int rows, int chunks, const int* __restrict__ chunk_ptr, const int* __restrict__ chunk_row,
                   const Matrix<S, O> a, int csr5_tiles, int tail_row, const I* __restrict__ row_ptr,
                   const unsigned* __restrict__ tile_ptr, const unsigned* __restrict__ tile_desc,
                   const int* __restrict__ empty_ptr, const int* __restrict__ empty_offset,
                   const int* __restrict__ col_idx, const S* __restrict__ values, const V* __restrict__ x,
                   V* __restrict__ y) {
  constexpr int WARPS = MIXED ? MIXED_WARPS : FAST_WARPS;
  const long long block = blockIdx.x;
  const long long of_chunks = (chunks + WARPS - 1) / WARPS;
  const auto before = [=](long long block) {  // blocks of chunks
    return MIXED ? block * of_chunks / gridDim.x : block < of_chunks ? block : of_chunks;
  };
  const long long first = before(block);
  if (before(block + 1) > first) {
    if constexpr (MIXED) {
      lean_chunk(first * WARPS + threadIdx.x / WARP, rows, chunks, chunk_ptr, chunk_row, a, x, y);
    } else {
      fast_chunk<false, true, 384, 8, 3>(rows, chunks, chunk_ptr, chunk_row, a, x, y);
    }
  } else {
    const Tiles<V, int, const S*> rest{tile_ptr, tile_desc, empty_ptr, empty_offset, col_idx, values};
    csr5_share<ALL_ADDED, false, SIGMA, BATCH>((block - first) * WARPS + threadIdx.x / WARP, rows, csr5_tiles, tail_row,
                                               row_ptr, rest, x, y);
  }
}
