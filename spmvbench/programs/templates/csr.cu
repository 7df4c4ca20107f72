// y = A x on a GPU: rows sorted by length with CUB, long rows by a warp each, all others by a thread each. Replace
// `Stored`, the kernels and the conversion by your own; standard headers and libraries of CUDA may be used.
#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <string>
#include <vector>

#include "spmv_program.h"

namespace {

std::string problem;  // of the last call

bool failed(cudaError_t status) {
  if (status != cudaSuccess) problem = cudaGetErrorString(status);
  return status != cudaSuccess;
}

struct Stored {
  int64_t rows = 0, entries = 0, long_rows = 0;
  int value_type = SPMV_F64;
  int32_t* row_ptr = nullptr;
  int32_t* columns = nullptr;
  void* values = nullptr;
  int32_t* order = nullptr;  // rows, the longest first
  ~Stored() { cudaFree(row_ptr), cudaFree(columns), cudaFree(values), cudaFree(order); }
};

// Memory of a conversion alone.
struct Scratch {
  void* data = nullptr;
  ~Scratch() { cudaFree(data); }
};

__global__ void row_lengths(int rows, const int32_t* row_ptr, int32_t* length, int32_t* row_number) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) length[row] = row_ptr[row + 1] - row_ptr[row], row_number[row] = row;
}

template <typename Value>
__global__ void one_warp_each(int64_t count, const int32_t* order, const int32_t* row_ptr, const int32_t* columns,
                              const Value* values, const Value* x, Value* y) {
  const int64_t warp = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  if (warp >= count) return;
  const int row = order[warp], lane = threadIdx.x % 32;
  Value sum = 0;
  for (int k = row_ptr[row] + lane; k < row_ptr[row + 1]; k += 32) sum += values[k] * x[columns[k]];
  for (int step = 16; step; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (lane == 0) y[row] = sum;
}

template <typename Value>
__global__ void one_thread_each(int64_t first, int64_t rows, const int32_t* order, const int32_t* row_ptr,
                                const int32_t* columns, const Value* values, const Value* x, Value* y) {
  const int64_t place = first + blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (place >= rows) return;
  const int row = order[place];
  Value sum = 0;
  for (int k = row_ptr[row]; k < row_ptr[row + 1]; ++k) sum += values[k] * x[columns[k]];
  y[row] = sum;
}

template <typename Value>
int multiply(const Stored& a, const void* x_in, void* y_out, cudaStream_t stream) {
  const Value* values = static_cast<const Value*>(a.values);
  const Value* x = static_cast<const Value*>(x_in);
  Value* y = static_cast<Value*>(y_out);
  const int64_t short_rows = a.rows - a.long_rows;
  if (a.long_rows)
    one_warp_each<<<(a.long_rows + 3) / 4, 128, 0, stream>>>(a.long_rows, a.order, a.row_ptr, a.columns, values, x, y);
  if (short_rows)
    one_thread_each<<<(short_rows + 127) / 128, 128, 0, stream>>>(a.long_rows, a.rows, a.order, a.row_ptr, a.columns,
                                                                  values, x, y);
  return failed(cudaGetLastError()) ? SPMV_FAILED : SPMV_OK;
}

template <typename T>
bool allocated(T** pointer, int64_t bytes) {
  return !failed(cudaMalloc(pointer, std::max<int64_t>(bytes, 1)));
}

template <typename T>
bool copied(T** to, const void* from, int64_t bytes) {
  return allocated(to, bytes) && !failed(cudaMemcpy(*to, from, bytes, cudaMemcpyDeviceToDevice));
}

// Sorts the rows of `a` by length, the longest first, and counts those of `long_from` entries and more.
bool sort_rows(Stored& a, int long_from) {
  const int rows = static_cast<int>(a.rows);
  Scratch lengths, sorted, numbers, scratch;
  if (!allocated(&a.order, rows * 4) || !allocated(&lengths.data, rows * 4) || !allocated(&sorted.data, rows * 4) ||
      !allocated(&numbers.data, rows * 4))
    return false;
  int32_t *length = static_cast<int32_t*>(lengths.data), *falling = static_cast<int32_t*>(sorted.data);
  int32_t* number = static_cast<int32_t*>(numbers.data);
  row_lengths<<<(rows + 127) / 128, 128>>>(rows, a.row_ptr, length, number);
  size_t bytes = 0;
  cub::DeviceRadixSort::SortPairsDescending(nullptr, bytes, length, falling, number, a.order, rows);
  if (!allocated(&scratch.data, bytes)) return false;
  cub::DeviceRadixSort::SortPairsDescending(scratch.data, bytes, length, falling, number, a.order, rows);
  std::vector<int32_t> found(rows);
  if (failed(cudaMemcpy(found.data(), falling, rows * 4, cudaMemcpyDeviceToHost))) return false;
  const auto is_long = [=](int32_t length) { return length >= long_from; };
  a.long_rows = std::partition_point(found.begin(), found.end(), is_long) - found.begin();
  return true;
}

}  // namespace

extern "C" {

int spmv_describe(spmv_description* out) {
  out->version = SPMV_VERSION;
  out->name = "NAME";
  out->reference = "the paper, or where the program is from";
  out->runs_on = SPMV_CUDA;
  out->csr_on = SPMV_CUDA;
  out->types = SPMV_F64 | SPMV_F32;
  out->flags = 0;
  out->parameters = "long=64";
  return SPMV_OK;
}

int spmv_convert(const spmv_csr* a, const char* parameters, const spmv_memory*, void* stream, void** matrix) {
  const int long_from = std::stoi(std::string(parameters).substr(std::string("long=").size()));
  Stored* stored = new Stored;
  *matrix = stored;
  stored->rows = a->rows, stored->entries = a->entries, stored->value_type = a->value_type;
  const int64_t value_bytes = a->value_type == SPMV_F64 ? 8 : 4;
  if (failed(cudaStreamSynchronize(static_cast<cudaStream_t>(stream))) ||
      !copied(&stored->row_ptr, a->row_ptr, (a->rows + 1) * 4) ||
      !copied(&stored->columns, a->columns, a->entries * 4) ||
      !copied(&stored->values, a->values, a->entries * value_bytes) || (a->rows && !sort_rows(*stored, long_from))) {
    delete stored;
    return SPMV_FAILED;
  }
  return SPMV_OK;
}

int spmv_multiply(void* matrix, const void* x, void* y, void* stream) {
  const Stored& a = *static_cast<Stored*>(matrix);
  const cudaStream_t on = static_cast<cudaStream_t>(stream);
  return a.value_type == SPMV_F64 ? multiply<double>(a, x, y, on) : multiply<float>(a, x, y, on);
}

size_t spmv_bytes(void* matrix) {
  const Stored& a = *static_cast<Stored*>(matrix);
  return (2 * a.rows + 1 + a.entries) * 4 + a.entries * (a.value_type == SPMV_F64 ? 8 : 4);
}

void spmv_release(void* matrix) { delete static_cast<Stored*>(matrix); }

const char* spmv_error(void) { return problem.c_str(); }

}  // extern "C"
