"""What people write with arrays: operators and properties. Each hands on to the function that does it.

The functions live in modules that a net never needs: these attach them (`attached.py`), and are imported by the first
use. An operand of a type that is not known there (a sparse matrix, a lazy expression) gets its own turn: the operators
answer `NotImplemented`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tazza.errors import ArgumentError
from tazza.tensor.attached import ATTACHED

if TYPE_CHECKING:
    from types import ModuleType

    from tazza.tensor.dtype import DataType
    from tazza.tensor.place import Place
    from tazza.tensor.tensor import Tensor

    Axis: TypeAlias = "int | tuple[int, ...] | None"
    DType: TypeAlias = "DataType | npt.DTypeLike | None"

Simple: TypeAlias = SupportsIndex | slice | EllipsisType | None
Index: TypeAlias = "Simple | Tensor | npt.NDArray[Any] | Sequence[Any] | tuple[Any, ...]"
Operand: TypeAlias = "ArrayOperators | npt.NDArray[Any] | np.generic | bool | int | float | str | bytes"


def _compute(name: str, *operands: object) -> Any:
    """Evaluate an elementwise function, unless an operand is of a type that is not known here."""
    return ATTACHED["compute_operator"](name, *operands)


def _update(name: str, x: ArrayOperators, y: object) -> Any:
    """Do `x = name(x, y)` in the memory of `x`."""
    return ATTACHED["update_by_operator"](name, x, y)


def _beside(other: object, x: ArrayOperators) -> object:
    """Return lists and tuples as an array: without it Python answers `x == [1, 2]` by a bare False."""
    return ATTACHED["values_beside"](other, x) if isinstance(other, (list, tuple)) else other


def _tensor(x: ArrayOperators) -> Tensor:
    return cast("Tensor", x)  # the one class that has this base


class ArrayOperators:
    """Base of `Tensor`: the array object of the Python array-API standard.

    Source: Python array API standard 2024.12, "Array object".
    """

    __slots__ = ()

    # NumPy's arrays leave mixed operators to the class with the higher priority.
    __array_priority__ = 1000.0

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[int, ...]:
            """The extents; `Tensor` has them."""
            ...

        @property
        def place(self) -> Place:
            """Where the memory is; `Tensor` knows."""
            ...

        def plain(self) -> npt.NDArray[Any]:
            """Return the elements; `Tensor` has them."""
            ...

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """Return the module with the functions of the array-API standard.

        Raises:
            ArgumentError: a version of the standard that is not followed.
        """
        return ATTACHED["array_namespace"](api_version)

    # -- properties ----------------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def device(self) -> Place:
        """The place, by the name that the standard gives it."""
        return self.place

    @property
    def T(self) -> Tensor:
        """A view with all axes in reverse order."""
        return ATTACHED["permute_dims"](_tensor(self), range(self.ndim)[::-1])

    @property
    def mT(self) -> Tensor:
        """A view with the last two axes swapped; raises `ShapeError` for a rank below 2."""
        return ATTACHED["swapaxes"](_tensor(self), -2, -1)

    # -- arithmetic ----------------------------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> Tensor:
        return _compute("add", self, other)

    def __radd__(self, other: Operand) -> Tensor:
        return _compute("add", other, self)

    def __iadd__(self, other: Operand) -> Tensor:
        return _update("add", self, other)

    def __sub__(self, other: Operand) -> Tensor:
        return _compute("subtract", self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return _compute("subtract", other, self)

    def __isub__(self, other: Operand) -> Tensor:
        return _update("subtract", self, other)

    def __mul__(self, other: Operand) -> Tensor:
        return _compute("multiply", self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return _compute("multiply", other, self)

    def __imul__(self, other: Operand) -> Tensor:
        return _update("multiply", self, other)

    def __truediv__(self, other: Operand) -> Tensor:
        return _compute("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return _compute("divide", other, self)

    def __itruediv__(self, other: Operand) -> Tensor:
        return _update("divide", self, other)

    def __floordiv__(self, other: Operand) -> Tensor:
        return _compute("floor_divide", self, other)

    def __rfloordiv__(self, other: Operand) -> Tensor:
        return _compute("floor_divide", other, self)

    def __ifloordiv__(self, other: Operand) -> Tensor:
        return _update("floor_divide", self, other)

    def __mod__(self, other: Operand) -> Tensor:
        return _compute("remainder", self, other)

    def __rmod__(self, other: Operand) -> Tensor:
        return _compute("remainder", other, self)

    def __imod__(self, other: Operand) -> Tensor:
        return _update("remainder", self, other)

    def __pow__(self, other: Operand) -> Tensor:
        return _compute("pow", self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return _compute("pow", other, self)

    def __ipow__(self, other: Operand) -> Tensor:
        return _update("pow", self, other)

    def __matmul__(self, other: Operand) -> Tensor:
        return _multiply_matrices(self, other)

    def __rmatmul__(self, other: Operand) -> Tensor:
        return _multiply_matrices(other, self)

    def __neg__(self) -> Tensor:
        return _compute("negative", self)

    def __pos__(self) -> Tensor:
        return _tensor(self).copy()

    def __abs__(self) -> Tensor:
        return _compute("abs", self)

    # -- bits ----------------------------------------------------------------------------------------------------------

    def __and__(self, other: Operand) -> Tensor:
        return _compute("bitwise_and", self, other)

    def __rand__(self, other: Operand) -> Tensor:
        return _compute("bitwise_and", other, self)

    def __iand__(self, other: Operand) -> Tensor:
        return _update("bitwise_and", self, other)

    def __or__(self, other: Operand) -> Tensor:
        return _compute("bitwise_or", self, other)

    def __ror__(self, other: Operand) -> Tensor:
        return _compute("bitwise_or", other, self)

    def __ior__(self, other: Operand) -> Tensor:
        return _update("bitwise_or", self, other)

    def __xor__(self, other: Operand) -> Tensor:
        return _compute("bitwise_xor", self, other)

    def __rxor__(self, other: Operand) -> Tensor:
        return _compute("bitwise_xor", other, self)

    def __ixor__(self, other: Operand) -> Tensor:
        return _update("bitwise_xor", self, other)

    def __lshift__(self, other: Operand) -> Tensor:
        return _compute("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Operand) -> Tensor:
        return _compute("bitwise_left_shift", other, self)

    def __ilshift__(self, other: Operand) -> Tensor:
        return _update("bitwise_left_shift", self, other)

    def __rshift__(self, other: Operand) -> Tensor:
        return _compute("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Operand) -> Tensor:
        return _compute("bitwise_right_shift", other, self)

    def __irshift__(self, other: Operand) -> Tensor:
        return _update("bitwise_right_shift", self, other)

    def __invert__(self) -> Tensor:
        return _compute("bitwise_invert", self)

    # -- comparisons: one bool for each element ------------------------------------------------------------------------

    # As `==` does not compare whole tensors, sets and dictionaries tell them apart by what they are.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride] - elementwise
        return _compute("equal", self, _beside(other, self))

    def __ne__(self, other: object) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride] - elementwise
        return _compute("not_equal", self, _beside(other, self))

    def __lt__(self, other: Operand) -> Tensor:
        return _compute("less", self, other)

    def __le__(self, other: Operand) -> Tensor:
        return _compute("less_equal", self, other)

    def __gt__(self, other: Operand) -> Tensor:
        return _compute("greater", self, other)

    def __ge__(self, other: Operand) -> Tensor:
        return _compute("greater_equal", self, other)

    # -- elements ------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Index) -> Tensor:
        return ATTACHED["get_item"](_tensor(self), index)

    def __setitem__(self, index: Index, value: object) -> None:
        ATTACHED["set_item"](_tensor(self), index, value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor of rank 0 has no length")  # what the language asks for
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def item(self) -> bool | int | float | bytes:
        """Return the only element as a Python value.

        Raises:
            ArgumentError: there is not exactly one element.
        """
        array = self.plain()
        if array.size != 1:
            raise ArgumentError(f"a tensor of {array.size} elements is no single value", hint="index it first: x[0]")
        return array.item()

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python values; one value for rank 0."""
        return self.plain().tolist()

    def tobytes(self) -> bytes:
        """Return the elements in row-major order as bytes."""
        return self.plain().tobytes()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(float(self.item()))

    def __index__(self) -> int:
        value = self.item()
        if self.shape or type(value) is not int:
            raise TypeError("only a tensor of rank 0 with an integer is an index")  # what the language asks for
        return value

    def __format__(self, form: str) -> str:
        return format(self.item() if form else str(self), form)

    def __str__(self) -> str:
        return ATTACHED["text_of"](_tensor(self))

    def __reduce__(self) -> tuple[Any, tuple[npt.NDArray[Any]]]:
        """Pickle the elements, in row-major order and for the CPU; copying (`copy.copy`) goes the same way."""
        return type(_tensor(self)).from_numpy, (np.array(self.plain()),)


def _multiply_matrices(a: object, b: object) -> Any:
    return ATTACHED["multiply_matrices"](a, b)
