// A struct by value, with members of all sizes and gaps between them.

template <typename V>
struct Mixed {
  signed char first;
  double second;
  unsigned short third;
  const V* values;
  int fourth;
  V* found;
  bool last;
};

template <typename V>
__global__ void unpack(int n, const Mixed<V> given, double* numbers, int* sizes) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) given.found[i] = 2 * given.values[i];
  if (i > 0) return;
  numbers[0] = given.first;
  numbers[1] = given.second;
  numbers[2] = given.third;
  numbers[3] = given.fourth;
  numbers[4] = given.last;
  sizes[0] = sizeof(given);
}
