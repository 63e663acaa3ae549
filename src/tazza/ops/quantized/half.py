"""Numbers of 16 bits and back: FloatToHalf, HalfToFloat, FloatToBFloat16, BFloat16ToFloat. X and Y have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import FLOAT, Array, Effects, GradientRequest, OpSchema, blob, family, kernel, schema
from tazza.proto import OperatorDef
from tazza.tensor import DataType


@dataclass(frozen=True, slots=True)
class Conversion:
    """From float32 to a type of 16 bits, or back.

    Attributes:
        narrow: the type of 16 bits.
        narrows: whether Y has it, and not X.
        back: the operator that goes the other way.
        source: where it is defined.
        example: inputs, and what comes out.
    """

    narrow: DataType
    narrows: bool
    back: str
    source: str
    example: str

    @property
    def doc(self) -> str:
        """The formula."""
        if self.narrows:
            return f"Y = X in {self.narrow.label}, ties to even; what lies beyond its range becomes infinite."
        return "Y = X in float32."


HALF_SOURCE, BFLOAT16_SOURCE = "IEEE 754-2008, binary16", "tazza; Intel, BFLOAT16 hardware numerics definition, 2018"


@family(
    {
        "FloatToHalf": Conversion(
            DataType.FLOAT16,
            True,
            "HalfToFloat",
            HALF_SOURCE,
            """
            >>> run("FloatToHalf", [1.0, 1.0004, 70000.0])
            array([ 1.,  1., inf], dtype=float16)
            """,
        ),
        "HalfToFloat": Conversion(
            DataType.FLOAT16,
            False,
            "FloatToHalf",
            HALF_SOURCE,
            """
            >>> run("HalfToFloat", np.float16([1.5, -0.25]))
            array([ 1.5 , -0.25], dtype=float32)
            """,
        ),
        "FloatToBFloat16": Conversion(
            DataType.BFLOAT16,
            True,
            "BFloat16ToFloat",
            BFLOAT16_SOURCE,
            """
            >>> run("FloatToBFloat16", [1.0, 1.003, 70000.0])
            array([1, 1, 70144], dtype=bfloat16)
            """,
        ),
        "BFloat16ToFloat": Conversion(
            DataType.BFLOAT16,
            False,
            "FloatToBFloat16",
            BFLOAT16_SOURCE,
            """
            >>> run("BFloat16ToFloat", run("FloatToBFloat16", [1.003, -0.25]))
            array([ 1.  , -0.25], dtype=float32)
            """,
        ),
    }
)
def conversions(type: str, row: Conversion) -> OpSchema:
    """A conversion of elements, whose gradient is the one that goes the other way."""
    narrow = frozenset({row.narrow})
    taken, made_of = (FLOAT, narrow) if row.narrows else (narrow, FLOAT)
    made = schema(
        type,
        row.doc,
        inputs=[blob("X", taken, "*S")],
        outputs=[blob("Y", made_of, "*S")],
        effects=Effects.PURE,
        source=row.source,
        example=row.example,
    )
    made.batched("X")

    @made.gradient
    def gradient(g: GradientRequest) -> list[OperatorDef]:
        return g.emit(row.back, [g.dY], [g.dX])

    @kernel(made)
    def convert(X: Array, Y: Array) -> None:
        with np.errstate(over="ignore"):  # beyond the range is infinite
            Y[...] = X

    return made


def narrowing_to(dtype: DataType) -> tuple[str, str]:
    """Return the operators that lead from float32 to a type of 16 bits, and back.

    >>> narrowing_to(DataType.FLOAT16)
    ('FloatToHalf', 'HalfToFloat')
    """
    return next((type, row.back) for type, row in conversions.rows.items() if row.narrows and row.narrow is dtype)
