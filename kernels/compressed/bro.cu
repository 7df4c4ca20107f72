// BRO (Tang et al. 2013, 2015): columns as differences, rows as differences, packed into bits; see
// spmvbench/formats/compressed.
#include "bits.cuh"
#include "carry.cuh"
#include "spmv.cuh"

// BRO-ELL. A block per slice, a thread per row; all rows of a slice have their difference of a position in as many
// bits, so that all threads are at the same place of their streams. A difference of 0 is padding. SORTED: `perm` holds
// the rows.
template <typename V, typename P, int HEIGHT, bool SORTED, bool ADD, typename S = V>
__global__ void __launch_bounds__(HEIGHT)
    bro_ell(int rows, const P* __restrict__ slice_ptr, const P* __restrict__ symbol_ptr,
            const unsigned char* __restrict__ widths, const unsigned* __restrict__ symbols,
            const int* __restrict__ perm, const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y) {
  constexpr int BATCH = 4;
  const P first = slice_ptr[blockIdx.x];
  const int width = static_cast<int>(slice_ptr[blockIdx.x + 1] - first);
  const P word = symbol_ptr[blockIdx.x];
  const int words = static_cast<int>(symbol_ptr[blockIdx.x + 1] - word);
  BitReader<true, 2> reader(symbols + static_cast<long long>(word) * HEIGHT + threadIdx.x, words, HEIGHT);
  values += static_cast<long long>(first) * HEIGHT + threadIdx.x;
  widths += first;

  int column = -1;
  V sum = 0;
  for (int p = 0; p < width; p += BATCH) {
    S value[BATCH];
    int columns[BATCH];
    int bits[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const bool inside = p + u < width;
      value[u] = inside ? load_stream(values + u * HEIGHT) : S(0);
      bits[u] = inside ? __ldg(widths + p + u) : 0;
    }
    values += BATCH * HEIGHT;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const int step = static_cast<int>(reader.take(bits[u]));
      column += step;
      columns[u] = step ? column : -1;
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (columns[u] >= 0) sum += value[u] * load_x(x, columns[u]);
    }
  }
  const long long place = static_cast<long long>(blockIdx.x) * HEIGHT + threadIdx.x;
  if (place < rows) put<ADD>(y + (SORTED ? perm[place] : place), sum);
}

// A warp's walk over entries in the order of rows, 32 at a time: what is open goes on to the next 32.
template <typename V>
struct OpenRow {
  int row;
  V sum;

  // Products of 32 entries whose rows ascend over the lanes. Rows that end among them are added to y.
  __device__ __forceinline__ void add(int entry_row, V product, V* __restrict__ y) {
    if (lane_id() == 0) {
      if (entry_row == row) {
        product += sum;
      } else {
        atomicAdd(y + row, sum);
      }
    }
    product = warp_segmented_scan(entry_row, product);
    const int next = __shfl_down_sync(FULL_MASK, entry_row, 1);
    if (lane_id() < WARP - 1 && next != entry_row) atomicAdd(y + entry_row, product);
    row = __shfl_sync(FULL_MASK, entry_row, WARP - 1);
    sum = __shfl_sync(FULL_MASK, product, WARP - 1);
  }
};

// BRO-COO. A warp an interval of 32 * steps entries: lane l has those at l, l + 32, ... and its rows as differences to
// its own entry before. y holds what is added to; what is open at an interval's end is its carry.
template <typename V, typename S = V>
__global__ void bro_coo(int intervals, int steps, const int* __restrict__ base,
                        const unsigned char* __restrict__ widths, const int* __restrict__ word_ptr,
                        const unsigned* __restrict__ words, const int* __restrict__ col_idx,
                        const S* __restrict__ values, const V* __restrict__ x, V* __restrict__ y,
                        int* __restrict__ carry_row, V* __restrict__ carry_sum) {
  constexpr int BATCH = 4;
  const long long interval = global_thread() / WARP;
  if (interval >= intervals) return;  // the whole warp
  const int lane = lane_id();
  const int width = widths[interval];
  const int begin = word_ptr[interval];
  BitReader<false> reader(words + begin + lane, (word_ptr[interval + 1] - begin) / WARP, WARP);
  int row = base[interval];
  OpenRow<V> open{row, V(0)};
  col_idx += interval * steps * WARP + lane;
  values += interval * steps * WARP + lane;
  for (int step = 0; step < steps; step += BATCH) {
    int columns[BATCH];
    S value[BATCH];
    V product[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      columns[u] = load_stream(col_idx + (step + u) * WARP);
      value[u] = load_stream(values + (step + u) * WARP);
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const V x_column = load_x(x, max(columns[u], 0));
      product[u] = columns[u] >= 0 ? value[u] * x_column : V(0);
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      row += static_cast<int>(reader.take(width));
      open.add(row, product[u], y);
    }
  }
  if (lane == 0) {
    carry_row[interval] = open.row;
    carry_sum[interval] = open.sum;
  }
}

