#include "main.cpp"
#include "spmv_program.h"

extern "C" {

int spmv_describe(spmv_description* out) {
  out->version = SPMV_VERSION;
  out->name = "pairs";
  out->reference = "my thesis, chapter 4";
  out->runs_on = out->csr_on = SPMV_HOST;
  out->types = SPMV_F64;
  return SPMV_OK;
}

int spmv_convert(const spmv_csr* a, const char*, const spmv_memory*, void*, void** matrix) {
  *matrix = new Pairs(
      convert(int(a->rows), static_cast<const int*>(a->row_ptr), a->columns, static_cast<const double*>(a->values)));
  return SPMV_OK;
}

int spmv_multiply(void* matrix, const void* x, void* y, void*) {
  multiply(*static_cast<Pairs*>(matrix), static_cast<const double*>(x), static_cast<double*>(y));
  return SPMV_OK;
}

void spmv_release(void* matrix) { delete static_cast<Pairs*>(matrix); }

const char* spmv_error(void) { return ""; }

}  // extern "C"
