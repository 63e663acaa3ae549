"""Operators that make tensors from arguments, and Cast."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tazza.tensor import DataType
from tests.judge.hand import Hand, Shape, Sketch, draws
from tests.judge.values import fill


def shaped(hand: Hand, schema: OpSchema) -> tuple[Sketch, Shape]:
    """Return a sketch that says the shape of the output in one of the ways there are, and that shape."""
    shape = hand.dims(0, 4, elements=300)
    way = hand.integer(0, 2)
    if "X" not in schema.inputs_by_letter or way == 0:
        return Sketch({"shape": list(shape)}), shape
    extra = hand.dims(0, 1, elements=4) if hand.chance(0.3) else ()
    found: dict[str, Any] = {"extra_shape": list(extra)} if extra else {}
    if way == 1:
        return Sketch(found, {"X": shape}), (*shape, *extra)
    return Sketch(found | {"input_as_shape": 1}, {}, {"X": np.asarray(shape, np.int64)}), (*shape, *extra)


@draws("ConstantFill")
def constant_fill(hand: Hand, schema: OpSchema) -> Sketch:
    sketch, _ = shaped(hand, schema)
    kind = schema.args["dtype"].choices
    dtype = hand.pick(kind if kind is not None else (1,))
    value = hand.real(-3, 3) if hand.chance(0.5) else hand.integer(0, 3)
    sketch.arguments |= hand.some({"dtype": int(dtype), "value": value}, 0.7)
    taken = DataType.from_proto(sketch.arguments.get("dtype", DataType.FLOAT.proto))
    told = taken not in (DataType.STRING, DataType.DOUBLE)  # no text, and float64 is told the schema as float32
    if (sketch.shapes or sketch.values) and told and hand.chance(0.3):
        sketch.arguments.pop("value", None)
        sketch.values["V"] = fill(hand, (1,), taken)
    return sketch


@draws("DiagonalFill")
def diagonal_fill(hand: Hand, schema: OpSchema) -> Sketch:
    n, rank = hand.integer(0, 5), hand.integer(2, 4)
    shape = (n, hand.integer(0, 5)) if rank == 2 else (n,) * rank
    dtype = hand.pick(schema.args["dtype"].choices or (1,))
    whole = int(dtype) not in (DataType.FLOAT.proto, DataType.DOUBLE.proto)
    found: dict[str, Any] = {"dtype": int(dtype), "value": hand.integer(0, 3) if whole else hand.real(-3, 3)}
    way = {"X": shape} if hand.chance(0.5) else {}
    return Sketch(found if way else {**found, "shape": list(shape)}, way)


@draws("GaussianFill", "UniformFill", "UniformIntFill", "MSRAFill", "XavierFill")
def random_fill(hand: Hand, schema: OpSchema) -> Sketch:
    sketch, _ = shaped(hand, schema)
    limits: dict[str, Any] = {"mean": hand.real(-2, 2), "std": hand.real(0, 2)}
    kind = schema.args["min"].type if "min" in schema.args else None
    limits |= {"min": hand.integer(-9, 0), "max": hand.integer(1, 9)} if kind is int else {}
    limits |= {"min": hand.real(-3, 0), "max": hand.real(0.5, 3)} if kind is float else {}
    if kind is not None and (sketch.shapes or sketch.values) and hand.chance(0.3):
        type = np.int32 if kind is int else np.float32
        ends = {letter: np.array(limits[name], type) for letter, name in (("low", "min"), ("high", "max"))}
        return replace(sketch, values=sketch.values | ends)
    sketch.arguments |= hand.some({name: value for name, value in limits.items() if name in schema.args}, 0.7)
    return sketch


@draws(
    *("GivenTensorFill", "GivenTensorDoubleFill", "GivenTensorIntFill", "GivenTensorInt64Fill"),
    *("GivenTensorInt16Fill", "GivenTensorBoolFill", "GivenTensorStringFill", "GivenTensorByteStringToUInt8Fill"),
)
def given_tensor_fill(hand: Hand, schema: OpSchema) -> Sketch:
    sketch, shape = shaped(hand, schema)
    count = math.prod(shape)
    if "String" in schema.type:
        sketch.arguments["values"] = [hand.rng.bytes(hand.integer(0, 5)) for _ in range(count)]
        if "UInt8" in schema.type:
            found = Sketch({"shape": list(shape)}) if "input_as_shape" in sketch.arguments else sketch
            found.arguments["values"] = [hand.rng.bytes(count)]
            return found
    elif schema.type in ("GivenTensorFill", "GivenTensorDoubleFill"):
        sketch.arguments["values"] = [hand.real(-5, 5) for _ in range(count)]
    else:
        sketch.arguments["values"] = [hand.integer(0, 1 if "Bool" in schema.type else 99) for _ in range(count)]
    return sketch


@draws("Cast")
def cast(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    if hand.dtype is None and hand.chance(0.4):  # what has a gradient
        X = fill(hand, hand.shape("X"), DataType.FLOAT)
        return Sketch({"to": hand.pick((1, 6, "double")), "from_type": hand.pick((1, "float"))}, values={"X": X})
    to = hand.pick((1, 2, 3, 5, 6, 7, 8, 9, 10, 12, 13, "FLOAT", "int32", "DOUBLE"))
    return Sketch({"to": to}, {"X": hand.shape("X")})


@draws("RangeFill")
def range_fill(hand: Hand, schema: OpSchema) -> Sketch:
    return shaped(hand, schema)[0]


@draws("Float16ConstantFill", "Float16UniformFill")
def half_fill(hand: Hand, schema: OpSchema) -> Sketch:
    shape = {"shape": list(hand.dims(0, 4, elements=300))}
    if "value" in schema.args:
        return Sketch(shape | {"value": hand.real(-3, 3)})
    return Sketch(shape | {"min": hand.real(-3, 0), "max": hand.real(0.5, 3)})


@draws("UniqueUniformFill")
def unique_uniform_fill(hand: Hand, schema: OpSchema) -> Sketch:
    sketch, shape = shaped(hand, schema)
    least, wide = hand.integer(-9, 9), hand.chance(0.5)
    limits = {"min": least, "max": least + math.prod(shape) + hand.integer(4, 20)}
    sketch.arguments |= limits | ({"dtype": DataType.INT64.proto} if wide else {})
    if sketch.shapes or sketch.values:
        avoid = least + hand.rng.permutation(4)[: hand.integer(0, 4)]
        sketch.values["avoid"] = avoid.astype(np.int64 if wide else np.int32)
    return sketch


@draws("WeightedSample")
def weighted_sample(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    w = hand.shape("w", 2, 2)
    values = {"w": hand.rng.random(w).astype(np.float32)}
    return Sketch({}, {"v": w}, values, outputs=2) if hand.chance(0.5) else Sketch({}, {}, values, outputs=1)


@draws("WeightedMultiSampling")
def weighted_multi_sampling(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    (C,) = hand.shape("cdf", 1, 1)
    cdf = np.cumsum(hand.rng.random(C)).astype(np.float32)
    if hand.chance(0.5):
        return Sketch({}, {"like": hand.dims(0, 3, elements=50)}, {"cdf": cdf})
    return Sketch({"num_samples": hand.integer(0, 20)}, {}, {"cdf": cdf})