// BRO-CSR. LANES threads per row, which take its entries in rounds of so many; a round's differences are packed in a
// string of its own. LISTED: of the rows in `listed`. ADD: y += A x.
template <typename V, typename I, int LANES, bool LISTED, bool ADD, typename S = V>
__global__ void bro_csr(int rows, const int* __restrict__ listed, const I* __restrict__ row_ptr,
                        const int* __restrict__ round_ptr, const int* __restrict__ base,
                        const unsigned char* __restrict__ widths, const int* __restrict__ word_ptr,
                        const unsigned* __restrict__ words, const S* __restrict__ values, const V* __restrict__ x,
                        V* __restrict__ y) {
  const long long row = global_thread() / LANES;
  const int lane = lane_id() % LANES;
  int round = 0, end = 0;
  I entry = 0, last = 0;
  if (row < rows) {
    round = round_ptr[row];
    end = round_ptr[row + 1];
    entry = row_ptr[row] + lane;
    last = row_ptr[row + 1];
  }
  V sum = 0;
  for (; __any_sync(FULL_MASK, round < end); ++round, entry += LANES) {
    const bool inside = round < end && entry < last;
    int step = 0;
    S value(0);
    if (inside) {
      value = load_stream(values + entry);
      if (lane > 0) {
        const int width = widths[round];
        const long long bit = static_cast<long long>(lane - 1) * width;
        const unsigned* at = words + word_ptr[round] + bit / 32;
        const int shift = static_cast<int>(bit % 32);
        unsigned long long pair = 0;
        if (width > 0) pair = __ldg(at);
        if (shift + width > 32) pair |= static_cast<unsigned long long>(__ldg(at + 1)) << 32;
        step = 1 + static_cast<int>(pair >> shift & ((1ull << width) - 1));
      } else {
        step = base[round];
      }
    }
    const int column = group_scan<LANES>(step);
    if (inside) sum += value * load_x(x, column);
  }
  sum = group_sum<LANES>(sum);
  if (lane == 0 && row < rows) put<ADD>(y + (LISTED ? listed[row] : row), sum);
}

// BLSI. Row and column of an entry in one key, the column in the low `bits`. A warp takes `steps` times 32 entries; y
// holds what is added to.
template <typename V, typename I, typename K, typename S = V>
__global__ void blsi_warp(I nnz, int steps, int bits, const K* __restrict__ keys, const S* __restrict__ values,
                          const V* __restrict__ x, V* __restrict__ y) {
  constexpr int BATCH = 4;
  const long long begin = global_thread() / WARP * steps * WARP;
  if (begin >= nnz) return;  // the whole warp
  const K mask = (K(1) << bits) - 1;
  OpenRow<V> open{static_cast<int>(keys[begin] >> bits), V(0)};
  for (int step = 0; step < steps; step += BATCH) {
    if (begin + step * WARP >= nnz) break;
    int row[BATCH];
    V product[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const long long k = begin + (step + u) * WARP + lane_id();
      const K key = load_stream(keys + (k < nnz ? k : nnz - 1));
      row[u] = static_cast<int>(key >> bits);
      const V x_column = load_x(x, static_cast<int>(key & mask));
      product[u] = k < nnz ? load_stream(values + k) * x_column : V(0);
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) open.add(row[u], product[u], y);
  }
  if (lane_id() == 0) atomicAdd(y + open.row, open.sum);
}

template <typename V, typename I, typename K, typename S = V>
__global__ void blsi_entry(I nnz, int bits, const K* __restrict__ keys, const S* __restrict__ values,
                           const V* __restrict__ x, V* __restrict__ y) {
  const long long k = global_thread();
  if (k >= nnz) return;
  const K key = load_stream(keys + k);
  atomicAdd(y + static_cast<int>(key >> bits),
            load_stream(values + k) * load_x(x, static_cast<int>(key & ((K(1) << bits) - 1))));
}
