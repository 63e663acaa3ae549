"""Methods of arrays, by the names that NumPy has for them. Each hands on to the function that does it.

They take what NumPy's methods take, in the same order, so that `np.clip(x, 0, 1)` and its like, which call the method
of an array that is none of NumPy's, give tensors. `out` and what else has no meaning here has to be None. Element types
follow the functions of `tazza.array`: where NumPy makes float64 of integers, these make float32.

Source: Python array API standard 2024.12; NumPy 2, `numpy.ndarray`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, cast

import numpy.typing as npt

from tazza.errors import ArgumentError
from tazza.tensor.attached import ATTACHED

if TYPE_CHECKING:
    from tazza.tensor.dtype import DataType
    from tazza.tensor.operators import Operand
    from tazza.tensor.place import Place
    from tazza.tensor.tensor import Tensor

    Axis: TypeAlias = "int | tuple[int, ...] | None"
    DType: TypeAlias = "DataType | npt.DTypeLike | None"
    Indices: TypeAlias = "Tensor | npt.NDArray[Any] | Sequence[Any] | int"


def _tensor(x: ArrayMethods) -> Tensor:
    return cast("Tensor", x)  # the one class that has this base


class ArrayMethods:
    """Base of `Tensor`: what is written behind a dot."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def place(self) -> Place:
            """Where the memory is; `Tensor` knows."""
            ...

        @property
        def dtype(self) -> DataType:
            """The element type; `Tensor` has it."""
            ...

    def copy(self) -> Tensor:
        """Return a row-major copy with a memory of its own, at the same place."""
        return ATTACHED["to_place"](_tensor(self), self.place, copy=True)

    def to_device(self, device: Place | str, /, *, stream: None = None) -> Tensor:
        """Return the tensor at another place: itself when it is there already, else a copy.

        Raises:
            NotFoundError: an unknown place, or nobody copies between the two.
        """
        return ATTACHED["to_place"](_tensor(self), device)

    def astype(self, dtype: DataType | npt.DTypeLike, *, copy: bool = True) -> Tensor:
        """Return the elements as another type; without `copy` the tensor itself when it has that type."""
        return ATTACHED["astype"](_tensor(self), dtype, copy=copy)

    def fill(self, value: bool | float | str | bytes) -> None:
        """Write `value` to every element.

        Raises:
            DTypeError: the value is of a higher kind than the tensor.
        """
        _tensor(self)[...] = value

    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Tensor:
        """Return the elements with another shape: `x.reshape(2, -1)` or `x.reshape((2, -1))`; see `ta.reshape`."""
        return ATTACHED["reshape"](_tensor(self), _sizes(shape))

    def transpose(self, *axes: SupportsIndex | Sequence[SupportsIndex]) -> Tensor:
        """Return a view with the axes in this order, reversed when none is given."""
        if not axes:
            return _tensor(self).T
        return ATTACHED["permute_dims"](_tensor(self), [int(axis) for axis in _sizes(axes)])

    def flatten(self) -> Tensor:
        """Return all elements along one axis: a view where the layout allows."""
        return self.reshape(-1)

    def sum(self, axis: Axis = None, *, dtype: DType = None, out: None = None, keepdims: bool = False) -> Tensor:
        """Return the sum over these axes; see `ta.sum`."""
        _need_none(out=out)
        return ATTACHED["sum"](_tensor(self), axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: Axis = None, *, dtype: DType = None, out: None = None, keepdims: bool = False) -> Tensor:
        """Return the product over these axes; see `ta.prod`."""
        _need_none(out=out)
        return ATTACHED["prod"](_tensor(self), axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Axis = None, *, dtype: None = None, out: None = None, keepdims: bool = False) -> Tensor:
        """Return the mean over these axes; see `ta.mean`."""
        _need_none(out=out, dtype=dtype)
        return ATTACHED["mean"](_tensor(self), axis=axis, keepdims=keepdims)

    def max(self, axis: Axis = None, *, out: None = None, keepdims: bool = False) -> Tensor:
        """Return the greatest element over these axes; see `ta.max`."""
        _need_none(out=out)
        return ATTACHED["max"](_tensor(self), axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, *, out: None = None, keepdims: bool = False) -> Tensor:
        """Return the least element over these axes; see `ta.min`."""
        _need_none(out=out)
        return ATTACHED["min"](_tensor(self), axis=axis, keepdims=keepdims)

    def any(self, axis: Axis = None, *, out: None = None, keepdims: bool = False) -> Tensor:
        """Whether any element over these axes is not zero; see `ta.any`."""
        _need_none(out=out)
        return ATTACHED["any"](_tensor(self), axis=axis, keepdims=keepdims)

    def all(self, axis: Axis = None, *, out: None = None, keepdims: bool = False) -> Tensor:
        """Whether no element over these axes is zero; see `ta.all`."""
        _need_none(out=out)
        return ATTACHED["all"](_tensor(self), axis=axis, keepdims=keepdims)

    # -- statistics ----------------------------------------------------------------------------------------------------

    def var(
        self, axis: Axis = None, dtype: None = None, out: None = None, ddof: float = 0, *, keepdims: bool = False
    ) -> Tensor:
        """Return the mean square of what elements differ from their mean, over n - `ddof`; see `ta.var`."""
        _need_none(out=out, dtype=dtype)
        return ATTACHED["var"](_tensor(self), axis=axis, correction=ddof, keepdims=keepdims)

    def std(
        self, axis: Axis = None, dtype: None = None, out: None = None, ddof: float = 0, *, keepdims: bool = False
    ) -> Tensor:
        """Return the square root of `var`; see `ta.std`."""
        _need_none(out=out, dtype=dtype)
        return ATTACHED["std"](_tensor(self), axis=axis, correction=ddof, keepdims=keepdims)

    def cumsum(self, axis: int | None = None, dtype: DType = None, out: None = None) -> Tensor:
        """Return the sum of all elements up to each one; without an axis of all, one behind the other."""
        _need_none(out=out)
        return ATTACHED["cumulated"]("sum", _tensor(self), axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: DType = None, out: None = None) -> Tensor:
        """Return the product of all elements up to each one; without an axis of all, one behind the other."""
        _need_none(out=out)
        return ATTACHED["cumulated"]("prod", _tensor(self), axis, dtype)

    # -- finding and ordering ------------------------------------------------------------------------------------------

    def argmax(self, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Tensor:
        """Return where the first greatest element is; see `ta.argmax`."""
        _need_none(out=out)
        return ATTACHED["argmax"](_tensor(self), axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Tensor:
        """Return where the first least element is; see `ta.argmin`."""
        _need_none(out=out)
        return ATTACHED["argmin"](_tensor(self), axis=axis, keepdims=keepdims)

    def argsort(self, axis: int | None = -1) -> Tensor:
        """Return the indices that sort along an axis (of all with None), equal elements in their order.

        See `ta.argsort`.
        """
        return ATTACHED["argsort"](_tensor(self), axis=axis)

    def sort(self, axis: int = -1) -> None:
        """Sort the elements along an axis where they are; `ta.sort` returns others.

        Raises:
            ArgumentError: no axis.
        """
        if axis is None:  # pyright: ignore[reportUnnecessaryComparison] -- the function takes it, and so do users
            raise ArgumentError("elements are sorted where they are along one axis", hint="ta.sort(x, axis=None)")
        _tensor(self)[...] = ATTACHED["sort"](_tensor(self), axis=axis)

    def nonzero(self) -> tuple[Tensor, ...]:
        """Return the indices of what is not zero, a tensor for each axis; see `ta.nonzero`."""
        return ATTACHED["nonzero"](_tensor(self))

    def searchsorted(self, v: Operand, side: Literal["left", "right"] = "left", sorter: Tensor | None = None) -> Tensor:
        """Return where in these sorted elements each of `v` goes; see `ta.searchsorted`."""
        return ATTACHED["places_in_order"](_tensor(self), v, side, sorter)

    def take(self, indices: Indices, axis: int | None = None, out: None = None) -> Tensor:
        """Return the parts at these indices along an axis; without one, elements as they lie in row-major order.

        Raises:
            BoundsError: an index outside of the extent.
        """
        _need_none(out=out)
        return ATTACHED["taken"](_tensor(self), indices, axis)

    # -- other numbers -------------------------------------------------------------------------------------------------

    def clip(self, min: Operand | None = None, max: Operand | None = None, out: None = None) -> Tensor:
        """Return the elements brought between two bounds, each of which may be missing; see `ta.clip`."""
        _need_none(out=out)
        return ATTACHED["clip"](_tensor(self), min, max)

    def round(self, decimals: int = 0, out: None = None) -> Tensor:
        """Return the elements rounded to so many decimals, to the even digit from the middle; integers for -1 tens."""
        _need_none(out=out)
        return ATTACHED["rounded"](_tensor(self), decimals)

    def dot(self, b: Operand, out: None = None) -> Tensor:
        """Return the sums of products over the last axis and the last but one of `b` (its only one for a vector)."""
        _need_none(out=out)
        return ATTACHED["dot"](_tensor(self), b)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """Return the sum along the diagonal over two axes; `offset` > 0 lies above the main one."""
        return self.diagonal(offset, axis1, axis2).sum(-1)

    # -- other shapes --------------------------------------------------------------------------------------------------

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """Return a view of the diagonals over two axes, as a new last axis; see `ta.diagonal`."""
        return ATTACHED["diagonal"](_tensor(self), offset=offset, axis1=axis1, axis2=axis2)

    def ravel(self) -> Tensor:
        """Return all elements along one axis: a view where the layout allows."""
        return self.reshape(-1)

    def squeeze(self, axis: Axis = None) -> Tensor:
        """Return a view without these axes of extent 1; without an axis, without all of them."""
        x = _tensor(self)
        ones = tuple(k for k, extent in enumerate(x.shape) if extent == 1)
        return ATTACHED["squeeze"](x, ones if axis is None else axis)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Return a view with two axes swapped."""
        return ATTACHED["swapaxes"](_tensor(self), axis1, axis2)

    def repeat(self, repeats: int | Tensor, axis: int | None = None) -> Tensor:
        """Return each element (or part along an axis) several times in a row; see `ta.repeat`."""
        return ATTACHED["repeat"](_tensor(self), repeats, axis=axis)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize


def _need_none(**given: object) -> None:
    """Refuse what NumPy's functions hand on to methods (`np.sum(x)` gives `out=None`) when it means something.

    Raises:
        ArgumentError: one is not None.
    """
    for name, value in given.items():
        if value is not None:
            raise ArgumentError(
                f"{name} = {value!r} is not supported here", hint="ta.assign the result, or cast x first"
            )


def _sizes(given: tuple[SupportsIndex | Sequence[SupportsIndex], ...]) -> Sequence[SupportsIndex]:
    """Return the numbers, whether they came one by one or as one sequence."""
    if len(given) == 1 and not hasattr(type(given[0]), "__index__"):
        return cast("Sequence[SupportsIndex]", given[0])
    return cast("tuple[SupportsIndex, ...]", given)
