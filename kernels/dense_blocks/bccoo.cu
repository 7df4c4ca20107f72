// Blocked compressed common coordinates: blocks in equal shares, a bit each to say where block rows end; see
// spmvbench/formats/dense_blocks/bccoo.py.
#include "bccoo.cuh"
#include "spmv.cuh"
#include "together.cuh"

constexpr int NO_SHORT_COLUMN = 0xffff;

// The arrays of the format. Block j of thread t is at (t / across * STEPS + j) * across + t % across.
template <typename V, typename C>
struct Blocks {
  long long across;
  long long line;  // values from a line of the blocks to the next
  const C* __restrict__ block_col;
  const short* __restrict__ delta;
  const V* __restrict__ values;
};

__device__ __forceinline__ int column_of(unsigned short column) { return column == NO_SHORT_COLUMN ? -1 : column; }

__device__ __forceinline__ int column_of(int column) { return column; }

// Some steps of a thread, in flight.
template <typename V, typename C, int H, int W, bool DELTA, int LOADS>
struct Steps {
  int column[LOADS];  // or, where DELTA, its difference from the column before
  V value[LOADS][H][W];

  // `left` of them at most.
  __device__ __forceinline__ void load(const Blocks<V, C>& a, long long at, int left) {
#pragma unroll
    for (int u = 0; u < LOADS; ++u) {
      if (u >= left) break;
      const long long block = at + u * a.across;
      column[u] = DELTA ? static_cast<int>(load_stream(a.delta + block)) : column_of(load_stream(a.block_col + block));
#pragma unroll
      for (int i = 0; i < H; ++i) load_all<W>(a.values + i * a.line + block * W, value[u][i]);
    }
  }

  // Differences become columns. before: the column before the first, or where FIRST that of the first itself; the last
  // of these afterwards. Columns that are in block_col are looked for where some lane of the warp has one.
  template <bool FIRST>
  __device__ __forceinline__ void find_columns(const Blocks<V, C>& a, long long at, int left, int& before) {
    bool full = false;
#pragma unroll
    for (int u = 0; u < LOADS; ++u) {
      if (u >= left) break;
      if (FIRST && u == 0) column[u] = 0;
      full |= column[u] == FULL_COLUMN;
    }
    full = __any_sync(FULL_MASK, full);
#pragma unroll
    for (int u = 0; u < LOADS; ++u) {
      if (u >= left) break;
      if (full && column[u] == FULL_COLUMN) {
        column[u] = column_of(a.block_col[at + u * a.across]);
      } else {
        column[u] += before;
      }
      before = column[u];
    }
  }
};

// Walks the STEPS blocks of thread t. stop(row, sum, first) takes the H sums of every block row that ends in it;
// `first` says that the block row may have begun in another thread. What is open at the end is left in `sum`; the
// result says whether any block row ends. bits: bit j is set if the block row of block j goes on after it. All
// threads of the warp must call it.
template <typename V, typename C, int H, int W, int STEPS, bool DELTA, int LOADS, typename Stop>
__device__ __forceinline__ bool walk(const Blocks<V, C>& a, long long t, int cols, unsigned bits, int row,
                                     const V* __restrict__ x, V (&sum)[H], Stop stop) {
  const long long first = t / a.across * STEPS * a.across + t % a.across;
  bool any = false;
  Steps<V, C, H, W, DELTA, LOADS> next;
  next.load(a, first, STEPS);
  int column_before = DELTA ? column_of(load_stream(a.block_col + first)) : 0;
#pragma unroll
  for (int i = 0; i < H; ++i) sum[i] = V(0);
#pragma unroll
  for (int done = 0; done < STEPS; done += LOADS) {
    const int left = STEPS - done;
    Steps<V, C, H, W, DELTA, LOADS> now = next;
    if (LOADS < left) next.load(a, first + (done + LOADS) * a.across, left - LOADS);
    if (DELTA && done == 0) now.template find_columns<true>(a, first, left, column_before);
    if (DELTA && done > 0) now.template find_columns<false>(a, first + done * a.across, left, column_before);
    V factor[LOADS][W];
#pragma unroll
    for (int u = 0; u < LOADS; ++u) {
      if (u >= left) break;
#pragma unroll
      for (int q = 0; q < W; ++q) {
        // The last block column may reach over the edge; its values there are zeros.
        const int at = now.column[u] * W + q;
        factor[u][q] = now.column[u] < 0 ? V(0) : load_x(x, W == 1 || at < cols ? at : cols - 1);
      }
    }
#pragma unroll
    for (int u = 0; u < LOADS; ++u) {
      if (u >= left) break;
#pragma unroll
      for (int i = 0; i < H; ++i) {
#pragma unroll
        for (int q = 0; q < W; ++q) sum[i] += now.value[u][i][q] * factor[u][q];
      }
      if (!(bits >> (done + u) & 1)) {
        stop(row, sum, !any);
        any = true;
        ++row;
#pragma unroll
        for (int i = 0; i < H; ++i) sum[i] = V(0);
      }
    }
  }
  return any;
}

