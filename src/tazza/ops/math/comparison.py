"""Comparisons EQ, NE, LT, LE, GT, GE, and logic: And, Or, Xor, Not. All give bool.

C has the joint shape of A and B, see `ops.broadcast`. A step has no derivative, so none has a gradient.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, Effects, OpSchema, OpView, Role, blob, forbidden, formula, kernel, schema
from tazza.ops.math.broadcast import BROADCAST_ARGS, align_b, check_axis, joint_dims, lying
from tazza.ops.math.elementwise import formula_cost
from tazza.ops.math.sum import SUMMABLE
from tazza.tensor import DataType, TensorSpec

TRUTH = frozenset({DataType.BOOL})
COMPARABLE = SUMMABLE | TRUTH


def comparison_infer(op: OpView, A: TensorSpec, B: TensorSpec) -> TensorSpec:
    return TensorSpec(joint_dims(op, A, B), DataType.BOOL)


def _declare(type: str, doc: str, text: str, compare: np.ufunc, example: str) -> OpSchema:
    """Declare an operator; `text` is its formula. What takes bool only, logic, may work in place."""
    logic = compare in (np.logical_and, np.logical_or, np.logical_xor)
    declared = schema(
        type,
        doc,
        inputs=[blob("A", TRUTH if logic else COMPARABLE), blob("B", "A", role=Role.PARAMETER)],
        outputs=[blob("C", DataType.BOOL, doc="the joint shape of A and B; with `broadcast` that of A")],
        args=BROADCAST_ARGS,
        in_place={"C": "A"} if logic else None,
        effects=Effects.PURE,
        no_gradient=forbidden("it is a step function"),
        source="Caffe2",
        example=example,
    )
    declared.validate(check_axis)
    declared.infer(comparison_infer)
    declared.cost(formula_cost)
    formula(declared, C=text, align=align_b)

    def compute(op: OpView, A: Array, B: Array, C: Array) -> None:
        compare(A, lying(op, A, B), out=C)

    kernel(declared)(compute)
    return declared


EQ = _declare(
    "EQ",
    "C = true where A = B.",
    "A == B",
    np.equal,
    """
    >>> run("EQ", [1, 2, 3], [2])
    array([False,  True, False])
    """,
)
NE = _declare(
    "NE",
    "C = true where A and B differ.",
    "A != B",
    np.not_equal,
    """
    >>> run("NE", [1, 2, 3], [2])
    array([ True, False,  True])
    """,
)
LT = _declare(
    "LT",
    "C = true where A < B.",
    "A < B",
    np.less,
    """
    >>> run("LT", [1, 2, 3], [2])
    array([ True, False, False])
    """,
)
LE = _declare(
    "LE",
    "C = true where A <= B.",
    "A <= B",
    np.less_equal,
    """
    >>> run("LE", [1, 2, 3], [2])
    array([ True,  True, False])
    """,
)
GT = _declare(
    "GT",
    "C = true where A > B.",
    "A > B",
    np.greater,
    """
    >>> run("GT", [1, 2, 3], [2])
    array([False, False,  True])
    """,
)
GE = _declare(
    "GE",
    "C = true where A >= B.",
    "A >= B",
    np.greater_equal,
    """
    >>> run("GE", [1, 2, 3], [2])
    array([False,  True,  True])
    """,
)
AND = _declare(
    "And",
    "C = true where A and B are.",
    "A * B",
    np.logical_and,
    """
    >>> run("And", np.array([True, True, False]), np.array([True, False, False]))
    array([ True, False, False])
    """,
)
OR = _declare(
    "Or",
    "C = true where A or B is, or both.",
    "max(A, B)",
    np.logical_or,
    """
    >>> run("Or", np.array([True, True, False]), np.array([True, False, False]))
    array([ True,  True, False])
    """,
)
XOR = _declare(
    "Xor",
    "C = true where one of A and B is, but not both.",
    "A != B",
    np.logical_xor,
    """
    >>> run("Xor", np.array([True, True, False]), np.array([True, False, False]))
    array([False,  True, False])
    """,
)

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
formula(NOT, Y="1 - X")
NOT.cost(formula_cost)


@kernel(NOT)
def not_(X: Array, Y: Array) -> None:
    np.logical_not(X, out=Y)
