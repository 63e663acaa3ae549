/* The interface of a native tazza module: a shared object with kernels, loaded by tazza.load_module.
 *
 * A module exports the three functions at the end. It needs no library of tazza's and may be written in any language that
 * can export C functions. All structures are laid out as the C compiler of the platform does; 64-bit platforms only.
 */
#ifndef TAZZA_MODULE_H
#define TAZZA_MODULE_H

#include <stdint.h>

#define TAZZA_ABI_VERSION 1u

/* What run returns. Other numbers are the kernel's own; all but TAZZA_OK end the run of the net with an error. */
#define TAZZA_OK 0
#define TAZZA_BAD_ARGUMENTS 1 /* inputs or outputs of a number, rank, shape or dtype that the kernel does not take */

/* Some numbers of caffe2.TensorProto.DataType, for tazza_tensor_t.dtype. */
#define TAZZA_FLOAT 1
#define TAZZA_INT32 2
#define TAZZA_UINT8 6
#define TAZZA_INT64 10
#define TAZZA_FLOAT16 12
#define TAZZA_DOUBLE 13

#if defined(_WIN32)
#define TAZZA_EXPORT_ __declspec(dllexport)
#elif defined(__GNUC__)
#define TAZZA_EXPORT_ __attribute__((visibility("default")))
#else
#define TAZZA_EXPORT_
#endif

#ifdef __cplusplus
#define TAZZA_EXPORT extern "C" TAZZA_EXPORT_
#else
#define TAZZA_EXPORT TAZZA_EXPORT_
#endif

typedef struct {
  void *data;             /* first element; may be NULL if there is none */
  int64_t rank;           /* number of dimensions, 0 for a scalar */
  const int64_t *dims;    /* rank extents */
  const int64_t *strides; /* rank distances between neighbours, in elements */
  int32_t dtype;          /* number of caffe2.TensorProto.DataType */
  int32_t reserved;       /* 0 */
} tazza_tensor_t;

typedef struct {
  int64_t size_of_this; /* in bytes; larger if a later version appends members */
  int32_t input_count;
  int32_t output_count;
  const tazza_tensor_t *inputs; /* must not be written, unless an output shares their memory */
  tazza_tensor_t *outputs;      /* allocated; the kernel writes to their data only */
  void *scratch;                /* memory for the length of the call, or NULL */
  int64_t scratch_bytes;
} tazza_arguments_t;

typedef struct {
  const char *operator_type; /* such as "Conv" */
  const char *engine;        /* name under which a net asks for this kernel */
  /* Gets a tazza_arguments_t. Called without Python's lock, by several threads at once with arguments of their own. */
  /* Returns a status: 0 in its low 32 bits is success. */
  int64_t (*run)(void *arguments);
} tazza_kernel_t;

/* Returns TAZZA_ABI_VERSION as it was when the module was compiled. */
TAZZA_EXPORT uint32_t tazza_abi_version(void);

/* Returns the number of kernels. */
TAZZA_EXPORT int32_t tazza_kernel_count(void);

/* Returns kernel i, 0 <= i < tazza_kernel_count(); it has to stay valid, with its strings, while the process lives. */
TAZZA_EXPORT const tazza_kernel_t *tazza_kernel(int32_t i);

#endif
