"""Kernels of operators that read nothing of the device: the definition makes their outputs on the host.

Fillers, schedules of the learning rate: what their reference kernel names is the operator, its random generator,
inputs that are declared to lie on the host, and outputs. So they give the numbers of the CPU, to the last bit. What is
drawn or read anew in each run is copied from page-locked memory, for which nobody waits; what never changes is copied
once, and on the device from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tazza.data_class import dataclass
from tazza.device import Context
from tazza.device.cuda import queue_of
from tazza.engines.cuda import make_on_demand
from tazza.operator import (
    KERNELS,
    Array,
    Call,
    Effects,
    Kernel,
    Launch,
    Operands,
    OpSchema,
    OpView,
    Spec,
    Unsupported,
    kernel_key,
)
from tazza.tensor import DataType, PinnedPlace, Place, Tensor, TensorSpec


def _is_free(schema: OpSchema, reference: Kernel) -> bool:
    """Whether a reference kernel reads no input that a device holds, but where one is optional."""
    read = [schema.inputs_by_letter[name] for name in reference.parameters if name in schema.inputs_by_letter]
    return all(letter.host or letter.optional for letter in read)


WORD_BYTES = 4
"""Outputs of so many bytes are set, not copied."""


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """Runs the definition on the host; `constant` where it gives the same each time."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]
    op: OpView
    constant: bool
    scratch_bytes: int = 0
    there: dict[Place, dict[str, Tensor]] = field(default_factory=dict["Place", "dict[str, Tensor]"], compare=False)
    """What is made once, on the devices where it was needed."""

    @property
    def capturable(self) -> bool:
        """Whether it copies the same memory of the device each time."""
        return self.constant

    def bind(self, operands: Operands) -> Call:
        """Return what makes the outputs, and queues their copies."""
        names, context = self.parameters, operands.context
        outputs = {letter: operands[letter] for letter in self.op.output_letters}
        if not self.constant and all(out.nbytes == WORD_BYTES for out in outputs.values()):
            return self._words(operands, outputs)

        def make() -> dict[str, Tensor]:
            made = {letter: Tensor(out.shape, out.dtype, PinnedPlace()) for letter, out in outputs.items()}
            arrays: Mapping[str, Array] = {letter: tensor.numpy() for letter, tensor in made.items()}
            with np.errstate(all="ignore"):
                self.function(**{name: self._argument(name, arrays, operands) for name in names})
            return made

        def copy(made: Mapping[str, Tensor]) -> None:
            for letter, tensor in made.items():
                if tensor.size:
                    context.copy(tensor, outputs[letter])

        if not self.constant:
            return lambda: copy(make())
        there = self.there.get(context.place)
        if there is None:
            there = {letter: tensor.to_device(context.place) for letter, tensor in make().items()}
            self.there[context.place] = there
        return lambda: copy(there)

    def _words(self, operands: Operands, outputs: Mapping[str, Tensor]) -> Call:
        """Return what makes outputs of four bytes, which go with the calls that set them."""
        queue = queue_of(operands.context)
        arrays: dict[str, Array] = {letter: np.empty(out.shape, out.dtype.numpy) for letter, out in outputs.items()}
        words = [(outputs[letter], array.reshape(1).view(np.uint32)) for letter, array in arrays.items()]

        def call() -> None:
            with np.errstate(all="ignore"):
                self.function(**{name: self._argument(name, arrays, operands) for name in self.parameters})
            for out, word in words:
                queue.set_word(out.address, int(word[0]))
                out.mark_written()

        return call

    def _argument(self, name: str, outputs: Mapping[str, Array], operands: Operands) -> Any:
        if name in outputs:
            return outputs[name]
        if name == "op":
            return self.op
        if name == "random":
            return operands.random()
        return operands.arrays(name) if name in operands.tensors else None


def register_host_made(schema: OpSchema) -> None:
    """Register the kernel of an operator type that reads nothing of the device, if this does; made on demand."""
    reference = KERNELS.get(kernel_key(schema.type, "reference"))
    if reference is None or reference.function is None or reference.host is not None:
        return
    drawn_at_most = isinstance(schema.effects, Effects) and schema.effects <= Effects.RANDOM
    if not drawn_at_most or schema.inputs_can_cross_devices or not _is_free(schema, reference):
        return
    function, parameters = reference.function, reference.parameters

    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
        del context, inputs
        read = {*parameters} & {*op.input_letters}
        there = sorted(letter for letter in read if not op.schema.inputs_by_letter[letter].host)
        if there:
            raise Unsupported(f"it reads {', '.join(there)}, on the device")
        if op.schema.dynamic:
            raise Unsupported("how large its output is hangs on data")
        if any(not isinstance(spec, TensorSpec) or spec.dtype is DataType.STRING for spec in outputs):
            raise Unsupported("strings do not lie on a device")
        return HostLaunch(function, parameters, op, constant=schema.effects is Effects.PURE and not read)

    make_on_demand(schema.type, prepare, "made on the host by its definition, and copied")
