"""LearningRate: a base rate times what a policy makes of the iteration. A policy is a function below, under its name.

t is the iteration, counted from 1 by Iter. Policies return the multiplier of `base_lr`, in float64, where Caffe2 has
float32. Source: Caffe2; cyclical: Smith 2017, arXiv 1506.01186; cosine: Loshchilov, Hutter 2017, arXiv 1608.03983.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, NumericError
from tazza.operator import ArgSpec, Array, Effects, OpView, Role, arg, blob, ends, kernel, schema
from tazza.proto import OperatorDef
from tazza.registry import Registry
from tazza.tensor import DataType, TensorSpec


@dataclass(frozen=True, slots=True)
class Policy:
    """What a policy makes of an iteration t > 0: `multiplier(op, t)`, in float64.

    `formula` says the same over t and the arguments, where it is one formula; `absent` is what arguments count that
    have no default of their own.
    """

    multiplier: Callable[[OpView, int], float]
    formula: str | None
    absent: Mapping[str, float]

    def __call__(self, op: OpView, t: int) -> float:
        """Return the multiplier of `base_lr`."""
        return self.multiplier(op, t)

    def value(self, op: OpView, name: str) -> float:
        """Return what an argument counts."""
        given = op.arguments[name]
        return float(self.absent[name] if given is None else given)


POLICIES: Registry[str, Policy] = Registry("learning-rate policy")


def policy(
    name: str, formula: str | None = None, **absent: float
) -> Callable[[Callable[[OpView, int], float]], Policy]:
    """Register a function as the policy of a name; see `Policy`."""

    def declare(multiplier: Callable[[OpView, int], float]) -> Policy:
        return POLICIES.registering(name)(Policy(multiplier, formula, absent))

    return declare


@policy("fixed", "1")
def fixed(op: OpView, t: int) -> float:
    """1."""
    del op, t
    return 1.0


@policy("alter")
def alter(op: OpView, t: int) -> float:
    """1 and 0 by turns, for `active_period` and `inactive_period` iterations."""
    period = op.active_period + op.inactive_period
    if period == 0:
        return 0.0
    place = t % period
    return float(place < op.active_period if op.active_first else place >= op.inactive_period)


@policy("step", "pow(gamma, floor(t / stepsize))")
def step(op: OpView, t: int) -> float:
    """Return gamma ** floor(t / stepsize)."""
    return _power(op.gamma, t // _stepsize(op))


@policy("exp", "pow(gamma, t)")
def exponential(op: OpView, t: int) -> float:
    """Return gamma ** t."""
    return _power(op.gamma, t)


@policy("inv", "pow(1 + gamma * t, -power)")
def inverse(op: OpView, t: int) -> float:
    """(1 + gamma t) ** -power."""
    return _power(1 + op.gamma * t, -op.power)


@policy("poly", "pow(1 - t / max_iter, power)")
def poly(op: OpView, t: int) -> float:
    """(1 - t / max_iter) ** power: NaN behind max_iter, unless power is an integer."""
    return _power(1 - t / op.max_iter, op.power)


@policy("gate", "where(t < num_iter, multiplier_1, multiplier_2)", multiplier_1=1.0, multiplier_2=1.0)
def gate(op: OpView, t: int) -> float:
    """multiplier_1 before num_iter, then multiplier_2; both are 1 when missing."""
    return gate.value(op, "multiplier_1" if t < op.num_iter else "multiplier_2")


@policy("hill")
def hill(op: OpView, t: int) -> float:
    """A line up from start_multiplier to 1 at num_iter, then the decay of `inv`, down to end_multiplier."""
    if t < op.num_iter:
        return _line(op.start_multiplier, 1.0, t / op.num_iter)
    return max(op.end_multiplier, _power(1 + op.gamma * (t - op.num_iter), -op.power))


@policy("slope", multiplier_1=0.0, multiplier_2=0.0)
def slope(op: OpView, t: int) -> float:
    """multiplier_1 before num_iter_1, then the line through (num_iter_1, multiplier_1) and (num_iter_2, multiplier_2).

    The line is followed beyond num_iter_2, but the multiplier does not fall below multiplier_2.
    """
    first, second = slope.value(op, "multiplier_1"), slope.value(op, "multiplier_2")
    if t < op.num_iter_1:
        return first
    if op.num_iter_1 == op.num_iter_2:
        return second
    return max(second, _line(first, second, (t - op.num_iter_1) / (op.num_iter_2 - op.num_iter_1)))


@policy("linearWarmup", "where(t < num_iter, start_multiplier + (1 - start_multiplier) * (t / num_iter), 1)")
def linear_warmup(op: OpView, t: int) -> float:
    """A line from start_multiplier to 1 at num_iter."""
    return 1.0 if t >= op.num_iter else _line(op.start_multiplier, 1.0, t / op.num_iter)


@policy("constantWarmup", "where(t < num_iter, multiplier, 1)")
def constant_warmup(op: OpView, t: int) -> float:
    """`multiplier` before num_iter, then 1."""
    return 1.0 if t >= op.num_iter else op.multiplier


@policy("pieceWarmup", "where(t < n1, m1, where(t < n2, m2, m3))")
def piece_warmup(op: OpView, t: int) -> float:
    """m1 before n1, m2 before n2, then m3."""
    return op.m1 if t < op.n1 else op.m2 if t < op.n2 else op.m3


@policy("constantThenLinearWarmup")
def constant_then_linear_warmup(op: OpView, t: int) -> float:
    """start_warmup_multiplier for constant_warmup_num_iter, a line to 1 in the next linear_warmup_num_iter."""
    risen = t - op.constant_warmup_num_iter
    if risen >= op.linear_warmup_num_iter:
        return 1.0
    return (
        op.start_warmup_multiplier
        if risen <= 0
        else _line(op.start_warmup_multiplier, 1.0, risen / op.linear_warmup_num_iter)
    )


@policy("cyclical", max_lr=0.005)
def cyclical(op: OpView, t: int) -> float:
    """Triangles between base_lr and max_lr, 2 stepsize wide; `decay` times lower from one to the next."""
    return _triangle(op, t, cyclical.value(op, "max_lr"), _stepsize(op), op.decay)


@policy("compositeCyclical")
def composite_cyclical(op: OpView, t: int) -> float:
    """constantThenLinearWarmup, then cyclical with the arguments cyclical_*."""
    begun = _after_warmup(op, t)
    if begun < 0:
        return constant_then_linear_warmup(op, t)
    return _triangle(op, begun, op.cyclical_max_lr, op.cyclical_step_size, op.cyclical_decay)


@policy("cosine", max_lr=0.5)
def cosine(op: OpView, t: int) -> float:
    """Half waves from max_lr down to min_lr; the next one is t_mult times as long and lr_shrink times as high."""
    return _half_wave(t, (op.min_lr, cosine.value(op, "max_lr")), op.period, op.t_mult, op.lr_shrink)


@policy("compositeCosine")
def composite_cosine(op: OpView, t: int) -> float:
    """constantThenLinearWarmup, then cosine with the arguments cosine_*."""
    begun = _after_warmup(op, t)
    if begun < 0:
        return constant_then_linear_warmup(op, t)
    limits = op.cosine_min_lr, op.cosine_max_lr
    return _half_wave(begun, limits, op.cosine_period, op.cosine_t_mult, op.cosine_lr_shrink)


@policy("composite")
def composite(op: OpView, t: int) -> float:
    """Policies one after the other, each for its part of sub_policy_num_iters; the last one has no end.

    Arguments of part i are called sub_policy_<i>_<argument>, and sub_policy_<i>_lr_scale multiplies it. A part is given
    t itself, not what has passed since it began.
    """
    ends_at = np.cumsum(op.sub_policy_num_iters)
    part, scale = part_of(op, min(int(np.searchsorted(ends_at, t)), ends_at.size - 1))
    return scale * POLICIES[part.policy](part, t)


# -- pieces ------------------------------------------------------------------------------------------------------------


def _power(base: float, exponent: float) -> float:
    """Like C: 0 ** -1 is infinite, a negative base with a fraction above gives NaN."""
    return float(np.power(np.float64(base), np.float64(exponent)))


def _line(start: float, end: float, part: float) -> float:
    return start + (end - start) * part


def _stepsize(op: OpView) -> int:
    if op.stepsize < 1:
        raise op.error(ArgumentError, f"policy {op.policy!r} needs stepsize >= 1, it is {op.stepsize}")
    return op.stepsize


def _after_warmup(op: OpView, t: int) -> int:
    return t - op.constant_warmup_num_iter - op.linear_warmup_num_iter


def _triangle(op: OpView, t: int, peak: float, stepsize: int, decay: float) -> float:
    cycle, place = divmod(t, 2 * stepsize)
    height = 1 - abs(place / stepsize - 1)
    ratio = float(np.float64(abs(peak)) / np.float64(abs(op.base_lr)))
    return 1 + (ratio - 1) * height * _power(decay, cycle)


def _half_wave(t: int, limits: tuple[float, float], period: int, growth: float, shrink: float) -> float:
    """Wave i begins at period * (1 + growth + ... + growth ** (i - 1)) and is period * growth ** i long.

    With growth < 1 there is a last iteration; NaN from there on.
    """
    if growth == 1.0:
        wave, place, length = t // period, float(t % period), float(period)
    else:
        grown = 1 + t / period * (growth - 1)
        if grown <= 0:
            return float("nan")
        wave = int(np.floor(np.log(grown) / np.log(growth)))
        length = period * growth**wave
        place = t - (1 - growth**wave) / (1 - growth) * period
    low, high = (limit * shrink**wave for limit in limits)
    return low + 0.5 * (high - low) * (1 + np.cos(np.pi * place / length))


# -- the operator ------------------------------------------------------------------------------------------------------

PART = re.compile(r"sub_policy_(\d+)_(\w+)")
LR_SCALE = arg("lr_scale", float, 1.0, doc="multiplies the part")


def names_a_part(name: str) -> bool:
    """Whether an argument is one of a part of a composite: `sub_policy_<i>_<argument>`."""
    found = PART.fullmatch(name)
    if found is None:
        return False
    return found[2] == LR_SCALE.name or found[2] in LEARNING_RATE.args or names_a_part(found[2])


def _count(name: str, default: int, doc: str, minimum: int = 0) -> ArgSpec:
    return arg(name, int, default, minimum=minimum, doc=doc)


LEARNING_RATE = schema(
    "LearningRate",
    """lr = base_lr * policy(t), a float32 of rank 0.

    t is the iteration. What a policy does is said at its function. A missing argument is mostly 0, which is of little
    use: `step` without gamma gives 0.""",
    inputs=[blob("t", frozenset({DataType.INT64}), host=True, role=Role.STATE, doc="of one element")],
    outputs=[blob("lr", DataType.FLOAT)],
    args=[
        arg("base_lr", float, doc="rate at multiplier 1; negative for operators that add"),
        arg("policy", str, doc="name of the policy"),
        arg("gamma", float, 0.0, doc="base of exp and step; slope of inv and hill"),
        arg("power", float, 0.0, doc="of inv, hill and poly"),
        _count("stepsize", 0, "of step and cyclical, which need it"),
        _count("max_iter", 2**63 - 1, "where poly arrives at 0", minimum=1),
        arg("active_first", bool, True, doc="alter begins with the active period"),
        _count("active_period", 0, "iterations of alter at 1"),
        _count("inactive_period", 0, "iterations of alter at 0"),
        _count("num_iter", 0, "of hill, gate, linearWarmup and constantWarmup"),
        arg("start_multiplier", float, 0.0, doc="of hill and linearWarmup"),
        arg("end_multiplier", float, 0.0, doc="floor of hill"),
        arg("multiplier", float, 0.5, doc="of constantWarmup"),
        arg("multiplier_1", float, None, doc="of gate (1 when missing) and slope (0)"),
        arg("multiplier_2", float, None, doc="of gate (1 when missing) and slope (0)"),
        _count("num_iter_1", 0, "of slope"),
        _count("num_iter_2", 0, "of slope"),
        *(arg(name, float, 0.5, doc="multiplier of pieceWarmup") for name in ("m1", "m2", "m3")),
        *(_count(name, 0, "end of a piece of pieceWarmup") for name in ("n1", "n2")),
        arg("max_lr", float, None, doc="peak of cyclical (0.005 when missing), of cosine as multiplier (0.5)"),
        arg("decay", float, 1.0, doc="of cyclical"),
        arg("min_lr", float, 0.1, doc="foot of cosine, as multiplier"),
        _count("period", 50, "iterations of the first wave of cosine", minimum=1),
        arg("t_mult", float, 1.0, minimum=0.0, doc="growth of the waves of cosine"),
        arg("lr_shrink", float, 0.99, doc="of cosine, from wave to wave"),
        arg("start_warmup_multiplier", float, 0.1, doc="of the policies that begin with constantThenLinearWarmup"),
        _count("constant_warmup_num_iter", 10_000_000, "iterations at start_warmup_multiplier"),
        _count("linear_warmup_num_iter", 10_000_000, "iterations of the line"),
        arg("cyclical_max_lr", float, 0.05, doc="as max_lr of cyclical"),
        _count("cyclical_step_size", 1_000_000, "as stepsize of cyclical", minimum=1),
        arg("cyclical_decay", float, 1.0, doc="as decay of cyclical"),
        arg("cosine_max_lr", float, 0.5, doc="as max_lr of cosine"),
        arg("cosine_min_lr", float, 0.1, doc="as min_lr of cosine"),
        _count("cosine_period", 50, "as period of cosine", minimum=1),
        arg("cosine_t_mult", float, 1.0, minimum=0.0, doc="as t_mult of cosine"),
        arg("cosine_lr_shrink", float, 0.99, doc="as lr_shrink of cosine"),
        arg("sub_policy_num_iters", list[int], [], minimum=1, doc="iterations of each part of composite"),
    ],
    effects=Effects.PURE,
    open_args=names_a_part,
    no_gradient=ends("the rate depends on the iteration alone"),
    source="Caffe2",
    example="""
    >>> run("LearningRate", np.array([20]), base_lr=0.5, policy="step", stepsize=10, gamma=0.5)
    array(0.125, dtype=float32)
    """,
)


LEARNING_RATE.gives_rate("lr")


def part_of(op: OpView, index: int) -> tuple[OpView, float]:
    """Return part `index` of a composite, as an operator of its own with the same base_lr, and its scale.

    Raises:
        ArgumentError: the part has no policy, one that is not known, or arguments that it refuses.
    """
    definition = OperatorDef(type=op.type, input=op.definition.input, output=op.definition.output)
    scale = LR_SCALE.default
    for argument in op.definition.arg:
        found = PART.fullmatch(argument.name)
        if argument.name == "base_lr":
            definition.arg.add().CopyFrom(argument)
        elif found is not None and int(found[1]) == index and found[2] == LR_SCALE.name:
            scale = LR_SCALE.read(argument)
        elif found is not None and int(found[1]) == index and found[2] != "base_lr":
            copy = definition.arg.add()
            copy.CopyFrom(argument)
            copy.name = found[2]
    return LEARNING_RATE.view(definition), scale


@LEARNING_RATE.validate
def learning_rate_validate(op: OpView) -> None:
    named = POLICIES.get(op.policy)
    if named is None:
        raise op.error(ArgumentError, f"unknown policy {op.policy!r}", hint=POLICIES.near(op.policy))
    if named is composite:
        _check_parts(op)
    else:
        named(op, 1)  # refuses what it cannot work with


def _check_parts(op: OpView) -> None:
    if not op.sub_policy_num_iters:
        raise op.error(ArgumentError, "policy 'composite' has no parts", hint="give sub_policy_num_iters")
    for index in range(len(op.sub_policy_num_iters)):
        try:
            part, _ = part_of(op, index)
        except ArgumentError as error:
            error.add_context(f"in part {index} of a composite policy (arguments sub_policy_{index}_...)")
            raise
        if POLICIES[part.policy] is composite:
            raise op.error(ArgumentError, f"part {index} of a composite policy is one itself", hint="list its parts")


@LEARNING_RATE.infer
def learning_rate_infer(op: OpView, t: TensorSpec) -> TensorSpec:
    op.require(not t.shape_known or t.size == 1, f"t has {t.size if t.shape_known else '?'} elements, it must have 1")
    return TensorSpec((), DataType.FLOAT)


@kernel(LEARNING_RATE)
def learning_rate(op: OpView, t: Array, lr: Array) -> None:
    iteration = int(t.reshape(()))
    if iteration < 0:
        raise op.error(NumericError, f"the iteration is {iteration}, it cannot be negative")
    with np.errstate(all="ignore"):
        lr[...] = op.base_lr * POLICIES[op.policy](op, iteration)
