"""Layers with an epilogue: FusedConv, FusedConvTranspose, FusedFC, FusedMatMul, FusedSpatialBN. Rewriting makes them.

With `base` what the layer of that name gives for the same inputs and arguments,

    Y = epilogue(y = base(X, W, b), s0 = S[0], s1 = S[1] ...)

for each element. The epilogue is a text in the language of `tensor.expression`; each S has the shape of Y.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, DTypeError, SchemaError
from tazza.operator import (
    FLOAT,
    HALVES,
    ArgSpec,
    Array,
    BlobSpec,
    Expression,
    OpSchema,
    OpView,
    Role,
    Tail,
    arg,
    blob,
    family,
    fused,
    not_written,
    show_dims,
)
from tazza.ops.math.matmul import MATMUL
from tazza.ops.nn.batch_norm import SPATIAL_BN
from tazza.ops.nn.conv import CONV, CONVS
from tazza.ops.nn.conv_transpose import CONV_TRANSPOSE
from tazza.ops.nn.fc import FC
from tazza.ops.shape.axis import shapes_agree
from tazza.tensor import TensorSpec

NO_GRADIENT = not_written("it is made by graph rewriting, after the backward pass was built")


def _always(op: OpView) -> bool:
    del op
    return True


def epilogue_of(op: OpView) -> Expression:
    """Return the epilogue, over y, s0, s1 ..."""
    return Expression.parse(op.epilogue)


@dataclass(frozen=True, slots=True)
class SumAndRelu:
    """An epilogue that libraries have: y, with an operand added where there is one, and a rectifier where asked."""

    operands: int
    rectified: bool


_SUMS = {0: ("y",), 1: ("y + s0", "s0 + y")}
_SUMS_AND_RELUS = {
    Expression.parse(form.format(text)).text(): SumAndRelu(operands, form != "{}")
    for operands, texts in _SUMS.items()
    for text in texts
    for form in ("{}", "relu({})", "max({}, 0)", "max(0, {})")
}


def sum_and_relu(epilogue: Expression) -> SumAndRelu | None:
    """Return what an epilogue is of a sum and a rectifier, or None where it is something else.

    >>> sum_and_relu(Expression.parse("relu(s0 + y)"))
    SumAndRelu(operands=1, rectified=True)
    >>> sum_and_relu(Expression.parse("tanh(y)"))
    """
    return _SUMS_AND_RELUS.get(epilogue.text())


def _letters_for(letters: Sequence[str], least: int) -> Callable[[OpView, int], tuple[str, ...]]:
    def letters_of_inputs(op: OpView, count: int) -> tuple[str, ...]:
        given = count - op.operands
        if not least <= given <= len(letters):
            raise op.error(
                SchemaError,
                f"{count} inputs, of which {op.operands} are operands, leave {given} for {', '.join(letters)}",
                "check the argument operands",
            )
        return (*letters[:given], *["S"] * op.operands)

    return letters_of_inputs


def _check_names(op: OpView) -> None:
    check_formula(op, "epilogue", {"y", *(f"s{number}" for number in range(op.operands))})


def check_formula(op: OpView, argument: str, names: Collection[str]) -> None:
    """Check that the formula in an argument can be read, and names nothing else than `names`.

    Raises:
        ArgumentError: it does not.
    """
    text = str(getattr(op, argument))
    strange = [name for name in Expression.parse(text).names if name not in names]
    if strange:
        relation = f"{argument} {text!r} names {', '.join(strange)}, there are {', '.join(sorted(names))}"
        raise op.error(ArgumentError, relation)


def _check_operands(op: OpView, Y: TensorSpec, operands: Mapping[str, Any]) -> None:
    """Check that every operand has the shape and type of Y."""
    for number, spec in enumerate(cast("tuple[TensorSpec, ...]", operands["S"])):
        if spec.dtype is not Y.dtype:
            raise op.error(DTypeError, f"s{number} is {spec.dtype.label}, Y is {Y.dtype.label}", "insert a Cast")
        if spec.dims is not None and Y.dims is not None:
            relation = f"s{number} has the shape {show_dims(spec.dims)}, Y has {show_dims(Y.dims)}"
            op.require(shapes_agree(spec.dims, Y.dims), relation, "operands are not broadcast")


def apply_epilogue(op: OpView, y: Array, S: Sequence[Array], Y: Array) -> None:
    """Write Y from the base result `y`, which may not be Y itself."""
    values: dict[str, Any] = {"y": y} | {f"s{number}": s for number, s in enumerate(S)}
    np.copyto(Y, epilogue_of(op).evaluate(values), casting="same_kind")


EPILOGUE = Tail(
    lambda op: epilogue_of(op).flops,
    lambda op, y, values, Y: apply_epilogue(op, y, values["S"], Y),
    inputs=(
        blob(
            "S",
            FLOAT,
            like="Y",
            variadic=True,
            optional=True,
            role=Role.DATA,
            elsewhere=HALVES,
            doc="each of the shape and type of Y",
        ),
    ),
    args=(
        arg("operands", int, 0, minimum=0, doc="how many of the last inputs are S"),
        arg("epilogue", str, "y", doc="formula over y, s0, s1 ..."),
    ),
    validate=_check_names,
    check=_check_operands,
    name_inputs=_letters_for,
)
"""What stands behind every layer here."""


def _trains(op: OpView) -> bool:
    return not op.is_test and len(op.input_letters) == 5 and op.num_batches <= 1


TRAINS = {
    "is_test": arg("is_test", int, 0, choices=(0,), doc="it trains"),
    "num_batches": arg("num_batches", int, 1, minimum=0, maximum=1, doc="statistics are those of one batch"),
}
"""Arguments of SpatialBN by which the fused operators differ from it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that gets an epilogue.

    Attributes:
        base: the layer.
        example: of it with an epilogue.
        bases: all that this one stands for, which differ by name only; the base unless given.
        takes: which operators of these.
        inputs: those of the base unless given.
        outputs: of the fused operator.
        args: by which it differs from the base.
        over: which letters Y may overwrite.
    """

    base: OpSchema
    example: str
    bases: tuple[OpSchema, ...] = ()
    takes: Callable[[OpView], bool] = _always
    inputs: tuple[BlobSpec, ...] | None = None
    outputs: tuple[BlobSpec, ...] = (blob("Y", FLOAT),)
    args: Mapping[str, ArgSpec] = field(default_factory=dict[str, ArgSpec])
    over: tuple[str, ...] = ("S",)


@family(
    {
        "FusedConv": Layer(
            CONV,
            """
            >>> X, W = np.arange(9.0, dtype="f").reshape(1, 1, 3, 3), np.ones((1, 1, 2, 2), "f")
            >>> run("FusedConv", X, W, kernel=2, epilogue="max(y - 11, 0)").reshape(2, 2)
            array([[ 0.,  1.],
                   [ 9., 13.]], dtype=float32)
            """,
            bases=CONVS,
        ),
        "FusedConvTranspose": Layer(
            CONV_TRANSPOSE,
            """
            >>> run("FusedConvTranspose", [[[[1.0, 2.0]]]], [[[[3.0, 4.0]]]], kernels=[1, 2], epilogue="max(y, 5)")
            array([[[[ 5., 10.,  8.]]]], dtype=float32)
            """,
        ),
        "FusedFC": Layer(
            FC,
            """
            >>> run("FusedFC", [[1.0, 2.0]], [[1.0, 0.0], [0.0, -1.0]], [10.0, 0.0], [[1.0, 2.0]],
            ...     operands=1, epilogue="relu(y + s0)")
            array([[12.,  0.]], dtype=float32)
            """,
        ),
        "FusedMatMul": Layer(
            MATMUL,
            """
            >>> run("FusedMatMul", [[1.0, 2.0]], [[3.0], [4.0]], epilogue="y * 0.5")
            array([[5.5]], dtype=float32)
            """,
        ),
        "FusedSpatialBN": Layer(
            SPATIAL_BN,
            """
            >>> X, one = np.array([[1.0], [3.0]], "f"), np.ones(1, "f")
            >>> from tazza.workspace import Workspace
            >>> from tazza.operator import operator_def
            >>> ws = Workspace()
            >>> for name, value in zip("xsbmv", [X, one, 0 * one, 0 * one, one]): ws.feed(name, value)
            >>> outputs = ["y", "m", "v", "sm", "si"]
            >>> ws.run_operator(operator_def("FusedSpatialBN", list("xsbmv"), outputs, epilogue="relu(y)"))
            >>> ws.fetch("y").round(3)
            array([[0.],
                   [1.]], dtype=float32)
            """,
            takes=_trains,
            inputs=SPATIAL_BN.inputs[:5],
            outputs=tuple(blob(spec.name, FLOAT, like=spec.like, doc=spec.doc) for spec in SPATIAL_BN.outputs),
            args=TRAINS,
            over=("X", "S"),
        ),
    }
)
def layers(type: str, row: Layer) -> OpSchema:
    """A layer with an epilogue."""
    return fused(
        type,
        row.base,
        EPILOGUE,
        doc=f"Y = epilogue(y, s0, s1 ...), where y is what {row.base.type} gives and s0, s1 ... are the S.",
        inputs=row.inputs,
        outputs=row.outputs,
        args={**row.base.args, **row.args}.values(),
        in_place={"Y": row.over},
        no_gradient=NO_GRADIENT,
        source="tazza",
        example=row.example,
    )


FUSED = {one.type: type for type, row in layers.rows.items() for one in (row.bases if row.bases else (row.base,))}
"""Operator type -> what it is with an epilogue."""

FUSED_CONV, FUSED_CONV_TRANSPOSE = layers["FusedConv"], layers["FusedConvTranspose"]
FUSED_FC, FUSED_MATMUL = layers["FusedFC"], layers["FusedMatMul"]
FUSED_SPATIAL_BN = layers["FusedSpatialBN"]


def fused_type(op: OpView) -> str | None:
    """Return the type of the operator that does what `op` does with an epilogue, None where there is none."""
    found = FUSED.get(op.type)
    return found if found is not None and layers.rows[found].takes(op) else None
