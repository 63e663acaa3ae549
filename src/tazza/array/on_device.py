"""Lazy expressions over tensors of a device: computed there, by a kernel for each expression, and left there.

All tensors of an expression lie on one device; numbers may be anywhere. What computes is brought by an engine that has
a file `device_lazy.py`. An expression is complete before its target is written where both share memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, cast

from tazza.array.deferred import Lazy
from tazza.array.evaluation import Array, inner_of, lower, order_of
from tazza.array.program import ElementProgram
from tazza.errors import DTypeError, ShapeError, UnsupportedError
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import ROW_MAJOR
from tazza.tensor.place import Place
from tazza.tensor.promotion import can_cast
from tazza.tensor.tasks import Tasks
from tazza.tensor.tensor import Tensor
from tazza.tensor.transfer import copy_to, to_place

Source: TypeAlias = "Tensor | Array"
"""A tensor of the device, or a number."""


class Spread(NamedTuple):
    """A program with its operands: it is computed for all of `shape`, to which they broadcast, then reduced.

    The target has that shape, but for the extent 1 along `axes`, which a reduction takes away.
    """

    program: ElementProgram
    shape: tuple[int, ...]
    sources: tuple[Source, ...]
    target: Tensor
    axes: tuple[int, ...]
    place: Place

    @property
    def dtype(self) -> DataType:
        """The element type of the target."""
        return self.target.dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __str__(self) -> str:
        return "it"


class ThereProduct(NamedTuple):
    """A product of matrices, the last two axes of both factors; the axes before them broadcast."""

    a: Tensor
    b: Tensor
    place: Place

    @property
    def dtype(self) -> DataType:
        """The element type of the factors."""
        return self.a.dtype

    @property
    def rank(self) -> int:
        """The number of axes of the larger factor."""
        return max(len(self.a.shape), len(self.b.shape))

    def __str__(self) -> str:
        return f"{self.a.spec} @ {self.b.spec}"


DEVICE_PRODUCTS: Tasks[ThereProduct, Callable[[], Tensor]] = Tasks("product of a device", "device_lazy")
DEVICE_EVALUATORS: Tasks[Spread, Callable[[], None]] = Tasks("evaluator of a device", "device_lazy")


def evaluate_there(root: Lazy, out: Tensor | None = None, evaluator: str | None = None) -> Tensor:
    """Compute an expression where its tensors lie, into `out` if given, else into a new row-major tensor.

    Raises:
        ShapeError, DTypeError: `out` does not fit.
        UnsupportedError: operands lie in several places, or nobody compiles this for the device.
    """
    assert root.far is not None, "some tensor of it is on a device"
    place = root.far
    _check(root, out, place)
    inner = inner_of(root)
    order = order_of(inner)
    staged = {id(node): _staged(node, place, evaluator) for node in order if node.reduction}
    wanted = root.dtype if out is None else out.dtype
    values, program = lower([inner], order, staged, (wanted,), root.reduction)
    for value in values:
        here = value.place.is_host if isinstance(value, Tensor) else True
        if (here and value.size != 1) or (not here and cast("Tensor", value).place != place):
            where = "the host" if here else cast("Tensor", value).place
            raise UnsupportedError(f"an operand is on {where}, others are on {place}", hint="copy it there")
    shape = tuple(inner.shape) if root.reduction or out is None else tuple(out.shape)
    shared = out is not None and any(isinstance(one, Tensor) and one.storage is out.storage for one in values)
    target = Tensor(root.shape if out is None else out.shape, wanted, place) if out is None or shared else out
    kept = [1 if axis in root.axes else extent for axis, extent in enumerate(shape)]
    view = target.reshape(kept) if root.reduction and not root.kept else target
    task = Spread(program, shape, tuple(map(_source, values)), view, root.axes, place)
    DEVICE_EVALUATORS.choose(task, evaluator).run()
    if out is None or not shared:
        target.mark_written()
        return target
    copy_to(target, out)
    return out


def evaluate_all_there(roots: Sequence[Lazy], outs: Sequence[Tensor | None], evaluator: str | None) -> list[Tensor]:
    """Compute several expressions, each of the operands as they were before, then write those that have a target."""
    found = [evaluate_there(root, None, evaluator) if root.far else root.evaluate() for root in roots]
    results: list[Tensor] = []
    for root, made, out in zip(roots, found, outs, strict=True):
        if out is None:
            results.append(made)
            continue
        _check(root, out, out.place)
        copy_to(made, out)
        results.append(out)
    return results


def multiply_there(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b where both lie, a row and a column where the rank is 1.

    Raises:
        ShapeError: a rank of 0, or inner extents that differ.
        UnsupportedError: they lie in two places, are of two types, or nobody multiplies these there.
    """
    if a.place != b.place or a.dtype is not b.dtype:
        raise UnsupportedError(f"matmul: x1 is {a.spec}, x2 is {b.spec}", hint="bring them to one place and type")
    if 0 in (len(a.shape), len(b.shape)):
        raise ShapeError("matmul: a factor has rank 0, it must have an axis", hint="multiply by a number with *")
    first = a.reshape((1, *a.shape)) if len(a.shape) == 1 else a
    second = b.reshape((*b.shape, 1)) if len(b.shape) == 1 else b
    if first.shape[-1] != second.shape[-2]:
        raise ShapeError(f"matmul: x1 {a.shape} has K = {first.shape[-1]}, x2 {b.shape} has K = {second.shape[-2]}")
    result = DEVICE_PRODUCTS.choose(ThereProduct(first, second, a.place)).run()
    rows = () if len(a.shape) == 1 else result.shape[-2:-1]
    return result.reshape((*result.shape[:-2], *rows, *(() if len(b.shape) == 1 else result.shape[-1:])))


def _staged(node: Lazy, place: Place, evaluator: str | None) -> Tensor:
    """Return a reduction that others start from, on the device."""
    return to_place(node.evaluate(), place) if node.far is None else evaluate_there(node, None, evaluator)


def _source(value: Source) -> Source:
    return value.plain() if isinstance(value, Tensor) and value.place.is_host else value


def _check(root: Lazy, out: Tensor | None, place: Place) -> None:
    if out is None:
        return
    if out.place != place:
        raise UnsupportedError(f"the target is on {out.place}, the expression on {place}", hint="copy it")
    if out.layout != ROW_MAJOR:
        raise UnsupportedError(f"the target {out.spec} is not row-major", hint="write to a copy: x.copy()")
    if out.shape != root.shape and (root.reduction or root.shape.broadcast(out.shape) != out.shape):
        raise ShapeError(f"an expression of shape {root.shape} does not fit the target {out.spec}")
    if not can_cast(root.dtype, out.dtype):
        raise DTypeError(
            f"an expression of type {root.dtype} is not written to the target {out.spec} without a cast",
            hint=f"say so: expression.cast({out.dtype.label!r})",
        )
