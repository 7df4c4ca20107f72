// EHYB: a block copies the x of its partition, the window, into shared memory and multiplies the partition's slices
// from there; entries outside of windows are in extra rows. Step k of a slice's lane l is at 32 * (slice_ptr[slice] +
// k) + l.
#include "spmv.cuh"

constexpr int THREADS = 1024;  // of a block

constexpr int BATCH = 8;  // entries of a lane that are loaded before the first is used

// Entries of a slice's rows. After its end they are zeros that point to the window's zero.
template <typename S>
struct Batch {
  unsigned short column[BATCH];
  S value[BATCH];

  __device__ __forceinline__ void load(const unsigned short* __restrict__ columns, const S* __restrict__ values,
                                       int step, int end, int zero) {
    const long long slot = static_cast<long long>(step) * WARP + lane_id();
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      column[u] = static_cast<unsigned short>(zero);
      value[u] = S(0);
      if (step + u < end) {
        column[u] = load_stream(columns + slot + u * WARP);
        value[u] = load_stream(values + slot + u * WARP);
      }
    }
  }

  template <typename V>
  __device__ __forceinline__ V times(const V* cached) const {
    V sum = 0;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) sum += value[u] * cached[column[u]];
    return sum;
  }
};

// A lane's sum over a slice of extra rows; a column of -1 is padding.
template <typename V, typename S>
__device__ __forceinline__ V extra_sum(int step, int end, const int* __restrict__ columns, const S* __restrict__ values,
                                       const V* __restrict__ x) {
  V sum = 0;
  for (; step < end; step += BATCH) {
    const long long slot = static_cast<long long>(step) * WARP + lane_id();
    int column[BATCH];
    S value[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      column[u] = step + u < end ? load_stream(columns + slot + u * WARP) : -1;
      value[u] = step + u < end ? load_stream(values + slot + u * WARP) : S(0);
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (column[u] >= 0) sum += value[u] * load_x(x, column[u]);
    }
  }
  return sum;
}

// Every partition has `share` blocks, which take its slices in turn, each with the extra rows of the rows in them.
// Warps get a block's tasks, slices and then slices of extra rows, from a counter. NATURAL: x and y are in the matrix's
// order; the window is gathered and y scattered by `order`. Dynamic shared memory: the window, a zero for padding to
// point to, and the counter in the room of a value.
template <typename V, bool NATURAL, typename S = V>
__global__ void __launch_bounds__(THREADS)
    ehyb_spmv(int share, int window, const int* __restrict__ order, const int* __restrict__ begin,
              const int* __restrict__ slice_begin, const int* __restrict__ slice_ptr,
              const unsigned short* __restrict__ local_columns, const S* __restrict__ values,
              const int* __restrict__ extra_begin, const int* __restrict__ extra_ptr,
              const int* __restrict__ extra_rows, const int* __restrict__ extra_columns,
              const S* __restrict__ extra_values, const V* __restrict__ x, V* __restrict__ y) {
  constexpr int STAGED = 8;  // values of x that a thread copies to the window at a time
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* cached = reinterpret_cast<V*>(dynamic_shared);
  int* counter = reinterpret_cast<int*>(cached + window + 1);

  const int part = blockIdx.x / share;
  const int turn = blockIdx.x % share;
  const int first_place = begin[part];
  const int places = begin[part + 1] - first_place;
  const int first_slice = slice_begin[part];
  const int slices = (slice_begin[part + 1] - first_slice - turn + share - 1) / share;  // of this block
  const int first_extra = extra_begin[blockIdx.x];
  const int tasks = slices + extra_begin[blockIdx.x + 1] - first_extra;
  const int filled = min(places, window);

  const auto element = [=](int place) { return NATURAL ? order[first_place + place] : first_place + place; };
  const auto take = [=]() {
    int task = 0;
    if (lane_id() == 0) task = atomicAdd(counter, 1);
    return __shfl_sync(FULL_MASK, task, 0);
  };
  // A lane's row in a slice: its steps, and the element of y, -1 for none.
  struct Row {
    int step, end, y;
  };
  const auto row_of = [=](int task) {
    Row row{0, 0, -1};
    if (task >= slices) return row;
    const int slice = turn + task * share;
    row.step = slice_ptr[first_slice + slice];
    row.end = slice_ptr[first_slice + slice + 1];
    const int place = slice * WARP + lane_id();
    if (place < places) row.y = element(place);
    return row;
  };

  int names[STAGED];
  V staged[STAGED];
  const auto name = [&](int place) {
#pragma unroll
    for (int u = 0; u < STAGED; ++u) {
      const int at = place + u * blockDim.x;
      names[u] = at < filled ? element(at) : -1;
    }
  };
  const auto gather = [&]() {
#pragma unroll
    for (int u = 0; u < STAGED; ++u) {
      if (names[u] >= 0) staged[u] = load_x(x, names[u]);
    }
  };
  const auto put = [&](int place) {
#pragma unroll
    for (int u = 0; u < STAGED; ++u) {
      if (names[u] >= 0) cached[place + u * blockDim.x] = staged[u];
    }
  };
  // The warp's first entries are in flight while the window is filled.
  int task = threadIdx.x / WARP;
  Batch<S> batch;
  name(threadIdx.x);
  Row row = row_of(task);
  gather();
  batch.load(local_columns, values, row.step, row.end, window);
  put(threadIdx.x);
  for (int place = threadIdx.x + STAGED * blockDim.x; place < filled; place += STAGED * blockDim.x) {
    name(place);
    gather();
    put(place);
  }
  if (threadIdx.x == 0) {
    cached[window] = 0;
    *counter = blockDim.x / WARP;
  }
  __syncthreads();

  while (task < slices) {
    const int next_task = take();
    const Row next = row_of(next_task);
    V sum = batch.times(cached);
    for (int step = row.step + BATCH; step < row.end; step += BATCH) {
      batch.load(local_columns, values, step, row.end, window);
      sum += batch.times(cached);
    }
    batch.load(local_columns, values, next.step, next.end, window);
    if (row.y >= 0) y[row.y] = sum;
    task = next_task;
    row = next;
  }

  // A warp's first extra rows are summed while others still have slices; they are added when all of y is.
  bool stands = false;
  while (true) {
    V sum = 0;
    int extra_row = -1;
    if (task < tasks) {
      const int slice = first_extra + task - slices;
      extra_row = extra_rows[static_cast<long long>(slice) * WARP + lane_id()];
      sum = extra_sum(extra_ptr[slice], extra_ptr[slice + 1], extra_columns, extra_values, x);
    }
    if (!stands) __syncthreads();
    stands = true;
    if (extra_row >= 0) atomicAdd(y + extra_row, sum);
    if (task >= tasks) break;
    task = take();
  }
}

