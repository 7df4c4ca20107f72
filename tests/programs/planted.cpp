// A program with one fault, which -DFAULT=... chooses: CSR on the host, by nvcc on a GPU (faults.py builds either).
// What it does wrong stands at each fault.
#include <dlfcn.h>
#include <unistd.h>

#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "spmv_program.h"

#ifndef NAME
#define NAME "planted"
#endif
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
  LOCALE,
  SIGNALS,
  ROUNDING,
  STANDARD_OUT,
  WRONG_WHERE_ZERO,
  SECOND_THREAD,
  SMALL_CLAIM,
  ADDS_TO_Y,
  DESCRIBES,
  KEEPS_CONVERSION,
  OTHER_STREAM,
  FIRST_CAPTURE,
  DEVICE,
  IGNORES_VALUES,
};

namespace {

// Memory and loops where the products run.
#ifdef __CUDACC__
#define EITHER __host__ __device__
constexpr int PLACE = SPMV_CUDA;
using Stream = cudaStream_t;

template <typename F>
__global__ void one_each(int64_t count, F f) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < count) f(i);
}

template <typename F>
void each(int64_t count, Stream stream, F f) {
  if (count) one_each<<<(count + 127) / 128, 128, 0, stream>>>(count, f);
}

void* allocated(size_t bytes) {
  void* found = nullptr;
  cudaMalloc(&found, bytes + 1), cudaMemset(found, 0, bytes + 1);
  return found;
}

void copy(void* to, const void* from, size_t bytes) { cudaMemcpy(to, from, bytes, cudaMemcpyDefault); }
void release(void* pointer) { cudaFree(pointer); }

bool captured(Stream stream) {
  cudaStreamCaptureStatus status;
  cudaStreamIsCapturing(stream, &status);
  return status != cudaStreamCaptureStatusNone;
}

Stream another_stream() {
  static Stream found = nullptr;
  if (!found) cudaStreamCreateWithFlags(&found, cudaStreamNonBlocking);
  return found;
}
#else
#define EITHER
constexpr int PLACE = SPMV_HOST;
using Stream = void*;

template <typename F>
void each(int64_t count, Stream, F f) {
  for (int64_t i = 0; i < count; ++i) f(i);
}

void* allocated(size_t bytes) { return calloc(1, bytes + 1); }
void copy(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }
void release(void* pointer) { free(pointer); }
bool captured(Stream) { return false; }
Stream another_stream() { return nullptr; }
#endif

// Makes a context of its own the current one, as a library does that opens the device by the driver.
void leave_device() {
  void* context = nullptr;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto create =
      driver ? reinterpret_cast<int (*)(void**, unsigned, int)>(dlsym(driver, "cuCtxCreate_v2")) : nullptr;
  if (create) create(&context, 0, 0);
}

struct State {
  int calls, same_x;
};

struct Stored {
  spmv_csr a;  // its pointers are invalid after spmv_convert
  int32_t *row_ptr, *columns;
  void *values, *last, *seen;  // last: a y. seen: an x.
  State* state;
  void* scratch;
  int calls;

  ~Stored() {
    for (void* part :
         {static_cast<void*>(row_ptr), static_cast<void*>(columns), values, last, seen, static_cast<void*>(state)})
      release(part);
  }
};

std::string problem;
bool described = false;

struct Begin {
  State* state;
  EITHER void operator()(int64_t) const { ++state->calls, state->same_x = 1; }
};

template <typename Value>
struct Compare {
  const Value* x;
  Value* seen;
  State* state;
  EITHER void operator()(int64_t i) const {
    if (x[i] != seen[i]) state->same_x = 0;
    seen[i] = x[i];
  }
};

template <typename Value>
struct Product {
  int64_t rows, entries;
  const int32_t *row_ptr, *columns;
  const Value *values, *x;
  Value *y, *last;
  const State* state;
  char* scratch;

  EITHER void operator()(int64_t row) const {
    Value sum = FAULT == ADDS_TO_Y ? y[row] : Value(0);
    const int64_t end = row_ptr[row + 1] - (FAULT == LAST_ENTRY_LOST && row == rows - 1 && entries > 10);
    for (int64_t k = row_ptr[row]; k < end; ++k) sum += values[k] * x[columns[k]];
    const bool stale = FAULT == STALE && state->calls % 7 == 0;
    const bool left_out = (FAULT == CACHED && state->same_x) || (FAULT == WRONG_WHERE_ZERO && y[row] == 0);
    if (!left_out) y[row] = stale ? last[row] : sum;
    last[row] = sum;
    if (FAULT == BEYOND_Y && row == 0) y[rows] = 1;
    if (FAULT == ALLOCATED_BEYOND && row == 0) scratch[64] = 1;
  }
};

