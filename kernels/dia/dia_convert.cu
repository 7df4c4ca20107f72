// CSR to diagonals on the device; see spmvbench/formats/dia/dia.py. A warp takes 32 rows, a thread per row.
#include "largest.cuh"
#include "offsets.cuh"
#include "private_counts.cuh"
#include "search.cuh"
#include "side_by_side.cuh"
#include "spmv.cuh"

constexpr int NONE = 0x7fffffff;  // above every diagonal

// The diagonals col - row of a row's entries, in order: columns ascend, and so do they.
template <typename I>
struct RowWalk {
  const int* __restrict__ col_idx;
  int row;
  I entry, end;
  int diagonal;  // of the entry; NONE after the last

  __device__ __forceinline__ RowWalk(int rows, long long row, const I* __restrict__ row_ptr,
                                     const int* __restrict__ col_idx)
      : col_idx(col_idx), row(static_cast<int>(row)), entry(0), end(0) {
    if (row < rows) {
      entry = row_ptr[row];
      end = row_ptr[row + 1];
    }
    look();
  }

  __device__ __forceinline__ void look() { diagonal = entry < end ? col_idx[entry] - row : NONE; }

  __device__ __forceinline__ void advance() {
    ++entry;
    look();
  }
};

// The first diagonal that any row of the warp has still before it.
template <typename I>
__device__ __forceinline__ int first_diagonal(const RowWalk<I>& walk) {
  return warp_min(walk.diagonal);
}

constexpr int PIECE = 256;  // entries of the longest row of a hack for each warp that walks it

// Offsets of the warps that walk each hack: one, and more where a row is long.
template <typename I, typename P>
__global__ void __launch_bounds__(OFFSETS_BLOCK)
    hdi_parts(int rows, int hacks, const I* __restrict__ row_ptr, P* __restrict__ ptr,
              unsigned long long* __restrict__ state) {
  write_offsets<1>(hacks, ptr, state, [=](long long at) {
    int parts = 0;
#pragma unroll 8
    for (int h = 0; h < WARP; ++h) {
      const long long row = (at - lane_id() + h) * WARP + lane_id();
      const int longest = warp_max(row < rows ? static_cast<int>(row_ptr[row + 1] - row_ptr[row]) : 0);
      if (h == lane_id()) parts = longest > PIECE ? (longest + PIECE - 1) / PIECE : 1;
    }
    return at < hacks ? parts : 0ll;
  });
}

// The hack and the diagonals, from `first` on and before `end`, that a warp walks. PARTS: hacks may have several warps.
// Equal shares of the entries of its longest row cut a hack.
template <typename I, typename P, bool PARTS>
struct HackPart {
  long long hack;
  int first = -NONE, end = NONE;

  __device__ __forceinline__ HackPart(long long part, int rows, int hacks, const P* __restrict__ part_ptr,
                                      const I* __restrict__ row_ptr, const int* __restrict__ col_idx)
      : hack(part) {
    if (!PARTS) return;
    hack = first_behind(part_ptr, 0, hacks + 1, static_cast<P>(part)) - 1;
    const long long parts = part_ptr[hack + 1] - part_ptr[hack], own = part - part_ptr[hack];
    if (parts == 1) return;
    const long long row = hack * WARP + lane_id();
    const int length = row < rows ? static_cast<int>(row_ptr[row + 1] - row_ptr[row]) : 0;
    const int longest = warp_max(length);
    const int lane = __ffs(static_cast<int>(__ballot_sync(FULL_MASK, length == longest))) - 1;
    const long long cut = hack * WARP + lane;
    const int* columns = col_idx + row_ptr[cut];
    if (own > 0) first = static_cast<int>(columns[own * longest / parts] - cut);
    if (own + 1 < parts) end = static_cast<int>(columns[(own + 1) * longest / parts] - cut);
  }

  __device__ __forceinline__ RowWalk<I> walk(int rows, const I* __restrict__ row_ptr,
                                             const int* __restrict__ col_idx) const {
    RowWalk<I> found(rows, hack * WARP + lane_id(), row_ptr, col_idx);
    if (first != -NONE) {
      const long long column = static_cast<long long>(found.row) + first;
      if (column > 0) {
        found.entry =
            column < NONE ? entry_from(col_idx, found.entry, found.end, static_cast<int>(column), I(0)) : found.end;
        found.look();
      }
    }
    return found;
  }
};

