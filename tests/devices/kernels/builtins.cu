// Arithmetic built-ins, one result each; the expected values are in the test.

__global__ void integers(unsigned a, unsigned b, unsigned* result) {
  int i = 0;
  result[i++] = __popc(a);
  result[i++] = __popcll((static_cast<unsigned long long>(a) << 32) | b);
  result[i++] = __ffs(a);
  result[i++] = __ffsll(static_cast<long long>(b) << 32);
  result[i++] = __clz(a);
  result[i++] = __clzll(b);
  result[i++] = __clz(0);
  result[i++] = __brev(a);
  result[i++] = __funnelshift_l(a, b, 8);
  result[i++] = __funnelshift_r(a, b, 8);
  result[i++] = __byte_perm(a, b, 0x7531);
  result[i++] = min(a, b);
  result[i++] = max(-1, 2);
  result[i++] = __umulhi(a, b);
  result[i++] = __double2hiint(1.0);
}

__global__ void reals(double a, float b, double* result) {
  int i = 0;
  result[i++] = fma(a, a, -1.0);
  result[i++] = __fma_rn(a, a, -1.0);
  result[i++] = __dmul_rn(a, a) - 1.0;
  result[i++] = min(a, static_cast<double>(b));
  result[i++] = fmax(b, 3.0f);
  result[i++] = sqrt(static_cast<double>(b));
  result[i++] = __longlong_as_double(__double_as_longlong(a));
  result[i++] = __int_as_float(__float_as_int(b));
  result[i++] = __hiloint2double(0x40080000, 0);
  result[i++] = abs(-b);
}

__global__ void vectors(const int4* quads, const double2* pairs, int2* sums, double* products) {
  const int4 quad = __ldg(quads + threadIdx.x);
  const double2 pair = __ldcs(pairs + threadIdx.x);
  __stcs(sums + threadIdx.x, make_int2(quad.x + quad.y, quad.z + quad.w));
  __stwt(products + threadIdx.x, pair.x * pair.y);
}
