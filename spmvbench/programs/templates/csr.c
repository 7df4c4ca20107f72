/* y = A x from CSR in C11, one loop over the rows. Replace `Stored` and the loop by your storage and your product. */
#include <stdlib.h>
#include <string.h>

#include "spmv_program.h"

typedef struct {
  int64_t rows;
  int64_t* row_ptr;
  int32_t* columns;
  double* values;
} Stored;

static const char* problem = ""; /* of the last call */

/* A copy of `bytes` bytes; NULL if there is no memory. */
static void* copied(const void* from, size_t bytes) {
  void* to = malloc(bytes ? bytes : 1);
  return to ? memcpy(to, from, bytes) : NULL;
}

int spmv_describe(spmv_description* out) {
  out->version = SPMV_VERSION;
  out->name = "NAME";
  out->reference = "the paper, or where the program is from";
  out->runs_on = SPMV_HOST;
  out->csr_on = SPMV_HOST;
  out->types = SPMV_F64;
  out->flags = SPMV_WIDE_OFFSETS;
  return SPMV_OK;
}

void spmv_release(void* matrix) {
  Stored* stored = matrix;
  free(stored->row_ptr), free(stored->columns), free(stored->values), free(stored);
}

int spmv_convert(const spmv_csr* a, const char* parameters, const spmv_memory* memory, void* stream, void** matrix) {
  (void)parameters, (void)memory, (void)stream;
  Stored* stored = calloc(1, sizeof(Stored));
  if (!stored) return problem = "no memory", SPMV_FAILED;
  stored->rows = a->rows;
  stored->row_ptr = malloc((a->rows + 1) * sizeof(int64_t));
  stored->columns = copied(a->columns, a->entries * sizeof(int32_t));
  stored->values = copied(a->values, a->entries * sizeof(double));
  if (!stored->row_ptr || !stored->columns || !stored->values) {
    spmv_release(stored);
    return problem = "no memory", SPMV_FAILED;
  }
  for (int64_t row = 0; row <= a->rows; ++row)
    stored->row_ptr[row] = a->index_bits == 64 ? ((const int64_t*)a->row_ptr)[row] : ((const int32_t*)a->row_ptr)[row];
  *matrix = stored;
  return SPMV_OK;
}

int spmv_multiply(void* matrix, const void* x_in, void* y_out, void* stream) {
  (void)stream;
  const Stored* a = matrix;
  const double* x = x_in;
  double* y = y_out;
  for (int64_t row = 0; row < a->rows; ++row) {
    double sum = 0;
    for (int64_t k = a->row_ptr[row]; k < a->row_ptr[row + 1]; ++k) sum += a->values[k] * x[a->columns[k]];
    y[row] = sum;
  }
  return SPMV_OK;
}

size_t spmv_bytes(void* matrix) {
  const Stored* a = matrix;
  return (a->rows + 1) * sizeof(int64_t) + a->row_ptr[a->rows] * (sizeof(int32_t) + sizeof(double));
}

const char* spmv_error(void) { return problem; }