// How many diagonals each part of a hack has.
template <typename I, typename P, bool PARTS>
__global__ void hdi_count(int rows, int hacks, long long parts, const P* __restrict__ part_ptr,
                          const I* __restrict__ row_ptr, const int* __restrict__ col_idx, int* __restrict__ counts) {
  const long long part = global_thread() / WARP;
  if (part >= parts) return;  // the whole warp
  const HackPart<I, P, PARTS> here(part, rows, hacks, part_ptr, row_ptr, col_idx);
  RowWalk<I> walk = here.walk(rows, row_ptr, col_idx);
  int count = 0;
  for (int diagonal; (diagonal = first_diagonal(walk)) < here.end; ++count) {
    if (walk.diagonal == diagonal) walk.advance();
  }
  if (lane_id() == 0) counts[part] = count;
}

// Those diagonals, and where each hack begins. ptr: of the parts.
template <typename V, typename I, typename P, typename D, bool PARTS>
__global__ void hdi_fill(int rows, int hacks, long long parts, const P* __restrict__ part_ptr,
                         const D* __restrict__ ptr, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                         const V* __restrict__ csr_values, I* __restrict__ hack_ptr, int* __restrict__ offset,
                         V* __restrict__ values) {
  const long long part = global_thread() / WARP;
  if (part >= parts) return;  // the whole warp
  const HackPart<I, P, PARTS> here(part, rows, hacks, part_ptr, row_ptr, col_idx);
  long long d = ptr[part];
  if (lane_id() == 0) {
    if (!PARTS || part == part_ptr[here.hack]) hack_ptr[here.hack] = static_cast<I>(d);
    if (part + 1 == parts) hack_ptr[hacks] = static_cast<I>(ptr[parts]);
  }
  RowWalk<I> walk = here.walk(rows, row_ptr, col_idx);
  for (int diagonal; (diagonal = first_diagonal(walk)) < here.end; ++d) {
    const bool own = walk.diagonal == diagonal;
    values[d * WARP + lane_id()] = own ? csr_values[walk.entry] : V(0);
    if (lane_id() == 0) offset[d] = diagonal;
    if (own) walk.advance();
  }
}

// seen[diagonal + rows - 1] = 1 for every diagonal that holds an entry. Volatile: all threads write the same there.
template <typename I>
__global__ void dia_mark(int rows, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                         volatile unsigned char* __restrict__ seen) {
  const long long row = global_thread();
  if (row >= rows) return;
  for (I k = row_ptr[row]; k < row_ptr[row + 1]; ++k) {
    const long long at = col_idx[k] - row + rows - 1;
    if (!seen[at]) seen[at] = 1;
  }
}

template <typename V, typename I>
__global__ void dia_fill(int rows, int diagonals, long long pitch, const I* __restrict__ row_ptr,
                         const int* __restrict__ col_idx, const V* __restrict__ csr_values,
                         const int* __restrict__ offset, V* __restrict__ values) {
  const long long row = global_thread();
  if (row >= pitch) return;
  RowWalk<I> walk(rows, row, row_ptr, col_idx);
  for (int d = 0; d < diagonals; ++d) {
    const bool here = walk.diagonal == offset[d];
    values[d * pitch + row] = here ? csr_values[walk.entry] : V(0);
    if (here) walk.advance();
  }
}

constexpr int SHARE = 8192;  // entries of a block that takes entries, not rows

// use(entry, diagonal) for every entry of the block's `share`, of which each warp takes neighbours: its rows are found once
// for the share, an entry's from that of the lane's entry before. Whole warps use it: NONE is no diagonal.
template <typename I, typename Use>
__device__ __forceinline__ void each_entry(I nnz, int rows, int share, const I* __restrict__ row_ptr,
                                           const int* __restrict__ col_idx, Use use) {
  const I begin = static_cast<I>(blockIdx.x) * static_cast<I>(share);
  const I end = nnz - begin < share ? nnz : begin + static_cast<I>(share);
  const int low = first_behind_of_warp(row_ptr, 0, rows, begin);
  const int high = first_behind_of_warp(row_ptr, low, rows, end - 1);
  const I of_warp = share / (blockDim.x / WARP);
  const I first = begin + static_cast<I>(threadIdx.x / WARP) * of_warp;
  const I last = first + of_warp < end ? first + of_warp : end;
  int row = -1;
  for (I from = first; from < last; from += WARP) {
    const I k = from + lane_id();
    if (k < last) row = row < 0 ? first_behind(row_ptr, low, high, k) - 1 : row_from(row_ptr, row, high, k);
    use(k, k < last ? load_stream(col_idx + k) - row : NONE);
  }
}

