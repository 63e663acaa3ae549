"""Exponentials, logarithms and powers: Exp, Log, Sqrt, Rsqrt, Sqr, Cube, Pow. All blobs of one operator have one shape S.

Only the exponents of Pow may be fewer: with `broadcast` they lie under X, see `ops.broadcast`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import FLOAT, Array, GradientRequest, OpSchema, OpView, arg, blob, ends, formula, kernel, schema
from tazza.ops.axis import shapes_agree
from tazza.ops.broadcast import BROADCAST_ARGS, align_b, check_axis, lying, under
from tazza.ops.elementwise import formula_cost
from tazza.ops.sum import SUMMABLE
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec


def _declare(type: str, doc: str, text: str, example: str, **differences: Any) -> OpSchema:
    """Declare an operator of one tensor; `text` is its formula."""
    same: dict[str, Any] = {"dtypes": FLOAT, "in_place": {"Y": "X"}, "source": "Caffe2", "onnx": None}
    parts = same | differences
    dtypes = parts.pop("dtypes")
    declared = schema(
        type, doc, inputs=[blob("X", dtypes, "*S")], outputs=[blob("Y", like="X")], example=example, **parts
    )
    formula(declared, Y=text)
    declared.cost(formula_cost)
    return declared
