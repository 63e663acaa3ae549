"""Primitives as launches: which operand is which argument, scratch memory, and the native call.

Operands of an argument: a letter; (letter, i) for the i-th blob of a variadic letter; `Part(name)`, scratch memory that
steps of one sequence share; `Constant(value)`, memory with one value throughout; `Numbers(values)`, scales or zero
points. Sizes come from the primitive, which says nothing of `Numbers`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, TypeAlias, cast

import numpy as np

from tazza.data_class import dataclass
from tazza.device import current_context
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.library import check, engine, ffi, lib, new_stream, owned, status_name
from tazza.engines.onednn.primitive import PrimitiveDescriptor, argument_number, with_openmp_threads
from tazza.operator import Call, CallChain, NativeCall, Operands
from tazza.tensor import CPUPlace, DataType, Tensor

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Part:
    """Scratch memory by name; it is as large as the largest argument that it is used for."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """Float32 memory that holds one value throughout."""

    value: float


@dataclass(frozen=True, slots=True)
class Numbers:
    """Memory that holds these values: float32 scales, int32 zero points."""

    values: tuple[float, ...]
    dtype: DataType = DataType.FLOAT


Operand: TypeAlias = "str | tuple[str, int] | Part | Constant | Numbers"

_FORWARD = {"src": "X", "weights": "W", "bias": "b", "dst": "Y"}
LETTERS = _FORWARD | {f"diff_{name}": f"d{letter}" for name, letter in _FORWARD.items()}
"""Argument -> the letter that operators with filters give it."""


def by_letter(letters: Collection[str], *names: str) -> dict[str | int, Operand]:
    """Return the operands of arguments, of those whose letter is among `letters`.

    >>> by_letter({"X", "W", "dY"}, "src", "bias", "diff_dst")
    {'src': 'X', 'diff_dst': 'dY'}
    """
    return {name: LETTERS[name] for name in names if LETTERS[name] in letters}


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class PrimitiveLaunch:
    """One primitive and its arguments by name ("src", "dst" ...; see `PrimitiveDescriptor.argument`)."""

    primitive: PrimitiveDescriptor
    arguments: Mapping[str | int, Operand]
    capturable: bool = False

    def __post_init__(self) -> None:
        """Generate the code now, not in the first run."""
        _ = self.primitive.primitive

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory."""
        return SequenceLaunch((self,)).scratch_bytes

    @property
    def implementation(self) -> str:
        """What oneDNN calls the code."""
        return self.primitive.implementation

    def bind(self, operands: Operands) -> Call:
        """Return the native call."""
        return SequenceLaunch((self,)).bind(operands)