// Adds to `held`, zero before, how many entries each diagonal has, by diagonal + rows - 1. share: entries of a block.
// Neighbouring rows have the same diagonals.
template <typename I>
__global__ void dia_sizes(I nnz, int rows, int share, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
                          int* __restrict__ held) {
  __shared__ PrivateCounts own;
  own.begin();
  int luck = 0;
  each_entry(nnz, rows, share, row_ptr, col_idx, [&](I, int at) {
    if (at != NONE) own.add(at, held + (rows - 1), luck);
  });
  own.end(held + (rows - 1));
}

constexpr int LISTED = 4096;  // diagonals that a kernel lists

// list, zero before: the sum of `held` over the diagonals that are kept, in two words, how many these are, then those, in
// any order, as far as there is room. held: entries of each, or whether there are any, by diagonal + rows - 1. theta: kept from this share of its places; 0: where it takes
// fewer bytes than its entries, each with a column; below: wherever there are any.
template <typename T>
__global__ void dia_list(int rows, int cols, const T* __restrict__ held, double theta, int value_bytes,
                         int* __restrict__ list) {
  const long long at = global_thread();
  if (at >= static_cast<long long>(rows) + cols - 1) return;
  const long long entries = held[at];
  if (!entries) return;
  const long long diagonal = at - (rows - 1);
  const long long below = diagonal < 0 ? -diagonal : 0;
  const long long length = (rows < cols - diagonal ? rows : cols - diagonal) - below;
  const bool kept = theta < 0    ? true
                    : theta == 0 ? entries * (value_bytes + 4) > length * value_bytes
                                 : static_cast<double>(entries) >= theta * static_cast<double>(length);
  if (!kept) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(list), static_cast<unsigned long long>(entries));
  const int place = atomicAdd(list + 2, 1);
  if (place < LISTED) list[3 + place] = static_cast<int>(diagonal);
}

// The diagonals of a list, as `dia_list` gives it, ascending.
__global__ void dia_ascending(const int* __restrict__ list, int* __restrict__ offset) {
  const int kept = list[2] < LISTED ? list[2] : LISTED, at = static_cast<int>(global_thread());
  if (at >= kept) return;
  const int diagonal = list[3 + at];
  int place = 0;
  for (int k = 0; k < kept; ++k) place += list[3 + k] < diagonal;
  offset[place] = diagonal;
}

constexpr int PLACES = 2048;  // of diagonals

// Some diagonals, which ascend, and whether one is among them: by its place, if no other one has the same.
struct Diagonals {
  static constexpr int SEVERAL = NONE - 1;

  int of_place[PLACES];

  // All threads of the block arrive.
  __device__ __forceinline__ void begin(const int* __restrict__ offset, int diagonals) {
    for (int place = threadIdx.x; place < PLACES; place += blockDim.x) of_place[place] = NONE;
    __syncthreads();
    for (int d = threadIdx.x; d < diagonals; d += blockDim.x) {
      int* const place = of_place + (offset[d] & (PLACES - 1));
      if (atomicCAS(place, NONE, offset[d]) != NONE) atomicExch(place, SEVERAL);
    }
    __syncthreads();
  }

  __device__ __forceinline__ bool has(const int* __restrict__ offset, int diagonals, int diagonal) const {
    const int found = of_place[diagonal & (PLACES - 1)];
    if (found != SEVERAL) return found == diagonal;
    const int after = first_behind(offset, 0, diagonals, diagonal);
    return after > 0 && offset[after - 1] == diagonal;
  }
};

