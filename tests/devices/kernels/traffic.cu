// Loads whose sectors can be counted by hand: 32 lanes, double, 32-byte sectors.

__global__ void patterns(const double* in, double* out, int n) {
  const int t = threadIdx.x;
  double sum = in[t];                  // coalesced
  sum += in[t * 4];                    // strided
  sum += in[7];                        // broadcast
  if (t % 2 == 0) sum += in[100 + t];  // half
  out[t] = sum;                        // stored
  for (int i = t; i < n; i += 32) {
    out[i] += 1;  // loop
  }
}

__global__ void wide(const int4* in, int* out) {
  const int4 quad = __ldg(in + threadIdx.x);           // quads
  atomicAdd(out + threadIdx.x / 16, quad.x + quad.w);  // atomics
}

// Inner loops of different lengths: after each, the lanes meet again.
__global__ void ragged(const int* lengths, int* out) {
  int sum = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < lengths[threadIdx.x]; ++i) {
      sum += lengths[32 + i];  // inner
    }
    sum += lengths[64 + round];  // outer
  }
  out[threadIdx.x] = sum;
}
