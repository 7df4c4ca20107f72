// A loop's body: one more turn each time, as often as `more` says.
__global__ void countdown(int* __restrict__ more, int* __restrict__ turns) {
  *turns += 1;
  *more -= 1;
}

__global__ void start(int times, int* __restrict__ more) { *more = times; }
