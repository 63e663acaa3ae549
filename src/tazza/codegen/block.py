"""The argument block of a compiled kernel: numbers and addresses, all int64, and the launch that fills it in."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tazza.data_class import dataclass
from tazza.errors import TazzaError
from tazza.operator import Call, NativeCall, Operands, OpSchema, Spec
from tazza.tensor import ROW_MAJOR, DataType, Opaque, Strided, Tensor, TensorSpec, channels_last


@dataclass(frozen=True, slots=True)
class Slot:
    """A blob of an operator: its letter, and the position among the blobs of that letter where it is variadic."""

    letter: str
    index: int | None = None

    @property
    def name(self) -> str:
        """What formulas call it: `X`, or `X0`, `X1` ... where it is variadic."""
        return self.letter if self.index is None else f"{self.letter}{self.index}"

    def of(self, operands: Operands) -> Tensor:
        """Return the tensor."""
        found = operands.tensors[self.letter]
        return cast("Tensor", found if self.index is None else found[self.index])


@dataclass(frozen=True, slots=True)
class Inside:
    """An address so many bytes within a blob."""

    slot: Slot
    offset: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """An address within the scratch memory of a launch."""

    offset: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """The address of a few bytes of our own."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Memory:
    """The address of so many bytes of our own, for launches that are made when sizes are known."""

    nbytes: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """The address of what the operator's random generator knows: the state of its twister, or a half pair."""

    half_pair: bool = False


Word: TypeAlias = int | Slot | Inside | Scratch | Constant | Memory | Drawn
Check: TypeAlias = Callable[[Operands], Any]
"""Raises the error for what a kernel found wrong with its operands."""


@dataclass(frozen=True, slots=True)
class CheckedCall(NativeCall):
    """A native call whose errors come from looking at the operands again, in Python: they say the same everywhere."""

    check: Callable[[], Any] | None = None

    def error(self, status: int) -> TazzaError:  # pyright: ignore[reportIncompatibleMethodOverride] -- more kinds of errors
        """Return what `check` raises."""
        assert self.check is not None, "made with one"
        try:
            self.check()
        except TazzaError as error:
            return error
        return super().error(status)


@dataclass(frozen=True, slots=True)
class BlockLaunch:
    """A compiled kernel, the words of its block, and how to tell what is wrong when it gives a status.

    `implementation` tells it from others that may stand in its place.
    """

    address: int
    words: tuple[Word, ...]
    scratch_bytes: int = 0
    check: Check | None = None
    implementation: str = ""
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        """Write the block; it lives as long as the call."""
        kept: list[Any] = [operands.scratch]
        block = block_of(self.words, operands, kept)
        arguments, check = (block.ctypes.data, 0, 0, 0), self.check
        if check is not None:  # it looks at the tensors, so the call is not to read from elsewhere: no `Movable`
            return CheckedCall(self.address, arguments, (block, kept), check=lambda: check(operands))
        places = [(i, int(block[i])) for i, word in enumerate(self.words) if isinstance(word, (Slot, Inside))]
        return NativeCall(self.address, arguments, _Bound(block, places, kept))


@dataclass(frozen=True, slots=True, eq=False)
class _Bound:
    """A block: which of its words are addresses of operands, and what it keeps alive."""

    block: npt.NDArray[np.int64]
    places: Sequence[tuple[int, int]]
    kept: list[Any]

    def move(self, start: int, end: int, shift: int) -> int:
        """See `Movable`."""
        found = [(i, address) for i, address in self.places if start <= address < end]
        for i, address in found:
            self.block[i] = address + shift
        return len(found)


def block_of(words: Sequence[Word], operands: Operands, kept: list[Any]) -> npt.NDArray[np.int64]:
    """Return the block of these words; what they point to is added to `kept`, which has to live as long."""
    return np.array([_value(word, operands, kept) for word in words], np.int64)


def _value(word: Word, operands: Operands, kept: list[Any]) -> int:
    """Return what stands in the block for a word; what it points to is added to `kept`."""
    if isinstance(word, int):
        return word
    if isinstance(word, Slot):
        tensor = word.of(operands)
        kept.append(tensor)
        return tensor.address
    if isinstance(word, Inside):
        return _value(word.slot, operands, kept) + word.offset
    if isinstance(word, Scratch):
        assert operands.scratch is not None, "the launch said how much it needs"
        return operands.scratch.address + word.offset
    if isinstance(word, Drawn):
        generator = operands.random()
        kept.append(generator)
        return generator.half_pair_address if word.half_pair else generator.twister_address
    own = isinstance(word, Memory)
    array = np.empty(word.nbytes, np.uint8) if own else np.frombuffer(word.data, np.uint8).copy()
    kept.append(array)
    return array.ctypes.data


def float_word(value: float) -> int:
    """Return the word that holds the bits of a float64."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def slots_of(schema: OpSchema, letters: Sequence[str], *, outputs: bool) -> list[Slot]:
    """Return the slot of each blob of an operator."""
    declared = schema.outputs_by_letter if outputs else schema.inputs_by_letter
    counts: dict[str, int] = {}
    slots: list[Slot] = []
    for letter in letters:
        index = counts.get(letter, 0)
        counts[letter] = index + 1
        slots.append(Slot(letter, index if declared[letter].variadic else None))
    return slots


def accepts_rows(letter: str, spec: Spec) -> bool:
    """Take row-major tensors only; others are reordered first."""
    del letter
    return not isinstance(spec, TensorSpec) or spec.layout == ROW_MAJOR


def accepts_known_orders(letter: str, spec: Spec) -> bool:
    """See a vendor's layouts and channels-last images, to refuse them to who has code for them: that costs less.

    What lies otherwise is brought into rows.
    """
    if accepts_rows(letter, spec) or not isinstance(spec, TensorSpec):
        return True
    return isinstance(spec.layout, Opaque) or (len(spec.shape) > 2 and spec.layout == channels_last(spec.shape))


def accepts_rows_but(overwritten: Collection[str]) -> Callable[[str, Spec], bool]:
    """Return `accepts_rows` that takes letters which have to be overwritten as they lie: a copy would not be."""
    return lambda letter, spec: letter in overwritten or accepts_rows(letter, spec)


def accepts_dense(letter: str, spec: Spec) -> bool:
    """Take strided data, and any vendor layout of whole elements: without padding as good as any order of them."""
    del letter
    if not isinstance(spec, TensorSpec) or isinstance(spec.layout, Strided):
        return True
    return isinstance(spec.layout, Opaque) and not spec.layout.derived


def all_float32(*specs: Spec | None) -> bool:
    """Whether all of them are float32 tensors; None are absent ones."""
    return all(spec is None or (isinstance(spec, TensorSpec) and spec.dtype is DataType.FLOAT) for spec in specs)
