"""Bit by bit: BitwiseAnd, BitwiseOr, BitwiseXor. C has the joint shape of A and B, see `ops.broadcast`."""

from __future__ import annotations

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    INDEX,
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
from tazza.tensor import DataType, TensorSpec


def bitwise_infer(op: OpView, A: TensorSpec, B: TensorSpec) -> TensorSpec:
    return TensorSpec(joint_dims(op, A, B), A.dtype)


@dataclass(frozen=True, slots=True)
class Bits:
    """What tells one operator from another: when a bit of C is set, its formula, the ufunc, what 12 and 10 give."""

    when: str
    text: str
    combine: np.ufunc
    example: int


@family(
    {
        "BitwiseAnd": Bits("that of A and that of B are", "bit_and(A, B)", np.bitwise_and, 8),
        "BitwiseOr": Bits("that of A or that of B is, or both", "bit_or(A, B)", np.bitwise_or, 14),
        "BitwiseXor": Bits("that of A or that of B is, but not both", "bit_xor(A, B)", np.bitwise_xor, 6),
    }
)
def bitwise(type: str, row: Bits) -> OpSchema:
    """An operator on bits."""
    made = schema(
        type,
        f"A bit of C is set where {row.when}.",
        inputs=[blob("A", INDEX | {DataType.BOOL}), blob("B", "A", role=Role.PARAMETER)],
        outputs=[blob("C", "A", doc="the joint shape of A and B; with `broadcast` that of A")],
        args=BROADCAST_ARGS,
        in_place={"C": "A"},
        effects=Effects.PURE,
        no_gradient=forbidden("bits have none"),
        source="Caffe2",
        example=f'>>> run("{type}", [12], [10])\narray([{row.example}], dtype=int32)',
    )
    made.validate(check_axis)
    made.infer(bitwise_infer)
    made.cost(formula_cost)
    formula(made, C=row.text, align=align_b)

    @kernel(made)
    def combine(op: OpView, A: Array, B: Array, C: Array) -> None:
        row.combine(A, lying(op, A, B), out=C)

    return made
