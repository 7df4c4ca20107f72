// y = A x from CSR, one loop over the rows. Replace `Stored` and the two loops by your storage and your product.
#include <cstring>
#include <string>
#include <vector>

#include "spmv_program.h"

namespace {

struct Stored {
  std::vector<int64_t> row_ptr;
  std::vector<int32_t> columns;
  std::vector<double> doubles;  // one of these two is empty
  std::vector<float> floats;
  int value_type;
};

std::string problem;  // of the last call

template <typename Index>
std::vector<int64_t> widened(const void* row_ptr, int64_t count) {
  const Index* begin = static_cast<const Index*>(row_ptr);
  return std::vector<int64_t>(begin, begin + count);
}

template <typename Value>
void multiply(const Stored& a, const std::vector<Value>& values, const void* x_in, void* y_out) {
  const Value* x = static_cast<const Value*>(x_in);
  Value* y = static_cast<Value*>(y_out);
  for (size_t row = 0; row + 1 < a.row_ptr.size(); ++row) {
    Value sum = 0;
    for (int64_t k = a.row_ptr[row]; k < a.row_ptr[row + 1]; ++k) sum += values[k] * x[a.columns[k]];
    y[row] = sum;
  }
}

}  // namespace

extern "C" {

int spmv_describe(spmv_description* out) {
  out->version = SPMV_VERSION;
  out->name = "NAME";
  out->reference = "the paper, or where the program is from";
  out->runs_on = SPMV_HOST;
  out->csr_on = SPMV_HOST;
  out->types = SPMV_F64 | SPMV_F32;
  out->flags = SPMV_WIDE_OFFSETS;
  out->parameters = nullptr;
  return SPMV_OK;
}

int spmv_convert(const spmv_csr* a, const char*, const spmv_memory*, void*, void** matrix) {
  Stored* stored = new Stored;
  stored->row_ptr =
      a->index_bits == 64 ? widened<int64_t>(a->row_ptr, a->rows + 1) : widened<int32_t>(a->row_ptr, a->rows + 1);
  stored->columns.assign(a->columns, a->columns + a->entries);
  const double* doubles = static_cast<const double*>(a->values);
  const float* floats = static_cast<const float*>(a->values);
  if (a->value_type == SPMV_F64) stored->doubles.assign(doubles, doubles + a->entries);
  if (a->value_type == SPMV_F32) stored->floats.assign(floats, floats + a->entries);
  stored->value_type = a->value_type;
  *matrix = stored;
  return SPMV_OK;
}

int spmv_multiply(void* matrix, const void* x, void* y, void*) {
  const Stored& a = *static_cast<Stored*>(matrix);
  a.value_type == SPMV_F64 ? multiply(a, a.doubles, x, y) : multiply(a, a.floats, x, y);
  return SPMV_OK;
}

size_t spmv_bytes(void* matrix) {
  const Stored& a = *static_cast<Stored*>(matrix);
  return a.row_ptr.size() * sizeof(int64_t) + a.columns.size() * sizeof(int32_t) + a.doubles.size() * sizeof(double) +
         a.floats.size() * sizeof(float);
}

void spmv_release(void* matrix) { delete static_cast<Stored*>(matrix); }

const char* spmv_error(void) { return problem.c_str(); }

}  // extern "C"
