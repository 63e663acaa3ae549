"""Random fills: UniformFill, UniformIntFill, GaussianFill, XavierFill, MSRAFill. For shapes see `ops.fill`.

Each operator draws from a generator of its own, seeded by `random_seed` of its device option, and goes on from run to
run. With a seed the numbers are those of Caffe2 to the last bit; without one every operator differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tazza.data_class import dataclass
from tazza.device import Generator
from tazza.errors import ArgumentError, ShapeError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    family,
    kernel,
    schema,
    together,
)
from tazza.ops.fill.fill import NO_GRADIENT, SHAPE_ARGS, SHAPE_DOC, check_shape_args, fill_cost, fill_dims
from tazza.tensor import DataType, TensorSpec

RANGE = "in place of the argument, of one element"


def random_fill_infer(op: OpView, X: TensorSpec | None) -> TensorSpec:
    return TensorSpec(fill_dims(op, X), DataType.FLOAT)


def random_fill_cost(op: OpView, X: TensorSpec | None, Y: TensorSpec) -> Cost:
    del X
    return fill_cost(op, Y)


PIECE = 1 << 16
"""Numbers that are drawn at a time: even, since gaussian ones come in pairs."""


def fill_drawn(Y: Array, draw: Callable[[int], Array]) -> None:
    """Write Y a piece at a time, as `draw` gives so many numbers: what it takes beside a large table is little."""
    flat = Y.reshape(-1) if Y.flags.c_contiguous else Y.flat
    for begin in range(0, Y.size, PIECE):
        count = min(PIECE, Y.size - begin)
        flat[begin : begin + count] = draw(count)


# -- uniform -----------------------------------------------------------------------------------------------------------


def _range_validate(op: OpView) -> None:
    check_shape_args(op)
    given = [name for name in ("min", "max") if op.given(name)]
    if given and op.has_input("low"):
        raise op.error(
            ArgumentError, f"{' and '.join(given)} are given as arguments and as inputs", hint="drop one of them"
        )
    if not op.has_input("low"):
        _check_range(op, op.min, op.max)


def _check_range(op: OpView, low: float, high: float) -> None:
    if not low < high:
        raise op.error(ArgumentError, f"min = {low} is not below max = {high}", hint="give both")


def _range_of(op: OpView, low: Array | None, high: Array | None) -> tuple[float, float]:
    """Return the range from the inputs if they are there, else from the arguments; that of inputs may be one number."""
    if low is None or high is None:
        return op.min, op.max
    return low.reshape(()).item(), high.reshape(()).item()


def _range_infer(
    op: OpView, X: TensorSpec | None, low: TensorSpec | None, high: TensorSpec | None
) -> tuple[int | None, ...] | None:
    for name, spec in (("low", low), ("high", high)):
        if spec is not None and spec.shape_known:
            op.require(spec.size == 1, f"{name} has {spec.size} elements, it must have 1")
    dims = fill_dims(op, X)
    return dims if low is None or dims is None else _dims_in_range(op, dims)


def _dims_in_range(op: OpView, dims: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Return dims, of which the first one is 0 where the range from the inputs is empty: there is nothing to draw."""
    low, high = op.value_of("low"), op.value_of("high")
    if low is None or high is None:
        return (None, *dims[1:]) if dims else dims
    first, last = low.reshape(()).item(), high.reshape(()).item()
    if first <= last:
        return dims
    if not dims:
        raise op.error(ArgumentError, f"min = {first} is above max = {last}", hint="swap low and high")
    return (0, *dims[1:])


def _range_cost(
    op: OpView, X: TensorSpec | None, low: TensorSpec | None, high: TensorSpec | None, Y: TensorSpec
) -> Cost:
    del X, low, high
    return fill_cost(op, Y)


