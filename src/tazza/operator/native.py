"""Kernels from shared objects (`tazza.runtime.modules`): the bridge between their argument block and the kernel contract."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

from tazza.device import Context
from tazza.operator.kernel import Call, Kernel, Launch, NativeCall, Operands, Unsupported
from tazza.operator.schema import Spec
from tazza.operator.view import OpView
from tazza.runtime.native import NATIVE_KERNELS, NativeArguments, NativeKernel, NativeTensor
from tazza.tensor import Tensor, TensorSpec


@dataclass(frozen=True, slots=True)
class NativeLaunch:
    """Binds a C kernel to the addresses, dimensions and strides of its operands."""

    found: NativeKernel
    op: OpView
    scratch_bytes: int = 0

    def bind(self, operands: Operands) -> Call:
        """Fill in the argument block; it lives as long as the call."""
        inputs = [_describe(operands[letter]) for letter in self.op.input_slots]
        outputs = [_describe(operands[letter]) for letter in self.op.output_slots]
        input_array = (NativeTensor * len(inputs))(*(block for block, _ in inputs))
        output_array = (NativeTensor * len(outputs))(*(block for block, _ in outputs))
        arguments = NativeArguments(
            ctypes.sizeof(NativeArguments), len(inputs), len(outputs), input_array, output_array, None, 0
        )
        owner = (arguments, input_array, output_array, inputs, outputs, self.found)
        return NativeCall(self.found.address, ctypes.addressof(arguments), owner)


def _describe(tensor: Tensor) -> tuple[NativeTensor, object]:
    array = tensor.array
    rank = array.ndim
    dims = (ctypes.c_int64 * rank)(*array.shape)
    strides = (ctypes.c_int64 * rank)(*(step // array.itemsize for step in array.strides))
    proto = tensor.dtype.proto
    block = NativeTensor(array.ctypes.data, rank, dims, strides, 0 if proto is None else proto, 0)
    return block, (array, dims, strides)


def native_kernel(type: str, engine: str) -> Kernel | None:
    """Return the kernel that a loaded shared object exports for an operator type under an engine name, or None."""
    found = NATIVE_KERNELS.get((type, engine))
    if found is None:
        return None

    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
        del context
        if op.schema.dynamic or not all(isinstance(spec, TensorSpec) for spec in (*inputs, *outputs)):
            return Unsupported("native kernels take tensors whose sizes are known beforehand")
        return NativeLaunch(found, op)

    return Kernel(type, "cpu", engine, prepare=prepare)
