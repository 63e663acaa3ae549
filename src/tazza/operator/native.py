"""Kernels from shared objects: the bridge between their argument block and the kernel contract."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.device import Context
from tazza.operator.kernel import Array, Call, Kernel, Launch, NativeCall, Operands, Unsupported
from tazza.operator.schema import Spec
from tazza.operator.view import OpView
from tazza.runtime.native import NATIVE_KERNELS, NativeKernel, NativeTensor, native_arguments, native_tensor
from tazza.tensor import DataType, TensorSpec
from tazza.tensor.place import CPU_KIND


@dataclass(frozen=True, slots=True)
class NativeLaunch:
    """Binds a C kernel to the addresses, dimensions and strides of its operands."""

    found: NativeKernel
    op: OpView
    scratch_bytes: int = 0
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        """Fill in the argument block; it lives as long as the call."""
        inputs = [operands[letter].array for letter in self.op.input_letters]
        outputs = [operands[letter].array for letter in self.op.output_letters]
        arguments = native_arguments([_describe(array) for array in inputs], [_describe(array) for array in outputs])
        return NativeCall(
            self.found.address, (ctypes.addressof(arguments), 0, 0, 0), (arguments, inputs, outputs, self.found)
        )


def _describe(array: Array) -> NativeTensor:
    strides = [step // array.itemsize for step in array.strides]
    number = DataType.of(array).proto
    return native_tensor(array.ctypes.data, array.shape, strides, 0 if number is None else number)


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

    return Kernel(type, CPU_KIND, engine, prepare=prepare)
