// AMB: sliced ELLPACK in segments of columns, blocks of a row's columns with one short index. See
// spmvbench/formats/ellpack/amb.py.
#include "spmv.cuh"

constexpr int THREADS = 256;
constexpr int AHEAD = 8;  // values of a thread in flight

// A warp per piece {first position, first column, slice, positions or ~ them if others have its rows, and if SORTED the
// lowest row}; a thread per row. rows: SORTED, of each lane the row less the lowest.
template <typename V, int WIDTH, bool SORTED, bool FAST, typename S = V>
__global__ void __launch_bounds__(THREADS)
    amb_spmv(int pieces, int rows, const int* __restrict__ piece, const unsigned short* __restrict__ columns,
             const S* __restrict__ values, const unsigned short* __restrict__ row_of, const V* __restrict__ x,
             V* __restrict__ y) {
  constexpr int FLIGHT = FAST ? (AHEAD / WIDTH < 1 ? 1 : AHEAD / WIDTH) : 1;
  const long long p = global_thread() / WARP;
  if (p >= pieces) return;
  const int lane = lane_id();
  const int* const mine = piece + p * (SORTED ? 5 : 4);
  const long long first = __ldg(mine);
  const int base = __ldg(mine + 1), slice = __ldg(mine + 2), sized = __ldg(mine + 3);
  const bool shared = sized < 0;
  const int positions = shared ? ~sized : sized;
  columns += first * WARP + lane;
  values += first * (WIDTH * WARP) + lane;
  V sum = 0;
  for (int begin = 0; begin < positions; begin += FLIGHT) {
    int column[FLIGHT];
    S value[FLIGHT][WIDTH];
    V factor[FLIGHT][WIDTH];
#pragma unroll
    for (int u = 0; u < FLIGHT; ++u) {
      const int at = min(begin + u, positions - 1);
      column[u] = base + load_stream(columns + at * WARP);
#pragma unroll
      for (int b = 0; b < WIDTH; ++b) {
        value[u][b] = load_stream(values + static_cast<long long>(at) * (WIDTH * WARP) + b * WARP);
        if (begin + u >= positions) value[u][b] = S(0);
      }
    }
#pragma unroll
    for (int u = 0; u < FLIGHT; ++u) {
#pragma unroll
      for (int b = 0; b < WIDTH; ++b) {
        // Zeros may be padding, for which there may be no column.
        factor[u][b] = value[u][b] != 0 ? load_x(x, column[u] + b) : V(0);
      }
    }
#pragma unroll
    for (int u = 0; u < FLIGHT; ++u) {
#pragma unroll
      for (int b = 0; b < WIDTH; ++b) sum += value[u][b] * factor[u][b];
    }
  }
  if (slice * static_cast<long long>(WARP) + lane >= rows) return;
  const long long row =
      SORTED ? __ldg(mine + 4) + load_stream(row_of + p * WARP + lane) : slice * static_cast<long long>(WARP) + lane;
  if (shared) {
    atomicAdd(y + row, sum);
  } else {
    y[row] = sum;
  }
}