@dataclass(frozen=True)
class SequenceLaunch:
    """Several primitives, one after the other, with parts of scratch memory between them."""

    steps: tuple[PrimitiveLaunch, ...]
    _offsets: dict[str, int] = field(init=False, repr=False, compare=False)
    _work: int = field(init=False, repr=False, compare=False)
    capturable: bool = False

    def __post_init__(self) -> None:
        """Lay out the scratch memory: parts side by side, then the scratchpad that the steps share."""
        sizes: dict[str, int] = {}
        for step in self.steps:
            for name, operand in step.arguments.items():
                if isinstance(operand, Part):
                    needed = step.primitive.argument(name).nbytes
                    sizes[operand.name] = max(sizes.get(operand.name, 0), needed)
        offsets, end = dict[str, int](), 0
        for name, nbytes in sizes.items():
            offsets[name] = end
            end += _aligned(nbytes)
        object.__setattr__(self, "_offsets", offsets)
        object.__setattr__(self, "_work", end)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory."""
        return self._work + max((_aligned(step.primitive.scratch_bytes) for step in self.steps), default=0)

    @property
    def implementation(self) -> str:
        """What oneDNN calls the code of the steps."""
        return " + ".join(step.implementation for step in self.steps)

    def bind(self, operands: Operands) -> Call:
        """Return the native calls as one."""
        stream = operands.context.resource("onednn stream", new_stream)
        calls = tuple(self._bind(step, operands, stream) for step in self.steps)
        return calls[0] if len(calls) == 1 else CallChain(calls)

    def _bind(self, step: PrimitiveLaunch, operands: Operands, stream: Any) -> Call:
        base = 0 if operands.scratch is None else operands.scratch.address
        bound = _Bound(step.primitive, stream)
        for name, operand in step.arguments.items():
            if isinstance(operand, Part):
                bound.add(name, base + self._offsets[operand.name], operands.scratch)
            elif isinstance(operand, Numbers):
                held = np.array(operand.values, operand.dtype.numpy)
                bound.add(name, held.ctypes.data, held, Descriptor.of(held.shape, operand.dtype))
            elif isinstance(operand, Constant):
                count = step.primitive.argument(name).nbytes // DataType.FLOAT.itemsize
                values = np.full(count, operand.value, np.float32)
                bound.add(name, values.ctypes.data, values)
            else:
                tensor = _tensor(operands, operand)
                bound.add(name, tensor.address, tensor.storage)
        if step.primitive.scratch_bytes:
            bound.add("scratchpad", base + self._work, operands.scratch)
        return bound.call()


def _tensor(operands: Operands, operand: str | tuple[str, int]) -> Tensor:
    if isinstance(operand, str):
        return operands[operand]
    return cast("tuple[Tensor, ...]", operands.tensors[operand[0]])[operand[1]]


class _Bound:
    """The argument block of one call: memory objects of oneDNN on addresses, and what they keep alive."""

    def __init__(self, primitive: PrimitiveDescriptor, stream: Any) -> None:
        self.descriptor = primitive
        self.stream = stream
        self.arguments: list[tuple[int, Any]] = []
        self.places: list[tuple[Any, int]] = []
        self.kept: list[Any] = []
        self.block: Any = None

    def add(self, name: str | int, address: int, keep: Any, shown: Descriptor | None = None) -> None:
        """Append an argument, described by the primitive or `shown`; one that the primitive lacks is left out."""
        found = self.descriptor.argument(name) if shown is None else shown
        if found.is_empty:
            return
        pointer = ffi.cast("void *", address)
        memory = owned("memory", found.handle, engine(), pointer, what=f"memory of argument {name}")
        self.arguments.append((argument_number(name), memory))
        self.places.append((memory, address))
        self.kept.append(keep)

    def move(self, start: int, end: int, shift: int) -> int:
        """See `Movable`."""
        found = [(memory, address) for memory, address in self.places if start <= address < end]
        for memory, address in found:
            pointer = ffi.cast("void *", address + shift)
            check(lib.dnnl_memory_set_data_handle(memory, pointer), "moving an operand")
        return len(found)

    def call(self) -> NativeCall:
        """Return the call; the block is complete now."""
        self.block = ffi.new("dnnl_exec_arg_t[]", self.arguments)
        handles = (self.descriptor.primitive, self.stream)
        primitive, stream, block = (int(ffi.cast("intptr_t", one)) for one in (*handles, self.block))
        address = int(ffi.cast("intptr_t", lib.dnnl_primitive_execute))
        arguments = (primitive, stream, len(self.arguments), block)
        return NativeCall(address, arguments, self, self.descriptor.threads, status_name)


class Direct(threading.local):
    """A primitive that is run at once, its argument block one for each thread: memory objects take new addresses."""

    def __init__(self, primitive: PrimitiveDescriptor, *names: str | int) -> None:
        """Make the block for operands of these names, and for scratch memory where the primitive needs some."""
        self.primitive = primitive
        names = (*names, "scratchpad") if primitive.scratch_bytes else names
        self._memories = [owned("memory", primitive.argument(name).handle, engine(), ffi.NULL) for name in names]
        pairs = zip(map(argument_number, names), self._memories, strict=True)
        self._block = ffi.new("dnnl_exec_arg_t[]", list(pairs))

    def run(self, *addresses: int) -> None:
        """Run it on operands at these addresses, in the order of the names."""
        context, found = current_context(CPUPlace()), self.primitive
        if found.scratch_bytes:
            addresses = (*addresses, context.scratch(found.scratch_bytes).address)
        for memory, address in zip(self._memories, addresses, strict=True):
            lib.dnnl_memory_set_data_handle(memory, ffi.cast("void *", address))
        stream = context.resource("onednn stream", new_stream)
        with with_openmp_threads(found.threads):
            status = lib.dnnl_primitive_execute(found.primitive, stream, len(addresses), self._block)
        check(status, repr(found))


@dataclass(frozen=True, slots=True)
class ZeroLaunch:
    """Writes 0 to all elements of some outputs: what sums over nothing are, and nothing at all where they are empty."""

    letters: tuple[str, ...]
    scratch_bytes: int = 0
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        """Return a call that fills."""
        arrays = [operands[letter].array for letter in self.letters]

        def fill() -> None:
            for array in arrays:
                array.fill(0)

        return fill
