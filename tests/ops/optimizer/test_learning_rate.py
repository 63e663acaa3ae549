"""LearningRate: every policy against recorded runs of Caffe2 over 200 iterations; and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError, NumericError, ShapeError
from tazza.operator import find_schema, operator_def, run_op
from tazza.ops.optimizer.learning_rate import POLICIES
from tazza.proto import NetDef
from tazza.workspace import Workspace

RECORDED = Path(__file__).parent.parent.parent / "data" / "learning_rate.npz"
"""Name of a curve below -> the rates of Caffe2 1.8.1 at iterations 1 to 200."""

CURVES: dict[str, dict[str, Any]] = {
    "fixed": {"policy": "fixed"},
    "fixed-neg": {"policy": "fixed", "base_lr": -0.3},
    "alter0": {"policy": "alter", "active_first": True, "active_period": 3, "inactive_period": 5},
    "alter1": {"policy": "alter", "active_first": False, "active_period": 3, "inactive_period": 5},
    "alter-none": {"policy": "alter"},
    "hill": {
        "policy": "hill",
        "num_iter": 20,
        "start_multiplier": 0.1,
        "gamma": 0.3,
        "power": 0.7,
        "end_multiplier": 0.2,
    },
    "hill-none": {"policy": "hill"},
    "slope": {"policy": "slope", "num_iter_1": 5, "multiplier_1": 0.2, "num_iter_2": 30, "multiplier_2": 0.9},
    "slope-none": {"policy": "slope"},
    "step": {"policy": "step", "stepsize": 7, "gamma": 0.6},
    "exp": {"policy": "exp", "gamma": 0.99},
    "exp-none": {"policy": "exp"},
    "gate": {"policy": "gate", "multiplier_1": 0.5, "multiplier_2": 2.0, "num_iter": 9},
    "gate-none": {"policy": "gate"},
    "inv": {"policy": "inv", "gamma": 0.3, "power": 0.8},
    "inv-none": {"policy": "inv"},
    "poly": {"policy": "poly", "power": 1.3, "max_iter": 60},
    "poly-none": {"policy": "poly"},
    "linearWarmup": {"policy": "linearWarmup", "start_multiplier": 0.1, "num_iter": 13},
    "linearWarmup-none": {"policy": "linearWarmup"},
    "constantWarmup": {"policy": "constantWarmup", "multiplier": 0.3, "num_iter": 13},
    "constantWarmup-none": {"policy": "constantWarmup"},
    "pieceWarmup": {"policy": "pieceWarmup", "m1": 0.3, "n1": 7, "m2": 0.5, "n2": 20, "m3": 0.9},
    "pieceWarmup-none": {"policy": "pieceWarmup"},
    "cyclical": {"policy": "cyclical", "max_lr": 0.5, "stepsize": 9, "decay": 0.9},
    "cyclical-nodecay": {"policy": "cyclical", "max_lr": 0.5, "stepsize": 9},
    "cyclical-none": {"policy": "cyclical", "stepsize": 9},
    "ctlw": {
        "policy": "constantThenLinearWarmup",
        "start_warmup_multiplier": 0.2,
        "constant_warmup_num_iter": 6,
        "linear_warmup_num_iter": 15,
    },
    "ctlw-none": {"policy": "constantThenLinearWarmup"},
    "cc": {
        "policy": "compositeCyclical",
        "start_warmup_multiplier": 0.2,
        "constant_warmup_num_iter": 6,
        "linear_warmup_num_iter": 15,
        "cyclical_max_lr": 0.4,
        "cyclical_step_size": 8,
        "cyclical_decay": 0.9,
    },
    "cc-none": {"policy": "compositeCyclical", "cyclical_step_size": 8},
    "cosine": {"policy": "cosine", "max_lr": 0.5, "min_lr": 0.05, "period": 13, "t_mult": 2.0, "lr_shrink": 0.9},
    "cosine1": {"policy": "cosine", "max_lr": 0.5, "min_lr": 0.05, "period": 13, "t_mult": 1.0, "lr_shrink": 0.9},
    "cosine-defaults": {"policy": "cosine", "max_lr": 0.5, "min_lr": 0.05, "period": 13},
    "cosine-nomax": {"policy": "cosine", "period": 13},
    "ccos": {
        "policy": "compositeCosine",
        "start_warmup_multiplier": 0.2,
        "constant_warmup_num_iter": 6,
        "linear_warmup_num_iter": 15,
        "cosine_max_lr": 0.4,
        "cosine_min_lr": 0.02,
        "cosine_period": 20,
        "cosine_t_mult": 1.5,
        "cosine_lr_shrink": 0.9,
    },
    "ccos-defaults": {
        "policy": "compositeCosine",
        "start_warmup_multiplier": 0.2,
        "constant_warmup_num_iter": 6,
        "linear_warmup_num_iter": 15,
        "cosine_max_lr": 0.4,
        "cosine_min_lr": 0.02,
        "cosine_period": 20,
    },
    "composite-poly": {
        "policy": "composite",
        "sub_policy_num_iters": [3, 50],
        "sub_policy_0_policy": "poly",
        "sub_policy_0_power": 1.0,
        "sub_policy_0_max_iter": 100,
        "sub_policy_1_policy": "linearWarmup",
        "sub_policy_1_num_iter": 20,
        "sub_policy_1_start_multiplier": 0.1,
    },
    "composite-cyc": {
        "policy": "composite",
        "sub_policy_num_iters": [3, 500],
        "sub_policy_0_policy": "hill",
        "sub_policy_1_policy": "cyclical",
        "sub_policy_1_max_lr": 0.7,
        "sub_policy_1_stepsize": 6,
        "sub_policy_1_decay": 0.95,
    },
    "alter-default": {"policy": "alter", "active_period": 3, "inactive_period": 5},
    "cosine-1.1": {"policy": "cosine", "max_lr": 0.5, "min_lr": 0.05, "period": 13, "t_mult": 1.1, "lr_shrink": 0.8},
    "cosine-1.3": {"policy": "cosine", "max_lr": 0.5, "min_lr": 0.05, "period": 13, "t_mult": 1.3, "lr_shrink": 0.8},
    "cosine-1.5": {"policy": "cosine", "max_lr": 0.5, "min_lr": 0.05, "period": 13, "t_mult": 1.5, "lr_shrink": 0.8},
    "cosine-1.7": {"policy": "cosine", "max_lr": 0.5, "min_lr": 0.05, "period": 13, "t_mult": 1.7, "lr_shrink": 0.8},
    "cosine-3.0": {"policy": "cosine", "max_lr": 0.5, "min_lr": 0.05, "period": 13, "t_mult": 3.0, "lr_shrink": 0.8},
    "constantWarmup-default": {"policy": "constantWarmup", "num_iter": 13},
    "slope-half": {"policy": "slope", "num_iter_1": 10, "multiplier_1": 0.5},
    "slope-down": {"policy": "slope", "num_iter_1": 10, "num_iter_2": 50, "multiplier_1": 1.0, "multiplier_2": 0.5},
    "cosine-short": {"policy": "cosine", "period": 10, "t_mult": 0.5, "max_lr": 0.1, "min_lr": 0.05},
    "composite": {
        "policy": "composite",
        "sub_policy_num_iters": [10, 20, 30],
        "sub_policy_0_policy": "exp",
        "sub_policy_0_gamma": 0.9,
        "sub_policy_0_lr_scale": 2.0,
        "sub_policy_1_policy": "step",
        "sub_policy_1_stepsize": 5,
        "sub_policy_1_gamma": 0.5,
        "sub_policy_2_policy": "fixed",
        "sub_policy_2_lr_scale": 3.0,
    },
    "ccos-min": {"policy": "compositeCosine", "constant_warmup_num_iter": 4, "linear_warmup_num_iter": 5},
    "cc-min": {"policy": "compositeCyclical", "constant_warmup_num_iter": 4, "linear_warmup_num_iter": 5},
}
"""Arguments; base_lr is 0.1 where it is missing."""


def rate(t: int, **arguments: Any) -> float:
    given: dict[str, Any] = {"base_lr": 0.1, **arguments}
    return float(run_op("LearningRate", np.array([t]), **given))


@pytest.mark.parametrize("name", CURVES)
def test_equal_to_caffe2_over_200_iterations(name: str) -> None:
    ws = Workspace()
    given: dict[str, Any] = {"base_lr": 0.1, **CURVES[name]}
    definition = operator_def("LearningRate", ["t"], ["lr"], **given)
    ws.feed("t", np.array([0]))
    ws.create_net(NetDef(name="rates", op=[definition]))
    rates: list[Any] = []
    for t in range(1, 201):
        ws.feed("t", np.array([t]))
        ws.run_net("rates")
        rates.append(ws.fetch("lr"))
    with np.load(RECORDED) as recorded:
        np.testing.assert_allclose(np.array(rates), recorded[name], rtol=3e-5, atol=1e-7)


def test_every_policy_has_a_curve() -> None:
    assert {args["policy"] for args in CURVES.values()} == set(POLICIES)
    assert len(POLICIES) == 18
    with np.load(RECORDED) as recorded:
        assert set(recorded.files) == set(CURVES)


def test_rank_0_float32_and_missing_arguments() -> None:
    lr = run_op("LearningRate", np.array([1]), base_lr=0.1, policy="fixed")
    assert (lr.dtype, lr.shape) == (np.float32, ())
    assert rate(3, policy="step", stepsize=1) == 0.0
    assert np.isnan(rate(12, policy="poly", power=0.5, max_iter=10))


def test_composite_counts_from_1_and_gives_parts_the_iteration_itself() -> None:
    args = {"sub_policy_num_iters": [3, 50], "sub_policy_0_policy": "fixed", "sub_policy_1_policy": "exp"}
    rates = [rate(t, policy="composite", sub_policy_1_gamma=0.5, base_lr=1.0, **args) for t in (0, 1, 3, 4, 99)]
    assert rates == pytest.approx([1, 1, 1, 0.5**4, 0.5**99])


def composite(**arguments: Any) -> dict[str, Any]:
    return {"policy": "composite", "sub_policy_num_iters": [3], **arguments}


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"policy": "fixxed"}, ArgumentError, "(?s)unknown policy 'fixxed'.*did you mean fixed"),
    ({"policy": ""}, ArgumentError, "unknown policy ''"),
    ({}, ArgumentError, "needs the argument 'policy'"),
    ({"policy": "fixed", "base_lr": 1}, ArgumentError, "'base_lr' wants float"),
    ({"policy": "step"}, ArgumentError, "policy 'step' needs stepsize >= 1, it is 0"),
    ({"policy": "cyclical"}, ArgumentError, "policy 'cyclical' needs stepsize >= 1, it is 0"),
    ({"policy": "step", "stepsize": 2.0}, ArgumentError, "'stepsize' wants int"),
    ({"policy": "cosine", "period": 0}, ArgumentError, "'period' = 0 is below its minimum 1"),
    ({"policy": "fixed", "sub_polcy_0_gamma": 1.0}, ArgumentError, "no argument 'sub_polcy_0_gamma'"),
    ({"policy": "composite"}, ArgumentError, "policy 'composite' has no parts"),
    (composite(), ArgumentError, "(?s)needs the argument 'policy'.*in part 0 of a composite"),
    (composite(sub_policy_0_policy="nope"), ArgumentError, "(?s)unknown policy 'nope'.*in part 0"),
    (composite(sub_policy_0_policy="step"), ArgumentError, "(?s)needs stepsize >= 1.*in part 0"),
    (composite(sub_policy_0_policy="fixed", sub_policy_0_lr_scale=2), ArgumentError, "'lr_scale' wants float"),
    (composite(sub_policy_0_policy="fixed", sub_policy_0_gama=2.0), ArgumentError, "no argument 'sub_policy_0_gama'"),
    (composite(sub_policy_num_iters=[0]), ArgumentError, "'sub_policy_num_iters' = 0 is below its minimum 1"),
    (
        composite(
            sub_policy_0_policy="composite",
            sub_policy_0_sub_policy_num_iters=[1],
            sub_policy_0_sub_policy_0_policy="fixed",
        ),
        ArgumentError,
        "part 0 of a composite policy is one itself",
    ),
]


@pytest.mark.parametrize(("args", "error", "text"), REFUSED)
def test_refused(args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        rate(1, **args)


@pytest.mark.parametrize(
    ("t", "error", "text"),
    [
        (np.array([1], np.int32), DTypeError, "t is int32, it must be int64"),
        (np.array([1, 2]), ShapeError, "t has 2 elements, it must have 1"),
        (np.array([-1]), NumericError, "the iteration is -1"),
    ],
)
def test_refused_iterations(t: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("LearningRate", t, base_lr=0.1, policy="fixed")


def test_arguments_of_parts_are_known() -> None:
    definition = operator_def("LearningRate", ["t"], ["lr"], sub_policy_0_gamma=1.0, sub_policy_7_lr_scale=1.0, zzz=1)
    assert find_schema("LearningRate").unknown_arguments(definition) == ["zzz"]
