// A program with one fault, which -DFAULT=... chooses: CSR on the host. What it does wrong stands at each fault.
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "spmv_program.h"

#ifndef PARAMETERS
#define PARAMETERS "tile=8,kernel=fast,checked=true"
#endif

enum {
  NONE,
  KEEPS_POINTERS,
  STALE,
  CACHED,
  LAST_ENTRY_LOST,
  BEYOND_Y,
  CRASHES,
  EXITS,
  HANGS,
  REFUSES,
  FAILS,
  PRINTS,
  LEAKS,
  LAZY,
  ALLOCATED_BEYOND,
  ROUNDS,
  SIGNALS,
  WRONG_WHERE_ZERO,
  SECOND_THREAD,
  SMALL_CLAIM,
  NAMELESS,
  ADDS_TO_Y,
};

namespace {

struct Stored {
  int64_t rows = 0, cols = 0, entries = 0;
  std::vector<int64_t> row_ptr;
  std::vector<int32_t> columns;
  std::vector<double> values;
  std::vector<double> last;  // a y
  std::vector<double> seen;  // an x
  const spmv_csr given;      // its pointers are invalid after spmv_convert
  double* scratch = nullptr;
  int calls = 0;
};

std::string problem;

double at(const void* values, int64_t k, int type) {
  return type == SPMV_F64 ? static_cast<const double*>(values)[k] : static_cast<const float*>(values)[k];
}

template <typename Value>
void multiply(Stored& a, const Value* x, Value* y) {
  const bool kept = FAULT == KEEPS_POINTERS;
  std::vector<double> sums(a.rows);
  for (int64_t row = 0; row < a.rows; ++row) {
    Value sum = FAULT == ADDS_TO_Y ? y[row] : 0;
    const int64_t end = a.row_ptr[row + 1] - (FAULT == LAST_ENTRY_LOST && row == a.rows - 1 && a.entries > 10);
    for (int64_t k = a.row_ptr[row]; k < end; ++k)
      sum += Value(kept ? at(a.given.values, k, a.given.value_type) : a.values[k]) * x[a.columns[k]];
    sums[row] = sum;
  }
  const std::vector<double> now(x, x + a.cols);
  if (FAULT == STALE && a.calls % 7 == 6 && !a.last.empty()) sums.swap(a.last);
  if (FAULT == CACHED && now == a.seen) return;  // y is believed to be there still
  for (int64_t row = 0; row < a.rows; ++row)
    if (FAULT != WRONG_WHERE_ZERO || y[row] != 0) y[row] = Value(sums[row]);
  a.last = sums, a.seen = now;
  if (FAULT == BEYOND_Y && a.rows) y[a.rows] = 1;
  if (FAULT == ALLOCATED_BEYOND) a.scratch[8] = 1;
}

}  // namespace

extern "C" {

int spmv_describe(spmv_description* out) {
  out->version = SPMV_VERSION;
  out->name = FAULT == NAMELESS ? "no name/at all" : "planted";
  out->reference = "a test";
  out->runs_on = out->csr_on = SPMV_HOST;
  out->types = SPMV_F64 | SPMV_F32;
  out->flags = 0;
  out->parameters = PARAMETERS;
  return SPMV_OK;
}

int spmv_convert(const spmv_csr* a, const char* parameters, const spmv_memory* memory, void*, void** matrix) {
  if (FAULT == REFUSES) return problem = "rows longer than 3 do not fit", SPMV_CANNOT_HOLD;
  if (FAULT == FAILS) return problem = "the licence server\ndid not answer", SPMV_FAILED;
  if (std::string(parameters).find("tile=") != 0) return problem = "no parameters", SPMV_FAILED;
  Stored* stored = new Stored{a->rows, a->cols, a->entries, {}, {}, {}, {}, {}, *a};
  for (int64_t i = 0; i <= a->rows; ++i) stored->row_ptr.push_back(static_cast<const int32_t*>(a->row_ptr)[i]);
  stored->columns.assign(a->columns, a->columns + a->entries);
  for (int64_t k = 0; k < a->entries; ++k) stored->values.push_back(at(a->values, k, a->value_type));
  if (FAULT == ALLOCATED_BEYOND)
    stored->scratch = static_cast<double*>(memory->allocate(8 * sizeof(double), memory->context));
  if (FAULT == PRINTS) printf("converting\n"), fflush(stdout);
  if (FAULT == ROUNDS) setlocale(LC_ALL, ""), setenv("LANG", "de_DE", 1);
  if (FAULT == SIGNALS) signal(SIGTERM, SIG_IGN);
  *matrix = stored;
  return SPMV_OK;
}

int spmv_multiply(void* matrix, const void* x, void* y, void*) {
  Stored& a = *static_cast<Stored*>(matrix);
  if (FAULT == CRASHES) raise(SIGSEGV);
  if (FAULT == EXITS) exit(0);
  if (FAULT == HANGS)
    for (;;) sleep(1);
  if (FAULT == LAZY && !a.calls) usleep(20000);
  ++a.calls;
  const auto work = [&] {
    a.given.value_type == SPMV_F64 ? multiply(a, static_cast<const double*>(x), static_cast<double*>(y))
                                   : multiply(a, static_cast<const float*>(x), static_cast<float*>(y));
  };
  if (FAULT == SECOND_THREAD) std::thread([=] { usleep(2000), work(); }).detach();
  else work();
  return SPMV_OK;
}

size_t spmv_bytes(void* matrix) {
  const Stored& a = *static_cast<Stored*>(matrix);
  return FAULT == SMALL_CLAIM ? 1 : (a.rows + 1) * 8 + a.entries * 12;
}

void spmv_release(void* matrix) {
  if (FAULT != LEAKS) delete static_cast<Stored*>(matrix);
}

const char* spmv_error(void) { return problem.c_str(); }

}  // extern "C"