// The authors' scheme: an entry at a time, and extra rows left to all. A block's warps take slices of their partition
// from a counter, of the block where it has the partition alone, else in counters[partition]; then slices of extra rows
// from the counter after those, whose sums go to extra_y. Counters in device memory are 0 before. Dynamic shared memory
// as above.
template <typename V, bool NATURAL, typename S = V>
__global__ void __launch_bounds__(THREADS)
    ehyb_paper(int share, int window, const int* __restrict__ order, const int* __restrict__ begin,
               const int* __restrict__ slice_begin, const int* __restrict__ slice_ptr,
               const unsigned short* __restrict__ local_columns, const S* __restrict__ values, int extra_slices,
               const int* __restrict__ extra_ptr, const int* __restrict__ extra_columns,
               const S* __restrict__ extra_values, int* __restrict__ counters, const V* __restrict__ x,
               V* __restrict__ extra_y, V* __restrict__ y) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  V* cached = reinterpret_cast<V*>(dynamic_shared);
  int* counter = reinterpret_cast<int*>(cached + window + 1);

  const int part = blockIdx.x / share;
  const int first_place = begin[part];
  const int places = begin[part + 1] - first_place;
  const int first_slice = slice_begin[part];
  const int slices = slice_begin[part + 1] - first_slice;
  const auto element = [=](int place) { return NATURAL ? order[first_place + place] : first_place + place; };
  const auto take = [](int* from) {
    int taken = 0;
    if (lane_id() == 0) taken = atomicAdd(from, 1);
    return __shfl_sync(FULL_MASK, taken, 0);
  };

  for (int place = threadIdx.x; place < min(places, window); place += blockDim.x) {
    cached[place] = load_x(x, element(place));
  }
  if (threadIdx.x == 0) {
    cached[window] = 0;
    *counter = 0;
  }
  __syncthreads();

  int* slices_taken = share == 1 ? counter : counters + part;
  for (int slice = take(slices_taken); slice < slices; slice = take(slices_taken)) {
    V sum = 0;
    const int end = slice_ptr[first_slice + slice + 1];
#pragma unroll 4
    for (int step = slice_ptr[first_slice + slice]; step < end; ++step) {
      const long long slot = static_cast<long long>(step) * WARP + lane_id();
      sum += load_stream(values + slot) * cached[load_stream(local_columns + slot)];
    }
    const int place = slice * WARP + lane_id();
    if (place < places) y[element(place)] = sum;
  }
  int* extra_taken = counters + gridDim.x / share;
  for (int slice = take(extra_taken); slice < extra_slices; slice = take(extra_taken)) {
    V sum = 0;
    const int end = extra_ptr[slice + 1];
#pragma unroll 2
    for (int step = extra_ptr[slice]; step < end; ++step) {
      const long long slot = static_cast<long long>(step) * WARP + lane_id();
      const int column = load_stream(extra_columns + slot);
      if (column >= 0) sum += load_stream(extra_values + slot) * load_x(x, column);
    }
    extra_y[static_cast<long long>(slice) * WARP + lane_id()] = sum;
  }
}

// Adds the sums of the authors' extra rows, no two of one row of y; a row of -1 is none.
template <typename V>
__global__ void ehyb_add(int n, const int* __restrict__ extra_rows, const V* __restrict__ extra_y, V* __restrict__ y) {
  const long long i = global_thread();
  if (i < n && extra_rows[i] >= 0) y[extra_rows[i]] += extra_y[i];
}

// The extra rows that blocks have left to all: a warp per slice.
template <typename V, typename S = V>
__global__ void ehyb_left(int blocks, const int* __restrict__ extra_begin, const int* __restrict__ extra_ptr,
                          const int* __restrict__ extra_rows, const int* __restrict__ extra_columns,
                          const S* __restrict__ extra_values, const V* __restrict__ x, V* __restrict__ y) {
  const int slice = extra_begin[blocks] + static_cast<int>(global_thread() / WARP);
  if (slice >= extra_begin[blocks + 1]) return;
  const int row = extra_rows[static_cast<long long>(slice) * WARP + lane_id()];
  const V sum = extra_sum(extra_ptr[slice], extra_ptr[slice + 1], extra_columns, extra_values, x);
  if (row >= 0) atomicAdd(y + row, sum);
}
