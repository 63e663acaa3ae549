"""Operators that graph passes make: layers with an epilogue, and pointwise formulas."""

from __future__ import annotations

from typing import Any

from tazza.operator import SCHEMAS, OpSchema, operator_def
from tazza.tensor import DataType, TensorSpec
from tests.judge.families.normalization import spatial_bn as plain_bn
from tests.judge.families.product import fc, matmul
from tests.judge.families.window import conv, conv_transpose
from tests.judge.hand import Hand, Shape, Sketch, channels_of, draws

ONE = (
    "max({0}, 0)",
    "{0} * 0.5",
    "{0} + 1.25",
    "tanh({0})",
    "sigmoid({0})",
    "abs({0})",
    "where({0} > 0, {0}, 0.1 * {0})",
)
TWO = ("{0} + {1}", "{0} - {1}", "{0} * {1}", "max({0}, {1})", "where({0} > {1}, {0}, {1})")


def formula_over(hand: Hand, names: list[str]) -> str:
    """Return a formula in which each of the names stands."""
    found = names[0]
    for name in names[1:]:
        found = hand.pick(TWO).format(f"({found})", name)
    for _ in range(hand.integer(0, 2)):
        found = hand.pick(ONE).format(f"({found})")
    return found


def result_shape(base: OpSchema, sketch: Sketch) -> Shape:
    """Return the shape of the first output of the operator without an epilogue, by inference."""
    letters = [spec.name for spec in base.inputs if spec.name in sketch.shapes or spec.name in sketch.values]
    outputs = [spec.name for spec in base.outputs if not spec.optional]
    op = base.view(operator_def(base.type, letters, outputs, **sketch.arguments))
    shapes = [tuple(sketch.shapes.get(letter, getattr(sketch.values.get(letter), "shape", ()))) for letter in letters]
    spec = base.infer_specs(op, [TensorSpec(shape, DataType.FLOAT) for shape in shapes]).specs[0]
    return tuple(spec.shape) if isinstance(spec, TensorSpec) else ()


def with_epilogue(hand: Hand, base: str, sketch: Sketch) -> Sketch:
    """Return the sketch of a layer with an epilogue over its result and up to two operands."""
    count = hand.pick((0, 0, 1, 1, 2))
    formula = formula_over(hand, ["y", *(f"s{i}" for i in range(count))])
    more: dict[str, Any] = {"epilogue": formula} | ({"operands": count} if count else {})
    if count:
        sketch.shapes["S"] = [result_shape(SCHEMAS[base], sketch)] * count
    return Sketch(sketch.arguments | more, sketch.shapes, sketch.values, sketch.outputs)


@draws("FusedConv")
def fused_conv(hand: Hand, schema: OpSchema) -> Sketch:
    return with_epilogue(hand, "Conv", conv(hand, schema))


@draws("FusedConvTranspose")
def fused_conv_transpose(hand: Hand, schema: OpSchema) -> Sketch:
    return with_epilogue(hand, "ConvTranspose", conv_transpose(hand, schema))


@draws("FusedFC")
def fused_fc(hand: Hand, schema: OpSchema) -> Sketch:
    return with_epilogue(hand, "FC", fc(hand, schema))


@draws("FusedMatMul")
def fused_matmul(hand: Hand, schema: OpSchema) -> Sketch:
    sketch = matmul(hand, schema)
    found = with_epilogue(hand, "MatMul", sketch)
    if "like" not in sketch.shapes and "S" in found.shapes:
        found.shapes["like"] = found.shapes["S"][0]
    return found


@draws("FusedSpatialBN")
def fused_spatial_bn(hand: Hand, schema: OpSchema) -> Sketch:
    sketch = plain_bn(hand, schema)
    count = hand.pick((0, 1, 2))
    names = ["y", *(f"s{i}" for i in range(count))]
    sketch.arguments |= {"epilogue": formula_over(hand, names)} | ({"operands": count} if count else {})
    if count:
        sketch.shapes["S"] = [sketch.shapes["X"]] * count
    return sketch


@draws("FusedConvDepthwise")
def fused_conv_depthwise(hand: Hand, schema: OpSchema) -> Sketch:
    sketch = conv(hand, schema)
    order, X = str(sketch.arguments["order"]), sketch.shapes["X"]
    M, D = hand.channels(), len(X) - 2
    ones = (1,) * D
    C = channels_of(order, X)
    last = order == "NHWC"
    kernel = sketch.shapes["W"][1:-1] if last else sketch.shapes["W"][2:]
    shapes = {"X": X, "W": (M, *ones, C) if last else (M, C, *ones), "b": (M,), "c": (M,)}
    shapes["V"] = (M, *kernel, 1) if last else (M, 1, *kernel)
    formulas = {name: formula_over(hand, ["y"]) for name in ("inner", "epilogue")}
    return Sketch(sketch.arguments | {"group": M} | hand.some(formulas, 0.8), shapes)


@draws("Pointwise")
def pointwise(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    count, outputs = hand.integer(1, 4), hand.integer(1, 2)
    shape = hand.shape("X_0")
    shapes = [shape]
    alike = hand.chance(0.5)
    for _ in range(count - 1):
        other = tuple(1 if hand.chance(0.3) else extent for extent in shape)[hand.integer(0, len(shape)) :]
        shapes.append(shape if alike or hand.chance(0.5) else other)
    names = [f"x{i}" for i in range(count)]
    found: dict[str, Any] = {"expressions": [formula_over(hand, names) for _ in range(outputs)]}
    return Sketch(found | ({"alike": 1} if alike else {}), {"X": shapes}, outputs=outputs)