// The block rows in which warps begin, the only ones that a cut can leave in several parts, to zero. first_row: of each
// thread, the first block row that ends in it or after it.
template <typename V, int H>
__global__ void bccoo_zero(int warps, int rows, const int* __restrict__ first_row, V* __restrict__ y) {
  const long long warp = global_thread();
  if (warp >= warps || (warp > 0 && first_row[(warp - 1) * WARP] == first_row[warp * WARP])) return;
  const long long row = static_cast<long long>(first_row[warp * WARP]) * H;
#pragma unroll
  for (int i = 0; i < H; ++i) {
    if (row + i < rows) y[row + i] = V(0);
  }
}

// STEPS blocks per thread, LOADS of them in flight at a time. Block rows that end where they began are stored; what
// threads of a warp leave open is combined by shuffles, what warps leave open by atomics, on zeros.
template <typename V, typename C, typename F, int H, int W, int STEPS, bool DELTA, int LOADS>
__global__ void bccoo_fast(int rows, int cols, const F* __restrict__ flags, const int* __restrict__ first_row,
                           long long across, long long line, const C* __restrict__ block_col,
                           const short* __restrict__ delta, const V* __restrict__ values, const V* __restrict__ x,
                           V* __restrict__ y) {
  const Blocks<V, C> blocks{across, line, block_col, delta, values};
  const long long t = global_thread();
  const int lane = lane_id();
  const unsigned bits = load_stream(flags + t);
  const int head_row = load_stream(first_row + t);

  V head[H];
  V open[H];
  const bool ends = walk<V, C, H, W, STEPS, DELTA, LOADS>(blocks, t, cols, bits, head_row, x, open,
                                                          [&](int row, const V(&sum)[H], bool first) {
#pragma unroll
                                                            for (int i = 0; i < H; ++i) {
                                                              const long long at = static_cast<long long>(row) * H + i;
                                                              if (first) {
                                                                head[i] = sum[i];
                                                              } else if (H == 1 || at < rows) {
                                                                y[at] = sum[i];
                                                              }
                                                            }
                                                          });

  // What lanes before this one leave open, back to the last that ended a block row.
  const unsigned ended = __ballot_sync(FULL_MASK, ends);
  const unsigned ended_here = ended & (FULL_MASK >> (WARP - 1 - lane));  // this lane's and before
  const int from = ended_here ? WARP - 1 - __clz(static_cast<int>(ended_here)) : 0;
  if (ended != FULL_MASK) {
#pragma unroll
    for (int offset = 1; offset < WARP; offset *= 2) {
#pragma unroll
      for (int i = 0; i < H; ++i) {
        const V before = __shfl_up_sync(FULL_MASK, open[i], offset);
        if (lane - offset >= from) open[i] += before;
      }
    }
  }
  const bool began_earlier = !(ended_here & ~(1u << lane));  // perhaps before the warp
#pragma unroll
  for (int i = 0; i < H; ++i) {
    V before = __shfl_up_sync(FULL_MASK, open[i], 1);
    if (lane == 0) before = V(0);
    const long long at = static_cast<long long>(head_row) * H + i;
    if (ends && at < rows) {
      if (began_earlier) {
        atomicAdd(y + at, head[i] + before);
      } else {
        y[at] = head[i] + before;
      }
    }
  }
  if (lane == WARP - 1 && bits >> (STEPS - 1) & 1) {
    const long long at = static_cast<long long>(first_row[t + 1]) * H;
#pragma unroll
    for (int i = 0; i < H; ++i) {
      if (at + i < rows) atomicAdd(y + at + i, open[i]);
    }
  }
}