// Of each block's share the entries that are on none of the diagonals.
template <typename I>
__global__ void __launch_bounds__(WARP* WARP)
    dia_others(I nnz, int rows, int diagonals, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
               const int* __restrict__ offset, int* __restrict__ counts) {
  __shared__ int all;
  __shared__ Diagonals taken;
  if (threadIdx.x == 0) all = 0;
  taken.begin(offset, diagonals);
  int others = 0;
  each_entry(nnz, rows, SHARE, row_ptr, col_idx,
             [&](I, int at) { others += at != NONE && !taken.has(offset, diagonals, at); });
  others = group_sum<WARP>(others);
  if (lane_id() == 0 && others) atomicAdd(&all, others);
  __syncthreads();
  if (threadIdx.x == 0) counts[blockIdx.x] = all;
}

// Those entries, in order. before: how many there are before each share.
template <typename V, typename I, typename P>
__global__ void __launch_bounds__(WARP* WARP)
    dia_rest(I nnz, int rows, int diagonals, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
             const V* __restrict__ csr_values, const int* __restrict__ offset, const P* __restrict__ before,
             int* __restrict__ columns, V* __restrict__ values) {
  __shared__ int of_warp[2][WARP];
  __shared__ Diagonals taken;
  taken.begin(offset, diagonals);
  const I begin = static_cast<I>(blockIdx.x) * SHARE;
  const I end = nnz - begin < SHARE ? nnz : begin + SHARE;
  const int low = first_behind_of_warp(row_ptr, 0, rows, begin);
  const int high = first_behind_of_warp(row_ptr, low, rows, end - 1);
  const int warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  long long next = before[blockIdx.x];
  int turn = 0, row = -1;
  for (I first = begin; first < end; first += blockDim.x, turn ^= 1) {
    const I k = first + threadIdx.x;
    const int column = k < end ? load_stream(col_idx + k) : 0;
    if (k < end) row = row < 0 ? first_behind(row_ptr, low, high, k) - 1 : row_from(row_ptr, row, high, k);
    const bool other = k < end && !taken.has(offset, diagonals, column - row);
    const unsigned others = __ballot_sync(FULL_MASK, other);
    if (lane_id() == 0) of_warp[turn][warp] = __popc(others);
    __syncthreads();
    long long place = next + __popc(others & ((1u << lane_id()) - 1));
    for (int w = 0; w < warps; ++w) {
      if (w < warp) place += of_warp[turn][w];
      next += of_warp[turn][w];
    }
    if (!other) continue;
    columns[place] = column;
    values[place] = csr_values[k];
  }
}

constexpr int TAKE_BLOCK = 128;

// The entries on some of a matrix's diagonals, which ascend: a thread looks for those of its row, in what the warp reads of
// all its rows. others: how many of each row are on none.
template <typename V, typename I>
__global__ void __launch_bounds__(TAKE_BLOCK)
    dia_take(int rows, int diagonals, long long pitch, const I* __restrict__ row_ptr, const int* __restrict__ col_idx,
             const V* __restrict__ csr_values, const int* __restrict__ offset, V* __restrict__ values,
             int* __restrict__ others) {
  __shared__ Side<V> sides[TAKE_BLOCK / WARP];
  Side<V>& side = sides[threadIdx.x / WARP];
  const long long row = global_thread();
  if (row >= pitch) return;  // the whole warp
  I entry = row < rows ? row_ptr[row] : I(0);
  const I end = row < rows ? row_ptr[row + 1] : I(0);
  int left = static_cast<int>(end - entry);
  int at = 0, read = 0;  // of the entries read, the first whose column is not below the diagonal's
  for (int d = 0; d < diagonals; ++d) {
    const long long column = row + offset[d];
    while (true) {
      while (at < read && side.columns[lane_id()][at] < column) ++at;
      const bool none = column >= 0 && at == read && entry + static_cast<I>(read) < end;
      if (!__any_sync(FULL_MASK, none)) break;
      entry += static_cast<I>(at);
      if (none) {
        const I last = end - entry < SIDE ? end - 1 : entry + static_cast<I>(SIDE - 1);
        if (col_idx[last] < column) entry = entry_from(col_idx, last + 1, end, static_cast<int>(column), I(0));
      }
      at = 0;
      read = end - entry < SIDE ? static_cast<int>(end - entry) : SIDE;
      side.load(entry, read, 0, col_idx, csr_values);
    }
    const bool here = at < read && side.columns[lane_id()][at] == column;
    values[d * pitch + row] = here ? side.values[lane_id()][at] : V(0);
    at += here;
    left -= here;
  }
  if (row < rows) others[row] = left;
}
