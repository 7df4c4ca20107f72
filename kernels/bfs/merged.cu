// Levels of a search among merged vertices; see spmvbench/formats/bfs/merged.py.
#include "spmv.cuh"

// The merged vertex of the source; -1 if it is none of the vertices.
__global__ void merged_source(const int* __restrict__ source, int vertices, const int* __restrict__ owner,
                              int* __restrict__ found) {
  if (global_thread() > 0) return;
  const int vertex = *source;
  *found = vertex >= 0 && vertex < vertices ? owner[vertex] : -1;
}

// The level of each vertex: that of its merged vertex, but 1 for the others that the source is merged with.
__global__ void merged_levels(const int* __restrict__ source, int vertices, const int* __restrict__ owner,
                              const int* __restrict__ found, int* __restrict__ levels) {
  const long long vertex = global_thread();
  if (vertex >= vertices) return;
  const int level = __ldg(found + load_stream(owner + vertex));
  levels[vertex] = level == 0 && vertex != *source ? 1 : level;
}