UNIFORM_FILL = schema(
    "UniformFill",
    "Y = float32 numbers, uniform in [min, max).",
    inputs=[
        blob("X", optional=True, role=Role.SHAPE, doc=SHAPE_DOC),
        blob("low", FLOAT, optional=True, role=Role.PARAMETER, doc=f"min {RANGE}"),
        blob("high", FLOAT, optional=True, role=Role.PARAMETER, doc=f"max {RANGE}"),
    ],
    outputs=[blob("Y", FLOAT)],
    args=[
        *SHAPE_ARGS,
        arg("min", float, 0.0, doc="least number"),
        arg("max", float, 1.0, doc="end, which is not drawn"),
    ],
    in_place={"Y": "X"},
    effects=Effects.RANDOM,
    relations=[together("low", "high")],
    no_gradient=NO_GRADIENT,
    source="Matsumoto, Nishimura 1998 (MT19937)",
    example="""
    >>> Y = run("UniformFill", shape=[100], min=-1.0, max=2.0)
    >>> bool((Y >= -1).all() and (Y < 2).all())
    True
    """,
)
UNIFORM_FILL.validate(_range_validate)
UNIFORM_FILL.cost(_range_cost)


@UNIFORM_FILL.infer
def uniform_fill_infer(op: OpView, X: TensorSpec | None, low: TensorSpec | None, high: TensorSpec | None) -> TensorSpec:
    return TensorSpec(_range_infer(op, X, low, high), DataType.FLOAT)


@kernel(UNIFORM_FILL)
def uniform_fill(op: OpView, random: Generator, low: Array | None, high: Array | None, Y: Array) -> None:
    bounds = _range_of(op, low, high)
    fill_drawn(Y, lambda count: random.uniform(count, *bounds))


INTEGER = frozenset({DataType.INT32})

UNIFORM_INT_FILL = schema(
    "UniformIntFill",
    "Y = int32 numbers, uniform in [min, max], both included.",
    inputs=[
        blob("X", optional=True, role=Role.SHAPE, doc=SHAPE_DOC),
        blob("low", INTEGER, optional=True, role=Role.PARAMETER, doc=f"min {RANGE}"),
        blob("high", INTEGER, optional=True, role=Role.PARAMETER, doc=f"max {RANGE}"),
    ],
    outputs=[blob("Y", INTEGER)],
    args=[
        *SHAPE_ARGS,
        arg("min", int, 0, minimum=-(2**31), maximum=2**31 - 1, doc="least number"),
        arg("max", int, 1, minimum=-(2**31), maximum=2**31 - 1, doc="greatest number"),
    ],
    in_place={"Y": "X"},
    effects=Effects.RANDOM,
    relations=[together("low", "high")],
    no_gradient=NO_GRADIENT,
    source="Matsumoto, Nishimura 1998 (MT19937)",
    example="""
    >>> sorted(set(run("UniformIntFill", shape=[100], min=0, max=3).tolist()))
    [0, 1, 2, 3]
    """,
)
UNIFORM_INT_FILL.validate(_range_validate)
UNIFORM_INT_FILL.cost(_range_cost)


@UNIFORM_INT_FILL.infer
def uniform_int_fill_infer(
    op: OpView, X: TensorSpec | None, low: TensorSpec | None, high: TensorSpec | None
) -> TensorSpec:
    return TensorSpec(_range_infer(op, X, low, high), DataType.INT32)


@kernel(UNIFORM_INT_FILL)
def uniform_int_fill(op: OpView, random: Generator, low: Array | None, high: Array | None, Y: Array) -> None:
    first, last = _range_of(op, low, high)
    if Y.size == 0:  # the range may be empty too
        return
    fill_drawn(Y, lambda count: random.integers(count, int(first), int(last)))


# -- Gaussian ----------------------------------------------------------------------------------------------------------

GAUSSIAN_FILL = schema(
    "GaussianFill",
    "Y = float32 numbers from N(mean, std**2).",
    inputs=[blob("X", optional=True, role=Role.SHAPE, doc=SHAPE_DOC)],
    outputs=[blob("Y", FLOAT)],
    args=[
        *SHAPE_ARGS,
        arg("mean", float, 0.0, doc="expected value"),
        arg("std", float, 1.0, minimum=0.0, doc="standard deviation"),
    ],
    in_place={"Y": "X"},
    effects=Effects.RANDOM,
    no_gradient=NO_GRADIENT,
    source="Box, Muller 1958",
    example="""
    >>> run("GaussianFill", shape=[2], mean=3.0, std=0.0)
    array([3., 3.], dtype=float32)
    """,
)
GAUSSIAN_FILL.validate(check_shape_args)
GAUSSIAN_FILL.infer(random_fill_infer)
GAUSSIAN_FILL.cost(random_fill_cost)


