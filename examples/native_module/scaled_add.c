/* A native tazza module with one kernel: Y = 2 * A + B, elementwise, float32, tensors of one shape. */
#include "tazza_module.h"

#include <stddef.h>

static int32_t is_float_like(const tazza_tensor_t *tensor, const tazza_tensor_t *model) {
  if (tensor->dtype != TAZZA_FLOAT || tensor->rank != model->rank) return 0;
  for (int64_t axis = 0; axis < model->rank; ++axis) {
    if (tensor->dims[axis] != model->dims[axis]) return 0;
  }
  return 1;
}

/* Walks along one axis and, by recursion, those behind it; so any strides will do, transposed and broadcast ones too. */
static void scaled_add_axis(const tazza_tensor_t *tensors[3], int64_t axis, const float *a, const float *b, float *y) {
  if (axis == tensors[0]->rank) {
    *y = 2.0f * *a + *b;
    return;
  }
  for (int64_t i = 0; i < tensors[0]->dims[axis]; ++i) {
    scaled_add_axis(tensors, axis + 1, a + i * tensors[0]->strides[axis], b + i * tensors[1]->strides[axis],
                    y + i * tensors[2]->strides[axis]);
  }
}

static int64_t scaled_add(void *block) {
  const tazza_arguments_t *arguments = block;
  if (arguments->size_of_this < (int64_t)sizeof(tazza_arguments_t)) return TAZZA_BAD_ARGUMENTS;
  if (arguments->input_count != 2 || arguments->output_count != 1) return TAZZA_BAD_ARGUMENTS;
  const tazza_tensor_t *tensors[3] = {&arguments->inputs[0], &arguments->inputs[1], &arguments->outputs[0]};
  for (int i = 0; i < 3; ++i) {
    if (!is_float_like(tensors[i], tensors[0])) return TAZZA_BAD_ARGUMENTS;
  }
  scaled_add_axis(tensors, 0, tensors[0]->data, tensors[1]->data, tensors[2]->data);
  return TAZZA_OK;
}

static const tazza_kernel_t kernels[] = {{"ExampleScaledAdd", "example", scaled_add}};

uint32_t tazza_abi_version(void) { return TAZZA_ABI_VERSION; }

int32_t tazza_kernel_count(void) { return sizeof kernels / sizeof kernels[0]; }

const tazza_kernel_t *tazza_kernel(int32_t i) {
  return i >= 0 && i < tazza_kernel_count() ? &kernels[i] : NULL;
}
