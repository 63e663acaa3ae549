"""Updates of parameters, weighted sums, learning rates."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tazza.ops.optimizer.learning_rate import POLICIES
from tazza.ops.optimizer.momentum_sgd import decayed_updates
from tazza.tensor import DataType
from tests.judge.generic import arguments
from tests.judge.hand import Array, Hand, Sketch, draws
from tests.judge.values import fill


def number(hand: Hand, least: float, most: float) -> Array:
    """Return one number, as operators take a rate or a norm."""
    return np.array([hand.real(least, most)], np.float32)


@draws("MomentumSGD", "MomentumSGDUpdate", *decayed_updates)
def momentum_sgd(hand: Hand, schema: OpSchema) -> Sketch:
    shape = hand.given.get("dW", hand.dims())
    found = hand.some({"momentum": hand.real(0, 1), "nesterov": hand.integer(0, 1)}, 0.7)
    shapes = {spec.name: (1,) if spec.name == "lr" else shape for spec in schema.inputs}
    return Sketch(found, shapes)


@draws("Adam")
def adam(hand: Hand, schema: OpSchema) -> Sketch:
    shape = hand.given.get("W", hand.dims())
    found = hand.some({"beta1": hand.real(0.5, 0.99), "beta2": hand.real(0.9, 0.9999), "epsilon": 1e-4})
    values: dict[str, Any] = {"V": hand.rng.uniform(0.01, 2.0, shape).astype(np.float32)}
    values["iter"] = np.asarray([hand.integer(0, 200)], np.int64)
    shapes = {spec.name: (1,) if spec.name == "lr" else shape for spec in schema.inputs if spec.name not in values}
    return Sketch(found, shapes, values)


@draws("WeightedSum")
def weighted_sum(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    count, shape = hand.integer(1, 4), hand.shape("X_0")
    found = hand.some({"grad_on_w": hand.integer(0, 1)})
    return Sketch(found, {"X": [shape] * count, "w": [(1,)] * count})


@draws("ScatterWeightedSum")
def scatter_weighted_sum(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X0 = hand.shape("X0", 1, 3)
    K, count = hand.integer(0, 7) if X0[0] > 0 else 0, hand.integer(1, 3)
    rows = hand.rng.integers(0, max(X0[0], 1), K).astype(hand.pick((np.int32, np.int64)))
    shapes: dict[str, Any] = {"X0": X0, "w0": (1,), "X": [(K, *X0[1:])] * count, "w": [(1,)] * count}
    return Sketch({}, shapes, {"indices": rows})


@draws("LearningRate")
def learning_rate(hand: Hand, schema: OpSchema) -> Sketch:
    found = {name: value for name, value in arguments(hand, schema, Sketch()).items() if name != "sub_policy_num_iters"}
    policy = hand.pick([name for name in sorted(POLICIES.keys()) if name != "composite"])
    found |= {"base_lr": hand.real(0.01, 1), "policy": policy, "stepsize": hand.integer(1, 50)}
    found |= {"gamma": hand.real(0.1, 0.99), "power": hand.real(0, 2), "max_iter": hand.integer(50, 500)}
    return Sketch(found, {}, {"t": fill(hand, (1,), DataType.INT64) * 0 + hand.integer(0, 200)})


@draws("Sum", "Max", "Min")
def joined(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    return Sketch({}, {"X": [hand.shape("X_0")] * hand.integer(1, 4)})


@draws("YellowFin")
def yellow_fin(hand: Hand, schema: OpSchema) -> Sketch:
    """Draw averages between which there is a least and a largest curvature, and more variance than epsilon."""
    del schema
    W, width = hand.shape("W", 0, 3), hand.integer(1, 9)
    found = hand.some({"beta": hand.real(0.5, 0.95), "nesterov": hand.integer(0, 1), "zero_debias": hand.integer(0, 1)})
    shapes: dict[str, Any] = dict.fromkeys(("W", "M", "g_avg", "dW"), W)
    values = {
        "lr": number(hand, 0.1, 1),
        "mu": number(hand, 0, 0.9),
        "window": hand.rng.uniform(0, 1, width).astype(np.float32),
        "g2_avg": hand.rng.uniform(0.1, 2, W).astype(np.float32),
        "averages": np.array([1.0, 200.0 + 200 * np.prod(W), 0.25, 0.75, 0.5], np.float32),
        "iter": np.array([hand.integer(0, 200)]),
    }
    return Sketch({"curv_win_width": width, "epsilon": 0.01, **found}, shapes, values)


@draws("Storm", "Wngrad")
def shared_step(hand: Hand, schema: OpSchema) -> Sketch:
    """What the length of a step comes from stays away from 0."""
    shape = hand.given.get("dW", hand.dims())
    found = hand.some({"epsilon": 0.1, "momentum": hand.real(0, 2), "beta": hand.real(0.1, 1)}, 0.7)
    values = {letter: number(hand, 0.5, 4) for letter in ("b", "s") if letter in schema.inputs_by_letter}
    shapes = {letter: shape for letter in ("W", "M", "dW") if letter in schema.inputs_by_letter}
    return Sketch({name: value for name, value in found.items() if name in schema.args}, shapes | {"lr": (1,)}, values)


@draws("Lars")
def lars(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    shape = hand.given.get("dW", hand.dims())
    found = hand.some({"offset": hand.real(0.1, 1), "lr_min": hand.real(0, 0.1)})
    values = {letter: number(hand, 0.1, 2) for letter in ("decay", "trust", "most")}
    return Sketch(found, {"W": shape, "dW": shape}, values)


@draws("LearningRateAdaption")
def learning_rate_adaption(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    shape = hand.given.get("g", hand.dims())
    found = hand.some({"lr_alpha": hand.real(0, 0.5), "normalized_lr_adaption": hand.integer(0, 1)})
    return Sketch(found, {"g": shape, "e": shape}, {"lr": number(hand, 0.01, 1)})


@draws("ClipTensorByScaling")
def clip_tensor_by_scaling(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    values = hand.some({"factor": number(hand, 0.5, 2)})
    values["norm"] = number(hand, 0.1, 5)
    return Sketch({"threshold": hand.real(0.5, 4)}, {"X": hand.shape("X")}, values)


@draws("WeightScale")
def weight_scale(hand: Hand, schema: OpSchema) -> Sketch:
    """Draw steps that are a turn in half of the problems."""
    del schema
    stepsize, turn = hand.integer(1, 5), hand.integer(1, 9)
    step = stepsize * turn if hand.chance(0.5) else hand.integer(1, 50)
    found = {"stepsize": stepsize, "scale": hand.real(0.1, 2)}
    found |= hand.some({"upper_bound_iter": step + hand.integer(-2, 5)}, 0.3)
    return Sketch(found, {"X": hand.shape("X")}, {"iter": np.array([step - 1])})