@kernel(GAUSSIAN_FILL)
def gaussian_fill(op: OpView, random: Generator, Y: Array) -> None:
    fill_drawn(Y, lambda count: random.gaussian(count, op.mean, op.std))


# -- scaled by fan-in or fan-out ---------------------------------------------------------------------------------------


def _fan(op: OpView, Y: TensorSpec, axis: int, name: str) -> TensorSpec:
    if Y.dims is not None and len(Y.dims) <= axis:
        raise op.error(ShapeError, f"Y has {len(Y.dims)} dimensions, {name} is its size over dimension {axis}")
    return Y


def fill_scale(numerator: float, shape: Sequence[int], axis: int) -> float:
    """Return sqrt(numerator / fan) for elements over an axis, rounded to float32 as Caffe2 does; 0 without elements."""
    size = math.prod(shape)
    return float(np.sqrt(np.float32(numerator) / np.float32(size // shape[axis]))) if size else 0.0


def xavier_fill_infer(op: OpView, X: TensorSpec | None) -> TensorSpec:
    return _fan(op, random_fill_infer(op, X), 0, "fan-in")


def msra_fill_infer(op: OpView, X: TensorSpec | None) -> TensorSpec:
    return _fan(op, random_fill_infer(op, X), 1, "fan-out")


@dataclass(frozen=True, slots=True)
class Scaled:
    """What tells one fill from another."""

    doc: str
    source: str
    infer: Callable[[OpView, TensorSpec | None], TensorSpec]
    numerator: float
    axis: int
    gaussian: bool
    example: str

    def scale(self, shape: Sequence[int]) -> float:
        """Return s: where the uniform numbers end, or the standard deviation."""
        return fill_scale(self.numerator, shape, self.axis)

    def draw(self, random: Generator, Y: Array) -> None:
        """Fill Y."""
        s = self.scale(Y.shape)
        fill_drawn(Y, lambda count: random.gaussian(count, 0.0, s) if self.gaussian else random.uniform(count, -s, s))


@family(
    {
        "XavierFill": Scaled(
            """Y = float32 numbers, uniform in [-s, s) with s = sqrt(3 / fan-in).

            Fan-in is the number of elements over the first dimension.""",
            "Glorot, Bengio 2010, formula 16 with fan-in alone; Caffe",
            xavier_fill_infer,
            3.0,
            0,
            False,
            """
            >>> bool((abs(run("XavierFill", shape=[5, 3])) <= 1).all())
            True
            """,
        ),
        "MSRAFill": Scaled(
            """Y = float32 numbers from N(0, 2 / fan-out).

            Fan-out is the number of elements over the second dimension.""",
            "He, Zhang, Ren, Sun 2015, formula 14",
            msra_fill_infer,
            2.0,
            1,
            True,
            """
            >>> run("MSRAFill", shape=[5, 3, 2]).shape
            (5, 3, 2)
            """,
        ),
    }
)
def scaled_fills(type: str, row: Scaled) -> OpSchema:
    """A fill whose spread follows from the shape."""
    made = schema(
        type,
        row.doc,
        inputs=[blob("X", optional=True, role=Role.SHAPE, doc=SHAPE_DOC)],
        outputs=[blob("Y", FLOAT)],
        args=SHAPE_ARGS,
        in_place={"Y": "X"},
        effects=Effects.RANDOM,
        no_gradient=NO_GRADIENT,
        source=row.source,
        example=row.example,
    )
    made.validate(check_shape_args)
    made.infer(row.infer)
    made.cost(random_fill_cost)
    kernel(made)(row.draw)
    return made
