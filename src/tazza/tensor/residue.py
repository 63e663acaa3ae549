"""What a form of a tensor's elements lacks to give them back bit for bit, where making the form has rounded.

Filters that Winograd's algorithm has transformed, say, tell what they were made of but for roundings, so such a blob
need not lie twice. Four bits for each element say how many floats it is away from what the form tells; what does not
fit, as where large numbers cancel, has a byte of its own, and where that is too few it is kept as it is. That is a
seventh to a fifth of the filters themselves: of GoogLeNet's 2 million 6 % take a byte, and 0.4 % are kept.

An engine registers in `ABOUT` what its forms tell. Who moves a blob into such a form for good calls `keep_residue`;
the engine's reorder, which `Tensor.plain` asks, calls `restored`. A residue belongs to memory that nobody writes to:
who writes leaves the form before. So an operator that only says that it wrote, as one that failed before it did, loses
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import UnsupportedError
from tazza.registry import Registry
from tazza.tensor.layout import Opaque

if TYPE_CHECKING:
    from tazza.tensor.spec import TensorSpec
    from tazza.tensor.tensor import Tensor

Parts: TypeAlias = Iterator[tuple[tuple[slice, ...], NDArray[np.float32]]]
"""Parts of a tensor that together are all of it, each with where it lies there."""

ABOUT: Registry[str, Callable[[Tensor], Parts]] = Registry("elements but for roundings for engine")
"""Engine -> function that yields what a form of float32 tells of the elements that it was made of.

It gives the same bits each time, so it adds and multiplies in a fixed order, without a library's products of matrices.
"""

NEAR, FAR = 7, 127
"""How many floats an element may be away that is told in four bits, and in a byte."""
MORE = -8
"""What four bits tell of one that is farther away: the next byte does."""
KEPT = -128
"""What a byte tells of one that is farther away still: the next one that is kept."""
LEAST = 2.0**-60
"""Less than this is told as 0: denormals are much less than the last bit of what it is summed up of."""


@dataclass(frozen=True, slots=True)
class Residue:
    """How far elements are from what a form tells: `near` of two in a byte, `away` of others, `far` as bits."""

    near: NDArray[np.uint8]
    away: NDArray[np.int8]
    far: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        """What it takes."""
        return self.near.nbytes + self.away.nbytes + self.far.nbytes

    @staticmethod
    def of(elements: NDArray[np.float32], about: Parts) -> Residue:
        """Return what `about` lacks to tell `elements`.

        >>> made_of, tells = np.float32([0.1, 7, 1, 0]), np.float32([0.1 + 1e-8, 7, 1 - 1e-6, 0.5])
        >>> Residue.of(made_of, iter([((slice(None),), tells)]))
        Residue(near=array([ 15, 136], dtype=uint8), away=array([  17, -128], dtype=int8), far=array([0], dtype=int32))
        """
        near = np.zeros(elements.size + elements.size % 2, np.int8)
        away, far, done = list[NDArray[np.int8]](), list[NDArray[np.int32]](), 0
        for where, part in _settled(about):
            exact = np.ascontiguousarray(elements[where], np.float32)
            steps = _ranked(exact.view(np.int32)) - _ranked(part.view(np.int32))
            distant = (steps < -FAR) | (steps > FAR)
            far.append(exact[distant].view(np.int32))
            steps[distant] = KEPT
            beyond = (steps < -NEAR) | (steps > NEAR)
            away.append(steps[beyond].astype(np.int8))
            steps[beyond] = MORE
            near[done : done + steps.size] = steps.reshape(-1)
            done += steps.size
        assert done == elements.size, "parts are all of a tensor"
        pairs = near.view(np.uint8)
        pairs = pairs[::2] & np.uint8(15) | pairs[1::2] << np.uint8(4)
        return Residue(pairs, _joined(away, np.int8), _joined(far, np.int32))

    def elements(self, shape: tuple[int, ...], about: Parts) -> NDArray[np.float32]:
        """Return the elements that it was made of, by what is told now, which are the same bits as then."""
        near = np.stack([self.near << 4, self.near & 0xF0], -1).reshape(-1).view(np.int8) >> 4
        found, (done, gone, passed) = np.empty(shape, np.float32), (0, 0, 0)
        for where, part in _settled(about):
            steps = near[done : done + part.size].reshape(part.shape)
            beyond = steps == MORE
            more = int(np.count_nonzero(beyond))
            steps[beyond] = self.away[gone : gone + more]
            exact = _ranked(_ranked(part.view(np.int32)) + steps)
            distant = beyond & (steps == KEPT)
            count = int(np.count_nonzero(distant))
            exact[distant] = self.far[passed : passed + count]
            found[where] = exact.view(np.float32)
            done, gone, passed = done + part.size, gone + more, passed + count
        return found


def _joined(parts: list[NDArray[Any]], kind: type[np.integer[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, kind)


def _settled(about: Parts) -> Parts:
    """Yield the same parts, with 0 for what may have other bits the next time: NaN, infinity, and sums of denormals.

    These count as 0 in a thread that asked the processor for it.
    """
    with np.errstate(all="ignore"):
        for where, told in about:
            size = np.abs(told)
            yield where, np.where((size > LEAST) & (size < np.inf), told, np.float32(0)).copy("C")


def _ranked(bits: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the places among all floats in order of those with these bits, or the bits of those at these places.

    Differences of places wrap around, and sums with them wrap back.
    """
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def comes_back(layout: Opaque) -> bool:
    """Whether elements that are brought into a layout for good can be had again, bit for bit."""
    return not layout.derived or ABOUT.get(layout.engine) is not None


def residue_bytes(elements: int) -> int:
    """Return what the residue of so many elements takes, with a byte, too, for one in eight."""
    return elements // 2 + elements // 8


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept beside a storage: for which memory of it, and in which form the elements lie there."""

    generation: int
    spec: TensorSpec
    residue: Residue


def keep_residue(tensor: Tensor, elements: NDArray[Any]) -> None:
    """Keep beside a tensor, whose form was made of `elements`, what it lacks to give them back.

    Nobody writes into such a form: who writes brings the elements into another one before.
    """
    spec = tensor.spec
    residue = Residue.of(elements, ABOUT[_form(spec).engine](tensor))
    tensor.storage.beside = Kept(tensor.storage.generation, spec, residue)


def restored(tensor: Tensor, done: str) -> NDArray[Any]:
    """Return the elements that a tensor's form was made of; `done` ends the sentence "W float32[...] has been ...".

    Raises:
        UnsupportedError: nothing was kept beside it: it is a copy.
    """
    storage = tensor.storage  # asked once: another thread may move the tensor to another one meanwhile
    kept = storage.beside
    if not isinstance(kept, Kept) or kept.generation != storage.generation:
        if not isinstance(tensor.layout, Opaque):  # it was moved
            return tensor.plain()
        raise UnsupportedError(f"{tensor.spec} has been {done}", hint="look at the blob of W")
    lying = type(tensor).over(storage, 0, kept.spec)
    return kept.residue.elements(tuple(kept.spec.shape), ABOUT[_form(kept.spec).engine](lying))


def _form(spec: TensorSpec) -> Opaque:
    assert isinstance(spec.layout, Opaque), "what lies strided lacks nothing"
    return spec.layout
