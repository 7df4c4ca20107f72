// What a push over the columns of x's entries begins with: y is zero, and the columns are cut into pieces of at most
// PIECE entries, so that none is long compared with the others.
#include "search.cuh"
#include "zero.cuh"

// A thread an entry of x. Pieces come in any order; their number is added to counters[0], which the last kernel of the
// run sets to zero again. clear: counters of later kernels, set to zero here.
template <typename V, typename I, int PIECE, int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    cut_columns(int k, int rows, const int* __restrict__ index, const V* __restrict__ value,
                const I* __restrict__ col_ptr, int* __restrict__ counters, I* __restrict__ piece_begin,
                int* __restrict__ piece_entries, V* __restrict__ piece_x, int* __restrict__ clear, int clears,
                V* __restrict__ y) {
  constexpr int WARPS = BLOCK / WARP;
  __shared__ int warp_pieces[WARPS];
  __shared__ int first_piece;
  __shared__ int pieces_end[BLOCK];
  __shared__ I thread_begin[BLOCK], thread_end[BLOCK];
  __shared__ V thread_x[BLOCK];

  const long long i = global_thread();
  I begin = 0, end = 0;
  V factor = 0;
  if (i < k) {
    const int column = index[i];
    factor = value[i];
    begin = col_ptr[column];
    end = col_ptr[column + 1];
  }
  const long long threads = static_cast<long long>(gridDim.x) * BLOCK;
  set_zero(y, rows);
  for (long long c = i; c < clears; c += threads) clear[c] = 0;
  if (i - threadIdx.x >= k) return;  // the whole block

  const int lane = lane_id();
  const int warp = threadIdx.x / WARP;
  thread_begin[threadIdx.x] = begin;
  thread_end[threadIdx.x] = end;
  thread_x[threadIdx.x] = factor;
  int pieces = group_scan<WARP>(static_cast<int>((end - begin + PIECE - 1) / PIECE));
  if (lane == WARP - 1) warp_pieces[warp] = pieces;
  __syncthreads();
  if (warp == 0) {
    const int sum = group_scan<WARP>(lane < WARPS ? warp_pieces[lane] : 0);
    if (lane < WARPS) warp_pieces[lane] = sum;
    if (lane == WARP - 1) first_piece = sum ? atomicAdd(counters, sum) : 0;
  }
  __syncthreads();
  if (warp > 0) pieces += warp_pieces[warp - 1];
  pieces_end[threadIdx.x] = pieces;
  __syncthreads();
  for (int p = threadIdx.x; p < warp_pieces[WARPS - 1]; p += BLOCK) {
    const int column = first_behind(pieces_end, 0, BLOCK, p);
    const int before = column > 0 ? pieces_end[column - 1] : 0;
    const I at = thread_begin[column] + static_cast<I>(p - before) * PIECE;
    piece_begin[first_piece + p] = at;
    piece_entries[first_piece + p] = static_cast<int>(min(thread_end[column] - at, static_cast<I>(PIECE)));
    piece_x[first_piece + p] = thread_x[column];
  }
}
