/* spmv_program.h, version 1: the functions of a shared library that spmvbench measures. C11, no dependency.
 *
 * Order of calls: spmv_describe in a process of its own; then for each matrix spmv_convert, spmv_multiply many times
 * (and transposed, new values, decode if the library has them), spmv_release. All calls come from one thread. A pointer
 * to the matrix is invalid after spmv_convert has returned: copy what you keep. Work of spmv_convert is timed as
 * preprocessing, work of the first product beyond the median product as setup.
 */
#ifndef SPMV_PROGRAM_H
#define SPMV_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#define SPMV_VERSION 1

#if defined(_WIN32)
#define SPMV_EXPORT __declspec(dllexport)
#else
#define SPMV_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { SPMV_OK = 0, SPMV_CANNOT_HOLD = 1, SPMV_FAILED = 2 }; /* what functions return */
enum { SPMV_F64 = 1, SPMV_F32 = 2 };                         /* types of values, x and y; a sum of them in `types` */
enum { SPMV_HOST = 1, SPMV_CUDA = 2 };                       /* where memory is and where products run */

enum {                    /* flags of a description */
  SPMV_SQUARE_ONLY = 1,   /* refuse matrices that are not square */
  SPMV_WIDE_OFFSETS = 2,  /* spmv_convert takes 64-bit row pointers (2^31 entries and more) */
  SPMV_NO_CAPTURE = 4,    /* products wait for the device: no CUDA graph can capture them */
  SPMV_LOSSY_DECODE = 8   /* spmv_decode leaves out stored zeros */
};

typedef struct {
  uint32_t size;           /* sizeof(spmv_description), set by the caller: members beyond it do not exist */
  uint32_t version;        /* set to SPMV_VERSION */
  const char *name;        /* what users type: letters, digits and . _ + - */
  const char *reference;   /* the paper, or where the program comes from */
  int32_t runs_on;         /* where products run, and x and y are: SPMV_CUDA or SPMV_HOST */
  int32_t csr_on;          /* where spmv_convert wants the CSR */
  uint32_t types;          /* SPMV_F64 | SPMV_F32: what it can multiply */
  uint32_t flags;
  const char *parameters;  /* names with defaults, such as "tile=8,kernel=fast"; NULL if there are none */
} spmv_description;

typedef struct {           /* canonical CSR: rows in order, columns ascending, no duplicates; stored zeros stay */
  int64_t rows, cols, entries;
  const void *row_ptr;     /* rows + 1 of index_bits */
  const int32_t *columns;  /* entries */
  const void *values;      /* entries, of value_type */
  int32_t index_bits;      /* 32, or 64 with SPMV_WIDE_OFFSETS */
  int32_t value_type;      /* SPMV_F64 or SPMV_F32 */
} spmv_csr;

typedef struct {           /* memory where products run. Optional: what it allocates is counted and guarded */
  void *(*allocate)(size_t bytes, void *context); /* aligned to 512 bytes; NULL if there is none left */
  void (*release)(void *pointer, void *context);  /* the rest is released after spmv_release */
  void *context;
} spmv_memory;

/* Fill in `out`. Called in a process of its own: nothing that it does is there later. */
SPMV_EXPORT int spmv_describe(spmv_description *out);

/* Convert a matrix and store a handle in `matrix`. parameters: every name with its value, as in the description.
   stream: a cudaStream_t, NULL on the host. Returns SPMV_CANNOT_HOLD if the storage cannot hold this matrix. */
SPMV_EXPORT int spmv_convert(const spmv_csr *a, const char *parameters, const spmv_memory *memory, void *stream,
                             void **matrix);

/* Enqueue y = A x on the stream and return; on the host, compute it. y holds anything before. */
SPMV_EXPORT int spmv_multiply(void *matrix, const void *x, void *y, void *stream);

SPMV_EXPORT void spmv_release(void *matrix);

/* One sentence about the last call that did not return SPMV_OK. */
SPMV_EXPORT const char *spmv_error(void);

/* The following are optional: leave out what the library does not have. */

/* y = A^T x from the same matrix. */
SPMV_EXPORT int spmv_transpose_multiply(void *matrix, const void *x, void *y, void *stream);

/* New values of the same pattern, in the order of the CSR, in memory where it was. */
SPMV_EXPORT int spmv_update(void *matrix, const void *values, void *stream);

/* Bytes that the matrix takes, all of its memory included. */
SPMV_EXPORT size_t spmv_bytes(void *matrix);

/* Every entry once, in any order, to memory of the host: proves that nothing was lost. */
SPMV_EXPORT int spmv_decode(void *matrix, int32_t *rows, int32_t *columns, void *values);

#ifdef __cplusplus
}
#endif
#endif