// The paper's: thread blocks of GROUP threads in the order of their start. Results are gathered in shared memory as far
// as GROUP block rows go; open sums are combined by a scan of the block if need_scan says that some thread ends no
// block row; a block waits for the one before it, where that leaves a block row open. sync: blocks begun, blocks ended,
// and how often the kernel ran; state: how often each block has given `passed`, its open sums.
template <typename V, typename C, typename F, int H, int W, int STEPS, bool DELTA, int GROUP>
__global__ void __launch_bounds__(GROUP)
    bccoo_paper(int rows, int cols, const F* __restrict__ flags, const int* __restrict__ first_row, long long across,
                long long line, const C* __restrict__ block_col, const short* __restrict__ delta,
                const V* __restrict__ values, const unsigned char* __restrict__ need_scan, const V* __restrict__ x,
                V* __restrict__ y, int* sync, volatile int* state, volatile V* passed) {
  __shared__ V cache[GROUP][H];
  __shared__ V open[2][GROUP][H];
  __shared__ bool heads[2][GROUP];
  __shared__ int number, runs;
  const Blocks<V, C> blocks{across, line, block_col, delta, values};
  const int thread = threadIdx.x;
  if (thread == 0) {
    runs = atomicAdd(sync + 2, 0) + 1;
    number = atomicAdd(sync, 1);
  }
  __syncthreads();
  const int group = number;
  const long long t = static_cast<long long>(group) * GROUP + thread;
  const unsigned bits = flags[t];
  const int head_row = first_row[t];
  const int base = first_row[static_cast<long long>(group) * GROUP];
  const int behind = first_row[static_cast<long long>(group + 1) * GROUP];

  const auto store = [&](int row, const V* sum) {
    for (int i = 0; i < H; ++i) {
      const long long at = static_cast<long long>(row) * H + i;
      if (at < rows) y[at] = sum[i];
    }
  };
  V sum[H];
  V first_sum[H];
  const bool ends = walk<V, C, H, W, STEPS, DELTA, 4>(blocks, t, cols, bits, head_row, x, sum,
                                                      [&](int row, const V(&found)[H], bool first) {
                                                        for (int i = 0; i < H; ++i) {
                                                          if (first) {
                                                            first_sum[i] = found[i];
                                                          } else if (row - base < GROUP) {
                                                            cache[row - base][i] = found[i];
                                                          }
                                                        }
                                                        if (!first && row - base >= GROUP) store(row, found);
                                                      });
  for (int i = 0; i < H; ++i) open[0][thread][i] = sum[i];
  heads[0][thread] = ends;
  __syncthreads();
  int now = 0;
  if (need_scan[group]) {
    for (int offset = 1; offset < GROUP; offset *= 2) {
      bool head = heads[now][thread];
      const bool take = thread >= offset && !head;
      if (take) head = heads[now][thread - offset];
      heads[now ^ 1][thread] = head;
      for (int i = 0; i < H; ++i) {
        open[now ^ 1][thread][i] = open[now][thread][i] + (take ? open[now][thread - offset][i] : V(0));
      }
      now ^= 1;
      __syncthreads();
    }
  }
  if (ends) {
    for (int i = 0; i < H; ++i) first_sum[i] += thread > 0 ? open[now][thread - 1][i] : V(0);
    if (head_row - base < GROUP) {
      for (int i = 0; i < H; ++i) cache[head_row - base][i] = first_sum[i];
    } else {
      store(head_row, first_sum);
    }
  }
  __syncthreads();
  if (thread == 0) {
    const auto pass = [&](const V* before) {
      for (int i = 0; i < H; ++i) {
        passed[static_cast<long long>(group) * H + i] = open[now][GROUP - 1][i] + (before ? before[i] : V(0));
      }
      __threadfence();
      state[group] = runs;
    };
    const bool ends_here = behind > base;
    if (ends_here || group == 0) pass(nullptr);
    if (group > 0) {
      while (state[group - 1] != runs) __nanosleep(20);
      __threadfence();
      V before[H];
      for (int i = 0; i < H; ++i) before[i] = passed[static_cast<long long>(group - 1) * H + i];
      if (ends_here) {
        for (int i = 0; i < H; ++i) cache[0][i] += before[i];
      } else {
        pass(before);
      }
    }
    __threadfence();
    if (atomicAdd(sync + 1, 1) == static_cast<int>(gridDim.x) - 1) {
      atomicExch(sync, 0);
      atomicExch(sync + 1, 0);
      atomicExch(sync + 2, runs);
    }
  }
  __syncthreads();
  const int kept = (behind - base < GROUP ? behind - base : GROUP) * H;
  for (int i = thread; i < kept; i += GROUP) {
    const long long at = static_cast<long long>(base) * H + i;
    if (at < rows) y[at] = cache[i / H][i % H];
  }
}

// y of a matrix whose `slices` vertical slices are one below the other, `height` rows each: their sum.
template <typename V>
__global__ void bccoo_sum_slices(int rows, long long height, int slices, const V* __restrict__ stacked,
                                 V* __restrict__ y) {
  const long long row = global_thread();
  if (row >= rows) return;
  V sum = 0;
  for (int s = 0; s < slices; ++s) sum += load_stream(stacked + s * height + row);
  y[row] = sum;
}
