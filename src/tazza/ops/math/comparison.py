"""Comparisons EQ, NE, LT, LE, GT, GE, and logic: And, Or, Xor, Not. All give bool.

C has the joint shape of A and B, see `ops.broadcast`. A step has no derivative, so none has a gradient.
"""

from __future__ import annotations

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    Array,
    Effects,
    OpSchema,
    OpView,
    Role,
    blob,
    family,
    forbidden,
    formula,
    kernel,
    schema,
)
from tazza.ops.math.broadcast import BROADCAST_ARGS, align_b, check_axis, joint_dims, lying
from tazza.ops.math.elementwise import formula_cost
from tazza.ops.math.sum import SUMMABLE
from tazza.tensor import DataType, TensorSpec

TRUTH = frozenset({DataType.BOOL})
COMPARABLE = SUMMABLE | TRUTH


def comparison_infer(op: OpView, A: TensorSpec, B: TensorSpec) -> TensorSpec:
    return TensorSpec(joint_dims(op, A, B), DataType.BOOL)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What tells one operator from another; `text` is its formula. `logic` takes bool only, and may work in place."""

    doc: str
    text: str
    compare: np.ufunc
    example: str
    logic: bool = False


@family(
    {
        "EQ": Comparison(
            "C = true where A = B.",
            "A == B",
            np.equal,
            """
            >>> run("EQ", [1, 2, 3], [2])
            array([False,  True, False])
            """,
        ),
        "NE": Comparison(
            "C = true where A and B differ.",
            "A != B",
            np.not_equal,
            """
            >>> run("NE", [1, 2, 3], [2])
            array([ True, False,  True])
            """,
        ),
        "LT": Comparison(
            "C = true where A < B.",
            "A < B",
            np.less,
            """
            >>> run("LT", [1, 2, 3], [2])
            array([ True, False, False])
            """,
        ),
        "LE": Comparison(
            "C = true where A <= B.",
            "A <= B",
            np.less_equal,
            """
            >>> run("LE", [1, 2, 3], [2])
            array([ True,  True, False])
            """,
        ),
        "GT": Comparison(
            "C = true where A > B.",
            "A > B",
            np.greater,
            """
            >>> run("GT", [1, 2, 3], [2])
            array([False, False,  True])
            """,
        ),
        "GE": Comparison(
            "C = true where A >= B.",
            "A >= B",
            np.greater_equal,
            """
            >>> run("GE", [1, 2, 3], [2])
            array([False,  True,  True])
            """,
        ),
        "And": Comparison(
            "C = true where A and B are.",
            "A * B",
            np.logical_and,
            """
            >>> run("And", np.array([True, True, False]), np.array([True, False, False]))
            array([ True, False, False])
            """,
            logic=True,
        ),
        "Or": Comparison(
            "C = true where A or B is, or both.",
            "max(A, B)",
            np.logical_or,
            """
            >>> run("Or", np.array([True, True, False]), np.array([True, False, False]))
            array([ True,  True, False])
            """,
            logic=True,
        ),
        "Xor": Comparison(
            "C = true where one of A and B is, but not both.",
            "A != B",
            np.logical_xor,
            """
            >>> run("Xor", np.array([True, True, False]), np.array([True, False, False]))
            array([False,  True, False])
            """,
            logic=True,
        ),
    }
)
def comparisons(type: str, row: Comparison) -> OpSchema:
    """An operator of two tensors that gives bool."""
    made = schema(
        type,
        row.doc,
        inputs=[blob("A", TRUTH if row.logic else COMPARABLE), blob("B", "A", role=Role.PARAMETER)],
        outputs=[blob("C", DataType.BOOL, doc="the joint shape of A and B; with `broadcast` that of A")],
        args=BROADCAST_ARGS,
        in_place={"C": "A"} if row.logic else None,
        effects=Effects.PURE,
        no_gradient=forbidden("it is a step function"),
        source="Caffe2",
        example=row.example,
    )
    made.validate(check_axis)
    made.infer(comparison_infer)
    made.cost(formula_cost)
    formula(made, C=row.text, align=align_b)

    @kernel(made)
    def compare(op: OpView, A: Array, B: Array, C: Array) -> None:
        row.compare(A, lying(op, A, B), out=C)

    return made


NOT = schema(
    "Not",
    "Y = true where X is not.",
    inputs=[blob("X", TRUTH, "*S")],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    no_gradient=forbidden("it is a step function"),
    source="Caffe2",
    example="""
    >>> run("Not", np.array([True, False]))
    array([False,  True])
    """,
)
formula(NOT, Y="logical_not(X)")
NOT.cost(formula_cost)


@kernel(NOT)
def not_(X: Array, Y: Array) -> None:
    np.logical_not(X, out=Y)