template <typename Value>
void multiply(const Stored& s, const void* x_in, void* y_out, Stream stream) {
  const Value *x = static_cast<const Value*>(x_in), *values = static_cast<const Value*>(s.values);
  if (FAULT == KEEPS_POINTERS) values = static_cast<const Value*>(s.a.values);
  if (FAULT == CRASHES) values = reinterpret_cast<const Value*>(8);
  Value *y = static_cast<Value*>(y_out), *last = static_cast<Value*>(s.last);
  each(1, stream, Begin{s.state});
  each(s.a.cols, stream, Compare<Value>{x, static_cast<Value*>(s.seen), s.state});
  each(s.a.rows, stream,
       Product<Value>{s.a.rows, s.a.entries, s.row_ptr, s.columns, values, x, y, last, s.state,
                      static_cast<char*>(s.scratch)});
}

}  // namespace

extern "C" {

int spmv_describe(spmv_description* out) {
  described = true;
  out->version = SPMV_VERSION;
  out->name = NAME;
  out->reference = "a test";
  out->runs_on = out->csr_on = PLACE;
  out->types = SPMV_F64 | SPMV_F32;
  out->flags = 0;
  out->parameters = PARAMETERS;
  return SPMV_OK;
}

int spmv_convert(const spmv_csr* a, const char* parameters, const spmv_memory* memory, void*, void** matrix) {
  if (FAULT == REFUSES) return problem = "rows longer than 3 do not fit", SPMV_CANNOT_HOLD;
  if (FAULT == FAILS) return problem = "the licence server\ndid not answer", SPMV_FAILED;
  if (FAULT == DESCRIBES && !described) return problem = "what spmv_describe has prepared is gone", SPMV_FAILED;
  if (std::string(parameters).find("tile=") != 0) return problem = "no parameters", SPMV_FAILED;
  static Stored* kept = nullptr;  // of the last matrix
  const size_t value = a->value_type == SPMV_F64 ? 8 : 4;
  Stored* stored = kept;
  if (!kept || kept->a.rows != a->rows || kept->a.entries != a->entries || kept->a.value_type != a->value_type) {
    const size_t rows = a->rows * value;
    stored = new Stored{*a,
                        static_cast<int32_t*>(allocated((a->rows + 1) * 4)),
                        static_cast<int32_t*>(allocated(a->entries * 4)),
                        allocated(a->entries * value),
                        allocated(rows),
                        allocated(a->cols * value),
                        static_cast<State*>(allocated(sizeof(State))),
                        nullptr,
                        0};
    copy(stored->row_ptr, a->row_ptr, (a->rows + 1) * 4);
    copy(stored->columns, a->columns, a->entries * 4);
  }
  copy(stored->values, a->values, a->entries * value);
  if (FAULT == ALLOCATED_BEYOND) stored->scratch = memory->allocate(64, memory->context);
  if (FAULT == KEEPS_CONVERSION) kept = stored;  // of this pattern, for the conversion that is timed
  if (FAULT == PRINTS) printf("converting\n");
  if (FAULT == LOCALE) setlocale(LC_ALL, "C.UTF-8"), setenv("LANG", "de_DE", 1);
  if (FAULT == SIGNALS) signal(SIGTERM, SIG_IGN);
  if (FAULT == ROUNDING) fesetround(FE_UPWARD);
  if (FAULT == STANDARD_OUT) close(1);
  if (FAULT == DEVICE) leave_device();
  *matrix = stored;
  return SPMV_OK;
}

int spmv_multiply(void* matrix, const void* x, void* y, void* stream) {
  Stored& s = *static_cast<Stored*>(matrix);
  if (FAULT == EXITS) printf("no licence\n"), exit(0);
  if (FAULT == HANGS)
    for (;;) sleep(1);
  if (FAULT == LAZY && !s.calls) usleep(50000);
  ++s.calls;
  Stream on = static_cast<Stream>(stream);
  static int captures = 0;
  if (FAULT == FIRST_CAPTURE && captured(on) && captures++) return SPMV_OK;
  if (FAULT == OTHER_STREAM) on = another_stream();
  const auto work = [=, &s] {
    s.a.value_type == SPMV_F64 ? multiply<double>(s, x, y, on) : multiply<float>(s, x, y, on);
  };
  if (FAULT == SECOND_THREAD) std::thread([=] { usleep(2000), work(); }).detach();
  else work();
  return SPMV_OK;
}

int spmv_update(void* matrix, const void* values, void*) {
  Stored& s = *static_cast<Stored*>(matrix);
  if (FAULT != IGNORES_VALUES) copy(s.values, values, s.a.entries * (s.a.value_type == SPMV_F64 ? 8 : 4));
  return SPMV_OK;
}

size_t spmv_bytes(void* matrix) {
  const Stored& s = *static_cast<Stored*>(matrix);
  const size_t value = s.a.value_type == SPMV_F64 ? 8 : 4;
  return FAULT == SMALL_CLAIM ? 1 : (s.a.rows + 1) * 4 + s.a.entries * (4 + value) + (s.a.rows + s.a.cols) * value;
}

void spmv_release(void* matrix) {
  if (FAULT != LEAKS && FAULT != KEEPS_CONVERSION && FAULT != SECOND_THREAD) delete static_cast<Stored*>(matrix);
}

const char* spmv_error(void) { return problem.c_str(); }

}  // extern "C"
