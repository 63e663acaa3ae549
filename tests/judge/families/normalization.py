"""Normalizations and other operators with one number for each channel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tazza.operator import SCHEMAS, OpSchema, OpView, operator_def
from tazza.proto import OperatorDef
from tests.check import evaluate
from tests.judge.condition import Factor, steps_of, wide
from tests.judge.hand import Array, Hand, Shape, Sketch, channels_of, divisors, draws
from tests.judge.values import reals


def positive(hand: Hand, count: int) -> Array:
    """Return variances, or their inverse roots."""
    return hand.rng.uniform(0.2, 3.0, count).astype(np.float32)


@draws("SpatialBN")
def spatial_bn(hand: Hand, schema: OpSchema) -> Sketch:
    order, X = hand.image(spatial=(0, 3))
    C = channels_of(order, X)
    trains = schema.type.startswith("Fused") or hand.chance(0.5)
    found: dict[str, Any] = {"order": order, "is_test": int(not trains)}
    found |= hand.some({"epsilon": hand.pick((1e-3, 1e-5, 0.1)), "momentum": hand.real(0, 1)})
    shapes: dict[str, Any] = {"X": X, "scale": (C,), "bias": (C,), "mean": (C,)}
    values: dict[str, Any] = {"var": positive(hand, C)}
    if trains and not schema.type.startswith("Fused") and hand.chance(0.3):
        found["num_batches"] = hand.integer(1, 3)
        shapes |= {"sums": (C,), "sumsq": (C,)}
    return Sketch(found, shapes, values, 5 if trains else 1)


@draws("ChannelBackpropStats")
def channel_backprop_stats(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    order, X = hand.image(spatial=(1, 3), orders=("NCHW",))
    C = channels_of(order, X)
    return Sketch({}, {"X": X, "mean": (C,), "dY": X}, {"inv_std": positive(hand, C)})


@draws("FusedSpatialBNGradient")
def fused_spatial_bn_gradient(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    order, X = hand.image(spatial=(0, 3))
    C = channels_of(order, X)
    found = {"order": order, "prologue": hand.pick(("dy", "where(y > 0, dy, 0)", "dy * 0.5", "y * dy"))}
    shapes = {"X": X, "scale": (C,), "bias": (C,), "dY": X}
    x = reals(hand, X)
    axes = tuple(axis for axis in range(len(X)) if X[axis] != C or axis != (1 if order == "NCHW" else len(X) - 1))
    empty = x.size == 0
    mean = np.zeros(C) if empty else x.mean(axis=axes)
    inverse = np.ones(C) if empty else 1 / np.sqrt(x.var(axis=axes) + 1e-5)
    values = {"X": x, "mean": mean, "inv_std": inverse}
    del shapes["X"]
    return Sketch(found, shapes, {name: value.astype(np.float32) for name, value in values.items()})


@draws("AffineChannel", "PRelu", "InstanceNorm", "GroupNorm")
def by_channel(hand: Hand, schema: OpSchema) -> Sketch:
    order, X = hand.image(spatial=(0 if schema.type in ("AffineChannel", "PRelu") else 1, 3))
    C = channels_of(order, X)
    found: dict[str, Any] = {"order": order}
    outputs = None
    if "epsilon" in schema.args:
        found |= hand.some({"epsilon": hand.pick((1e-3, 1e-5, 0.1))})
        outputs = hand.pick((1, 3)) if schema.type == "GroupNorm" else hand.integer(1, 3)
    if "group" in schema.args:
        found["group"] = hand.pick(divisors(C))
    if "is_learnable" in schema.args and hand.chance(0.6):
        found["is_learnable"] = hand.integer(0, 1)
    width = 1 if schema.type == "PRelu" and hand.chance(0.25) else C
    return Sketch(found, {"X": X} | {spec.name: (width,) for spec in schema.inputs[1:]}, outputs=outputs)


@steps_of("InstanceNormGradient", "GroupNormGradient", "LayerNormGradient")
def normalized_gradient(op: OpView, inputs: list[Array], factor: Factor) -> list[Array] | None:
    """Both means that dX is freed from are rounded, so dX is not 0 where it should be; so are the statistics.

    Rows are the elements that share a mean: dX = inv_std * (dZ - mean of dZ - Z * mean of dZ * Z).
    """
    given = dict(zip(op.input_letters, (wide(x) for x in inputs), strict=True))
    X = given["X"]
    if X.size == 0:
        return None
    if "mean" in given:
        found, count = evaluate(op, list(given.values())), given["mean"].size
    else:
        found, count = _by_other_statistics(op, inputs, factor), X.shape[0] * channels_of(op.order, X.shape)
    rows = _Rows.of(op, X.shape, count)
    with np.errstate(all="ignore"):
        scale = next((given[letter] for letter in ("scale", "gamma") if letter in given), np.ones(()))
        dZ, x = rows.of_blob(given["dY"].reshape(X.shape) * _spread(op, scale, X.shape)), rows.of_blob(X)
        inv_std = 1 / np.sqrt(x.var(axis=1, keepdims=True) + op.epsilon)
        Z = (x - x.mean(axis=1, keepdims=True)) * inv_std
        shape, terms = (rows.count, 1), rows.terms
        means = np.mean(dZ, axis=1, keepdims=True), np.mean(dZ * Z, axis=1, keepdims=True)
        off = inv_std * (means[0] * (factor(shape, terms) - 1) + Z * means[1] * (factor(shape, terms) - 1))
        return [found[0] * factor(X.shape, 1.0) - rows.to_blob(off), *found[1:]]


def _by_other_statistics(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """Mean and inv_std are computed again where they are missing."""
    definition = op.definition
    forward = operator_def("InstanceNorm", definition.input[:3], ["Y", "mean", "inv_std"])
    forward.arg.extend(definition.arg)
    Y, *statistics = evaluate(SCHEMAS["InstanceNorm"].view(forward), [wide(x) for x in inputs[:3]])
    longer = OperatorDef.FromString(definition.SerializeToString())
    longer.input.extend(("mean", "inv_std"))
    terms = Y.size / max(1, statistics[0].size)
    moved = [x * factor(x.shape, terms) for x in statistics]
    return evaluate(op.schema.view(longer), [*(wide(x) for x in inputs), *moved])


@steps_of("LayerNorm", "InstanceNorm", "GroupNorm")
def normalized(op: OpView, inputs: list[Array], factor: Factor) -> list[Array] | None:
    """Y = gain * (X - mean) + bias is moved by gain * mean where the mean is rounded; the gain is rounded itself.

    Rows are the elements that share a mean.
    """
    X, *affine = [wide(x) for x in inputs]
    if X.size == 0:
        return None
    definition = OperatorDef.FromString(op.definition.SerializeToString())
    names = ("Y", "mean", "std") if op.type == "LayerNorm" else ("Y", "mean", "inv_std")
    definition.output[:] = names
    Y, mean, spread = evaluate(op.schema.view(definition), [X, *affine])
    rows = _Rows.of(op, X.shape, mean.size)
    gain = 1 / spread if op.type == "LayerNorm" else spread
    bare = evaluate(op.schema.view(definition), [X, *affine[:1], *(np.zeros_like(x) for x in affine[1:])])[0]
    scale = affine[0] if affine else np.ones(())
    weights = _spread(op, scale, X.shape)
    terms = rows.terms
    off = mean.reshape(-1, 1) * (factor((mean.size, 1), terms) - 1) * gain.reshape(-1, 1)
    moved = bare * factor(X.shape, 1.0) - rows.to_blob(np.broadcast_to(off, (rows.count, terms))) * weights
    found = [Y - bare + moved, mean * factor(mean.shape, terms), spread * factor(spread.shape, terms)]
    return found[: len(op.definition.output)]


@steps_of("SpatialBN")
def batch_normalized(op: OpView, inputs: list[Array], factor: Factor) -> list[Array] | None:
    """In training Y = gain * (X - mean) + bias, where the mean and the gain come from sums over the batch, rounded."""
    X, scale, bias, *others = [wide(x) for x in inputs]
    plain = evaluate(op, [X, scale, bias, *others])
    if op.is_test or len(plain) < 5 or X.size == 0:
        return None
    _, mean, var, batch_mean, inv_std = plain
    terms = X.size / batch_mean.size
    off = _spread(op, batch_mean * (factor(batch_mean.shape, terms) - 1), X.shape)
    moved = _spread(op, scale * inv_std * factor(inv_std.shape, terms), X.shape) * (
        X - _spread(op, batch_mean, X.shape) - off
    )
    statistics = [one * factor(one.shape, terms) for one in (mean, var, batch_mean, inv_std)]
    return [moved + _spread(op, bias, X.shape), *statistics]


@dataclass(frozen=True)
class _Rows:
    """X with a row of `terms` elements for each of `count` means, and the way back to its shape."""

    count: int
    terms: int
    shape: Shape
    last: bool
    """Channels stand last: they are brought to the front."""

    @classmethod
    def of(cls, op: OpView, shape: Shape, count: int) -> _Rows:
        last = not op.type.startswith("LayerNorm") and op.order.upper() == "NHWC"
        return cls(count, math.prod(shape) // count, (shape[0], shape[-1], *shape[1:-1]) if last else shape, last)

    def of_blob(self, values: Array) -> Array:
        return (np.moveaxis(values, -1, 1) if self.last else values).reshape(self.count, self.terms)

    def to_blob(self, rows: Array) -> Array:
        found = rows.reshape(self.shape)
        return np.moveaxis(found, 1, -1) if self.last else found


def _spread(op: OpView, scale: Array, shape: Shape) -> Array:
    """Return a scale as it is multiplied with X."""
    if op.type.startswith("LayerNorm") or scale.ndim == 0 or op.order.upper() == "NHWC":
        return scale
    return scale.reshape(-1, *(1,) * (len(shape) - 2))


@draws("LayerNorm")
def layer_norm(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    axis = hand.integer(-len(X), len(X) - 1)
    found: dict[str, Any] = hand.some({"epsilon": hand.pick((1e-3, 1e-5, 0.1))})
    shapes: dict[str, Any] = {"X": X}
    if hand.chance(0.5):
        found["elementwise_affine"] = 1
        shapes |= {"gamma": X[axis:], "beta": X[axis:]}
    return Sketch(found | {"axis": axis}, shapes)


@draws("LRN")
def lrn(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    order, X = hand.image(spatial=(2, 2))
    found: dict[str, Any] = {"size": hand.pick((1, 3, 3, 5, 5, 7, 9, 11, 15)), "order": order}
    alpha = hand.pick((1e-4, 1e-3, 1.0, hand.real(0, 3)))
    found |= hand.some({"alpha": alpha, "beta": hand.pick((0.75, 0.5, 1.0, hand.real(-1, 2)))}, 0.9)
    return Sketch(found | hand.some({"bias": hand.pick((1.0, 2.0, hand.real(0.5, 3)))}), {"X": X}, outputs=None)


@draws("ChannelShuffle")
def channel_shuffle(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    order, X = hand.image(spatial=(1, 3))
    return Sketch({"order": order, "group": hand.pick(divisors(channels_of(order, X)))}, {"X": X})


@draws("FoldBatchNorm", "FoldAffineChannel")
def fold(hand: Hand, schema: OpSchema) -> Sketch:
    W = hand.shape("W", 1, 5)
    axis = hand.integer(0, len(W) - 1)
    group = hand.pick(divisors(W[0])) if axis > 0 and hand.chance(0.5) else 1
    M = W[axis] * group
    found: dict[str, Any] = {"axis": axis, "group": group}
    letters = [
        spec.name for spec in schema.inputs if spec.name not in ("W", "var") and (spec.name != "b" or hand.chance(0.5))
    ]
    values = {"var": positive(hand, M)} if "var" in schema.inputs_by_letter else {}
    return Sketch(found, {"W": W} | {letter: (M,) for letter in letters}, values)


@draws("ResizeNearest", "UpsampleBilinear")
def resize(hand: Hand, schema: OpSchema) -> Sketch:
    order, X = hand.image(spatial=(2, 2), most=6, orders=("NCHW", "NHWC") if "order" in schema.args else ("NCHW",))
    found: dict[str, Any] = {"order": order} if "order" in schema.args else {}
    scales = [hand.pick((1.0, 2.0, 3.0, 0.5, 1.5, hand.real(0.4, 3))) for _ in range(2)]
    if hand.chance(0.3):
        return Sketch(found, {"X": X}, {"scales": np.asarray(scales, np.float32)})
    return Sketch(found | {"height_scale": scales[0], "width_scale": scales[1]}, {"X": X})
