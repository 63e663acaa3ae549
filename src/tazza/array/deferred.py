"""Lazy expressions: they record what is to be computed, and one fused kernel computes it when the values are wanted.

    y = lazy(a) * x + lazy(b)           nothing is computed
    y.evaluate()                        one pass over memory, nothing allocated but the result
    assign(x, lazy(x) * 0.9)            into an array that exists, an operand too

Operands are tensors, NumPy arrays and Python numbers; an expression sees the values that they have when it is
evaluated. The types are those of `tazza.tensor.promotion`. A reduction ends an expression; what is computed from it
again starts from its result, which is then evaluated first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tazza.array.evaluator import FEW
from tazza.array.program import REDUCTIONS, reduced_type
from tazza.errors import ArgumentError, DTypeError, NotFoundError, ShapeError, UnsupportedError
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.function import FUNCTIONS, STANDARD, Rule, arity_error, signature
from tazza.tensor.place import Place
from tazza.tensor.promotion import kind_of, result_type
from tazza.tensor.tensor import Tensor

if TYPE_CHECKING:
    from tazza.array.evaluation import Evaluation

__all__ = ["Lazy", "apply", "assign", "bind", "evaluate", "lazy"]

Operand: TypeAlias = "Lazy | Tensor | npt.NDArray[Any] | np.generic | bool | int | float"
Axes: TypeAlias = "int | Sequence[int] | None"

_NUMBERS = frozenset({bool, int, float})
FEW_ALONE = 1 << 17
"""Fewer elements than this are left to NumPy when there is one function that costs it nothing but memory."""
_POWERS = {2: "square", 3: "cube"}


class Lazy:
    """An expression over arrays that was not computed yet; immutable.

    `function` is "" for an operand, whose `value` is a tensor or an array, else the name of what is applied to
    `operands`. With a `reduction` the single operand is reduced along `axes`, of which the extent 1 stays. `fixed` are
    operands that nobody can write to: numbers.

    >>> x = lazy(np.array([1.0, 2.0, 4.0], np.float32))
    >>> (2 * x + 1).evaluate().numpy().tolist()
    [3.0, 5.0, 9.0]
    >>> float((x * x).sum().evaluate().numpy())
    21.0
    """

    __slots__ = ("axes", "dtype", "far", "fixed", "function", "kept", "operands", "reduction", "shape", "value")
    __array_ufunc__ = None
    """Lets NumPy's arrays leave `array + expression` to the expression."""
    __hash__ = object.__hash__

    def __init__(
        self,
        function: str,
        operands: tuple[Lazy, ...],
        dtype: DataType,
        shape: Dim,
        *,
        value: Tensor | npt.NDArray[Any] | None = None,
        fixed: bool = False,
        reduction: tuple[str, tuple[int, ...], bool] | None = None,
    ) -> None:
        """Hold the parts; use `lazy` and `apply`."""
        self.function = function
        self.operands = operands
        self.dtype = dtype
        self.shape = shape
        self.value = value
        self.fixed = fixed
        self.reduction, self.axes, self.kept = ("", (), False) if reduction is None else reduction
        self.far: Place | None = None
        """The device on which a tensor of it lies, if one does."""
        if isinstance(value, Tensor):
            if not value.place.is_host:
                self.far = value.place
        else:
            for one in operands:
                if one.far is not None:
                    self.far = one.far
                    break

    @property
    def size(self) -> int:
        """Number of elements of the result."""
        return self.shape.numel

    # -- what follows it -----------------------------------------------------------------------------------------------

    def cast(self, dtype: DataType | str | npt.DTypeLike) -> Lazy:
        """Return the expression in another element type, as NumPy's `astype` would give it.

        >>> lazy(np.array([2.9, -2.9])).cast("int32").evaluate().numpy().tolist()
        [2, -2]
        """
        wanted = DataType.of(cast("Any", dtype))
        return self if wanted is self.dtype else apply(wanted.label, self)

    def sum(self, axis: Axes = None, *, keepdims: bool = False) -> Lazy:
        """Add up along axes (None: all of them); integers and bools give int64, floats are added in float64."""
        return self._reduced("sum", axis, keepdims)

    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> Lazy:
        """Return the sum divided by the number of elements, which for none is NaN."""
        return self._reduced("mean", axis, keepdims)

    def prod(self, axis: Axes = None, *, keepdims: bool = False) -> Lazy:
        """Multiply along axes."""
        return self._reduced("prod", axis, keepdims)

    def max(self, axis: Axes = None, *, keepdims: bool = False) -> Lazy:
        """Return the largest along axes; NaN if there is one. Raises `ShapeError` where there are no elements."""
        return self._reduced("max", axis, keepdims)

    def min(self, axis: Axes = None, *, keepdims: bool = False) -> Lazy:
        """Return the smallest along axes; NaN if there is one. Raises `ShapeError` where there are no elements."""
        return self._reduced("min", axis, keepdims)

    def any(self, axis: Axes = None, *, keepdims: bool = False) -> Lazy:
        """Whether one is not 0 along axes."""
        return self.cast(DataType.BOOL)._reduced("any", axis, keepdims)

    def all(self, axis: Axes = None, *, keepdims: bool = False) -> Lazy:
        """Whether none is 0 along axes."""
        return self.cast(DataType.BOOL)._reduced("all", axis, keepdims)

    def _reduced(self, name: str, axis: Axes, keepdims: bool) -> Lazy:
        assert name in REDUCTIONS
        dtype = reduced_type(name, self.dtype)
        axes = _axes(self.shape, axis)
        if name in ("max", "min") and any(self.shape[one] == 0 for one in axes):
            raise ShapeError(f"{name} of {self.shape} along {axes}: there is no element to choose from")
        if keepdims:
            shape = Dim(1 if one in axes else extent for one, extent in enumerate(self.shape))
        else:
            shape = Dim(extent for one, extent in enumerate(self.shape) if one not in axes)
        return Lazy("", (self,), dtype, shape, reduction=(name, axes, keepdims))

    # -- computing -----------------------------------------------------------------------------------------------------

    def evaluate(self, out: Tensor | None = None, *, evaluator: str | None = None) -> Tensor:
        """Compute it; into `out` if given, as `assign` does, else into a new row-major tensor.

        Raises:
            ShapeError, DTypeError: `out` does not fit.
            UnsupportedError: the `evaluator` that was named refuses.
        """
        if self.far is not None:
            from tazza.array.on_device import evaluate_there  # it needs `Lazy`

            return evaluate_there(self, out, evaluator)
        if evaluator is None and self._is_small(out):
            from tazza.array.evaluation import compute_few  # it needs `Lazy`

            return compute_few(self, out)
        return self._planned(out, evaluator).run()[0]

    def _is_small(self, out: Tensor | None) -> bool:
        """Whether to plan would take longer than to compute; a single cheap function has nothing to fuse either."""
        if self.reduction:
            return False
        size = self.shape.numel if out is None else out.size
        if size < FEW or not self.function or size >= FEW_ALONE:
            return size < FEW
        return FUNCTIONS[self.function].flops <= 1 and all(one.value is not None for one in self.operands)

    def explain(self, out: Tensor | None = None, *, evaluator: str | None = None) -> str:
        """Tell what `evaluate` would run: the kernel, the bytes that it reads and writes, what is copied and why."""
        if self.far is not None:
            return f"a kernel of its own on {self.far}"
        plan = self._planned(out, evaluator).explain()
        if evaluator is None and self._is_small(out) and self.size >= FEW:
            return f"NumPy, as there is one cheap function and fewer than {FEW_ALONE} elements; else\n{plan}"
        return plan

    def _planned(self, out: Tensor | None, evaluator: str | None) -> Evaluation:
        return _planning()([self], [out], evaluator)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Let NumPy read the values, which are computed for it."""
        return self.evaluate().__array__(dtype, copy)

    def __bool__(self) -> bool:
        raise ArgumentError("an expression is not true or false before it is computed", hint="x.evaluate() first")

    def __repr__(self) -> str:
        what = self.reduction if self.reduction else self.function if self.function else "operand"
        return f"Lazy({self.dtype}[{', '.join(map(str, self.shape))}], {what})"

    # -- operators -----------------------------------------------------------------------------------------------------

    def __neg__(self) -> Lazy:
        return apply("neg", self)

    def __pos__(self) -> Lazy:
        return self

    def __abs__(self) -> Lazy:
        return apply("abs", self)

    def __invert__(self) -> Lazy:
        return apply("bit_not", self)

    def __add__(self, other: Operand) -> Lazy:
        return apply("add", self, other)

    def __radd__(self, other: Operand) -> Lazy:
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> Lazy:
        return apply("sub", self, other)

    def __rsub__(self, other: Operand) -> Lazy:
        return apply("sub", other, self)

    def __mul__(self, other: Operand) -> Lazy:
        return apply("mul", self, other)

    def __rmul__(self, other: Operand) -> Lazy:
        return apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Lazy:
        return apply("div", self, other)

    def __rtruediv__(self, other: Operand) -> Lazy:
        return apply("div", other, self)

    def __floordiv__(self, other: Operand) -> Lazy:
        return apply("floor_divide", self, other)

    def __rfloordiv__(self, other: Operand) -> Lazy:
        return apply("floor_divide", other, self)

    def __mod__(self, other: Operand) -> Lazy:
        return apply("remainder", self, other)

    def __rmod__(self, other: Operand) -> Lazy:
        return apply("remainder", other, self)

    def __pow__(self, other: Operand) -> Lazy:
        return apply("pow", self, other)

    def __rpow__(self, other: Operand) -> Lazy:
        return apply("pow", other, self)

    def __and__(self, other: Operand) -> Lazy:
        return apply("bit_and", self, other)

    def __rand__(self, other: Operand) -> Lazy:
        return apply("bit_and", other, self)

    def __or__(self, other: Operand) -> Lazy:
        return apply("bit_or", self, other)

    def __ror__(self, other: Operand) -> Lazy:
        return apply("bit_or", other, self)

    def __xor__(self, other: Operand) -> Lazy:
        return apply("bit_xor", self, other)

    def __rxor__(self, other: Operand) -> Lazy:
        return apply("bit_xor", other, self)

    def __lshift__(self, other: Operand) -> Lazy:
        return apply("left_shift", self, other)

    def __rshift__(self, other: Operand) -> Lazy:
        return apply("right_shift", self, other)

    def __lt__(self, other: Operand) -> Lazy:
        return apply("lt", self, other)

    def __le__(self, other: Operand) -> Lazy:
        return apply("le", self, other)

    def __gt__(self, other: Operand) -> Lazy:
        return apply("gt", self, other)

    def __ge__(self, other: Operand) -> Lazy:
        return apply("ge", self, other)

    def __eq__(self, other: Operand) -> Lazy:  # pyright: ignore[reportIncompatibleMethodOverride] -- element by element
        return apply("eq", self, other)

    def __ne__(self, other: Operand) -> Lazy:  # pyright: ignore[reportIncompatibleMethodOverride] -- element by element
        return apply("ne", self, other)


def lazy(x: Operand) -> Lazy:
    """Return the expression that is just this operand; memory is neither copied nor read.

    Raises:
        DTypeError: text, complex numbers, another byte order than the machine's, or no array at all.
    """
    if isinstance(x, Lazy):
        return x
    if isinstance(x, Tensor):
        kind_of(x.dtype)
        return Lazy("", (), x.dtype, x.shape, value=x)
    if not isinstance(x, np.ndarray):
        number = np.asarray(x) if isinstance(x, np.generic) else _number(x, result_type(x))
        dtype = DataType.of(number)
        kind_of(dtype)
        return Lazy("", (), dtype, Dim(()), value=number, fixed=True)
    dtype = DataType.of(x)
    kind_of(dtype)
    if x.dtype != dtype.numpy:
        raise DTypeError(
            f"the byte order {x.dtype.byteorder!r} of an operand {x.dtype.name} is not the machine's",
            hint="what is recorded is not copied: give array.astype(array.dtype.newbyteorder('='))",
        )
    return Lazy("", (), dtype, Dim(x.shape), value=x)


def apply(name: str, *operands: Operand) -> Lazy:
    """Return the expression of a function of the language, by its own name or that of the array-API standard.

    The operands are broadcast against each other and brought to one type, as `tazza.tensor.promotion` says.

    Raises:
        NotFoundError: there is no such function.
        ArgumentError: another number of operands.
        DTypeError: it does not take operands of these types.
        ShapeError: they do not broadcast.

    >>> apply("maximum", np.array([1, 5]), 3).evaluate().numpy().tolist()
    [3, 5]
    """
    known = STANDARD.get(name)
    if known is None:
        raise NotFoundError(f"no function is called {name!r}", hint=f"known: {', '.join(sorted(STANDARD))}")
    if len(operands) != FUNCTIONS[known].arity:
        raise arity_error(known, operands)
    if known == "pow" and type(operands[1]) is int and operands[1] in _POWERS:
        return apply(_POWERS[operands[1]], operands[0])
    parts = _typed(known, operands)
    wanted, dtype = signature(known, tuple(part.dtype for part in parts))
    given = tuple(
        part if part.dtype is kind else _converted(part, kind) for part, kind in zip(parts, wanted, strict=True)
    )
    shape = given[0].shape
    for part in given[1:]:
        if part.shape != shape:
            shape = shape.broadcast(part.shape)
    return Lazy(known, given, dtype, shape)


def assign(target: Tensor, expression: Operand) -> None:
    """Write the values of an expression into the elements of `target`, which may be a view, and one of the operands.

    The expression broadcasts to the shape of the target, and is cast to its type unless that is of a lower kind.

    Raises:
        ShapeError: it does not broadcast to the target.
        UnsupportedError: the target has one element in several places.
        DTypeError: its type is of a higher kind than the target's.

    >>> x = Tensor.from_numpy(np.arange(4.0))
    >>> assign(x, lazy(x) * x + 1); x.numpy().tolist()
    [1.0, 2.0, 5.0, 10.0]
    """
    lazy(expression).evaluate(target)


def evaluate(
    several: Sequence[Lazy], out: Sequence[Tensor | None] | None = None, *, evaluator: str | None = None
) -> list[Tensor]:
    """Compute several expressions at once; into the tensors of `out`, where they are not None.

    Raises:
        ArgumentError: another number of targets, or two of them that overlap.
        ShapeError, DTypeError: a target does not fit.

    >>> x = Tensor.from_numpy(np.array([1.0, 2.0])); y = Tensor.from_numpy(np.array([5.0, 7.0]))
    >>> [t.numpy().tolist() for t in evaluate([lazy(y), lazy(x)], [x, y])]
    [[5.0, 7.0], [1.0, 2.0]]
    """
    if any(one.far is not None for one in several):
        from tazza.array.on_device import evaluate_all_there  # it needs `Lazy`

        return evaluate_all_there(several, [None] * len(several) if out is None else out, evaluator)
    return bind(several, out, evaluator=evaluator).run()


def bind(
    several: Sequence[Lazy], out: Sequence[Tensor | None] | None = None, *, evaluator: str | None = None
) -> Evaluation:
    """Return the evaluation of several expressions, to be run as often as one likes.

    Each run sees the present values of the operands and overwrites the results of the last one. Numbers that
    change, such as a rate, are given as tensors of rank 0.

    Raises:
        UnsupportedError: a tensor of them is on a device: there each is computed by itself.
    """
    far = next((one.far for one in several if one.far is not None), None)
    if far is not None:
        raise UnsupportedError(f"expressions on {far} are not bound", hint="evaluate them each time")
    targets = [None] * len(several) if out is None else list(out)
    return _planning()(list(several), targets, evaluator, again=True)


def _planning() -> type[Evaluation]:
    from tazza.array.evaluation import Evaluation  # it needs `Lazy`

    return Evaluation


def _typed(name: str, operands: tuple[Operand, ...]) -> list[Lazy]:
    """Give Python numbers the type of the arrays beside them; np.float64 is one of the numbers, and has a width."""
    parts: list[Any] = [x if type(x) in _NUMBERS else lazy(x) for x in operands]
    numbers = [k for k, x in enumerate(parts) if type(x) is not Lazy]
    if numbers:
        first = 1 if FUNCTIONS[name].rule is Rule.WHERE else 0
        dtype = result_type(*parts[first:])
        for k in numbers:
            if k < first:
                parts[k] = lazy(parts[k])
            else:
                parts[k] = Lazy("", (), dtype, Dim(()), value=_number(parts[k], dtype), fixed=True)
    return parts


def _number(x: Any, dtype: DataType) -> npt.NDArray[Any]:
    try:
        with np.errstate(over="ignore"):  # 1e10 is infinite in float16
            return np.array(x, dtype.numpy)
    except (OverflowError, ValueError, TypeError) as error:
        raise DTypeError(f"{x!r} is no {dtype}: {error}", hint="cast the array to a wider type") from None


def _converted(part: Lazy, dtype: DataType) -> Lazy:
    if part.fixed:
        number = cast("npt.NDArray[Any]", part.value)
        return Lazy("", (), dtype, part.shape, value=number.astype(dtype.numpy), fixed=True)
    return Lazy(dtype.label, (part,), dtype, part.shape)


def _axes(shape: Dim, axis: Axes) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(len(shape)))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    found = [shape.canonical_axis(one) for one in given]
    if len(set(found)) != len(found):
        raise ShapeError(f"axes {given} of {shape} name one axis twice")
    return tuple(sorted(found))
