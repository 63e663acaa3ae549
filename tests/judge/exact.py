"""Chains in float64 by the reference kernels, and how far their results move when what is between is rounded.

The judge knows no tolerance of its own: it runs a chain several times, each time with other errors of the size of a
rounding, and looks how far the results spread. So a chain that cancels may be inexact, one that is well-conditioned may
not; and where a result jumps (the kink of a rectifier, two maxima that are nearly equal, a bound) it shows as well.

One theory of rounding serves layers and chains: inputs move, by the root of how many are added up, and so does each
step inside that is known (`condition.stepwise`). Layers ask for the condition of each element and bound it (`verdict`):
there is one operator, and a bound is sharper. In chains conditions multiply and jumps meet, so errors are run through
them. PyTorch is compared in float64 (`peer`), where of all that nothing is left but what cancels.

What no engine rounds is not moved: elements that an operator copies from an input, and those that are a constant.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from tazza.engines.onednn.library import unavailable
from tazza.engines.onednn.narrow import has_tiles
from tazza.operator import SCHEMAS, why_unavailable
from tazza.ops.math.matmul import BATCH_MATMUL, MATMUL
from tazza.ops.nn.conv import CONV_GRADIENTS
from tazza.ops.nn.conv_transpose import CONV_TRANSPOSE_GRADIENT
from tazza.ops.nn.fc import FC_GRADIENT
from tazza.ops.nn.fused import fused_type
from tazza.proto import OperatorDef
from tazza.tensor import DataType
from tests.check import evaluate
from tests.judge.condition import operations, stepwise
from tests.judge.hand import Array
from tests.judge.verdict import LEAST, MOST

Blobs: TypeAlias = dict[str, Array]

SINGLE = 2.0**-22
"""Relative: four roundings of float32, since sums go through many."""
FEW = 4.0
"""Beyond 16 terms the roundings of sums grow by the root of their number."""
NARROW = 2.0**-8
"""Relative: one rounding of bfloat16."""
COARSE = {"native/winograd": 2.0**-19}
"""Engine -> error relative to the largest element of a result; see docs/differences.md."""
AS_ALPHA = frozenset({"Elu"})
"""Types that an engine rounds as `alpha` is, also near 0, where the result is smaller; see docs/differences.md."""
TILED = frozenset(one.type for one in (*CONV_GRADIENTS, CONV_TRANSPOSE_GRADIENT, FC_GRADIENT, MATMUL, BATCH_MATMUL))
"""Types whose products round what goes into them in the backward pass too, where there are tiles; docs/precision.md."""
HAS_TILES = unavailable() is None and has_tiles()
GIVEN = "_given"
"""How the names of gradients end that are fed."""


@dataclass(frozen=True)
class Noise:
    """Errors of a relative size; `narrow` where blobs of the forward pass may lie in bfloat16.

    `engine` is one of `COARSE`, or "".
    """

    rng: np.random.Generator
    narrow: bool = False
    amplitude: float = 1.0
    engine: str = ""

    def move(self, values: Array, *, forward: bool, terms: float = 1.0) -> Array:
        """Return values with an error on each, where they are sums of so many terms, or go into them."""
        single = self.amplitude * SINGLE * max(1.0, np.sqrt(terms) / FEW)
        size = max(self.amplitude * NARROW, single) if self.narrow and forward else single
        found = values * (1.0 + self.rng.uniform(-size, size, values.shape))
        return self._in_range(found)

    def _in_range(self, values: Array) -> Array:
        """Return numbers as float32 has them: infinite beyond its largest one, perhaps 0 where it has few digits."""
        size = np.abs(values)
        tiny, huge = (size < LEAST) & (values != 0), size > MOST
        if not (tiny.any() or huge.any()):
            return values
        found = np.where(tiny & (self.rng.random(values.shape) < 0.5), 0.0, values)
        return np.where(huge, np.copysign(np.inf, values), found)

    def factor(self, shape: tuple[int, ...], terms: float) -> Array:
        """Return the error of a step inside an operator: steps are those of float32."""
        return self.move(np.ones(shape), forward=False, terms=terms)

    def is_coarse(self, op: OperatorDef) -> bool:
        """Whether the coarse engine has the operator: no element is exact then, zeros of borders neither."""
        return bool(self.engine) and why_unavailable(op.type, "cpu", self.engine) is None

    def spoil(self, op: OperatorDef, values: Array) -> Array:
        """Return results with errors that go by the largest of them, of an operator that the coarse engine has.

        Or by `alpha`, of those that an engine rounds so.
        """
        if op.type in AS_ALPHA:
            size = self.amplitude * SINGLE * abs(float(SCHEMAS[op.type].view(op).alpha))
            values = np.where(values < 0, values + self.rng.uniform(-size, size, values.shape), values)
        if not self.is_coarse(op) or values.size == 0:
            return values
        size = self.amplitude * COARSE[self.engine] * float(np.abs(values).max())
        return values + self.rng.uniform(-size, size, values.shape)

    def level(self, values: Array) -> Array:
        """Return values that were moved, and what is left of them with an eighth of the digits of bfloat16."""
        mantissa, exponent = np.frexp(self.move(values, forward=True))
        return np.ldexp(np.round(mantissa * 32.0) / 32.0, exponent)

    def rounds(self, *, forward: bool) -> bool:
        """Whether a blob shall lie in bfloat16 this time."""
        return self.narrow and forward and bool(self.rng.random() < 0.5)


def step_exactly(op: OperatorDef, blobs: Mapping[str, Array]) -> list[Array]:
    """Return the outputs of one operator."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluate(SCHEMAS[op.type].view(op), [blobs[name] for name in op.input])


def run_exactly(
    ops: Sequence[OperatorDef], fed: Mapping[str, Array], noise: Noise | None = None, *, forward: int | None = None
) -> Blobs:
    """Return all blobs after one run; floats of `fed` are widened.

    The first `forward` operators are the forward pass; all, if that is not said.
    """
    blobs = {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in fed.items()}
    gradients: set[str] = set()
    for position, op in enumerate(ops):
        ahead = forward is None or position < forward
        results = step_exactly(op, blobs)
        if noise is not None:
            results = _moved(op, blobs, results, noise, ahead, gradients)
        if not ahead:
            gradients.update(op.output)
        blobs.update(zip(op.output, results, strict=True))
    return blobs


def _moved(
    op: OperatorDef, blobs: Mapping[str, Array], results: list[Array], noise: Noise, ahead: bool, gradients: set[str]
) -> list[Array]:
    """Return results with errors where an engine makes some."""
    # A gradient compares what the forward pass left, so only what comes from behind is moved there.
    tiled = noise.narrow and not ahead and op.type in TILED and HAS_TILES
    names = [name for name in op.input if ahead or tiled or name in gradients or name.endswith(GIVEN)]
    floats = {name for name in names if blobs[name].dtype == np.float64}
    view = SCHEMAS[op.type].view(op)
    flops = operations(view, [blobs[name] for name in op.input], results)
    each = flops / max(1, *(one.size for one in results), 1)
    move = partial(noise.move, forward=ahead or tiled, terms=each)
    if all(one.dtype.kind != "f" for one in results) and noise.rounds(forward=ahead):
        move = noise.level  # what is compared may become equal
    inputs = {name: move(blobs[name]) if name in floats else blobs[name] for name in op.input}
    again = step_exactly(op, inputs)
    # By accident a result may stand in an input; what is copied stands there in both.
    kept = [
        _stands(op, blobs, one, noise) & _stands(op, inputs, two, noise)
        if one.shape == two.shape and not noise.is_coarse(op)
        else np.zeros(one.shape, bool)
        for one, two in zip(results, again, strict=True)
    ]
    if all(bool(mask.all()) for mask in kept):
        return results
    with np.errstate(all="ignore"):
        inside = stepwise(view, [inputs[name] for name in op.input], again, noise.factor)
    again = again if inside is None else inside
    again = [noise.spoil(op, one) if one.dtype.kind == "f" else one for one in again]
    return [_placed(*one, flops, noise, ahead) for one in zip(results, again, kept, strict=True)]


def _placed(exact: Array, moved: Array, kept: Array, flops: float, noise: Noise, ahead: bool) -> Array:
    if exact.dtype.kind != "f" or exact.shape != moved.shape:
        return moved
    found = np.where(kept, exact, noise.move(moved, forward=False, terms=flops / max(1, exact.size)))
    return rounded(found) if noise.rounds(forward=ahead) else found


def rounded(values: Array) -> Array:
    """Return what is left in bfloat16."""
    return values.astype(np.float32).astype(DataType.BFLOAT16.numpy).astype(np.float64)


def _stands(op: OperatorDef, blobs: Mapping[str, Array], result: Array, noise: Noise) -> Array:
    """Return where a result is a number that stands in an input, or is a constant.

    A layer that computes in bfloat16 rounds what it writes, even if that is its bias.
    """
    if result.dtype.kind != "f":
        return np.zeros(result.shape, bool)
    view = SCHEMAS[op.type].view(op)
    rounds = noise.narrow and ("epilogue" in view.schema.args or fused_type(view) is not None)
    floats = [] if rounds else [blobs[name].reshape(-1) for name in op.input if blobs[name].dtype.kind == "f"]
    constants = [float(argument.f) for argument in op.arg]
    return np.isin(result, np.unique(np.concatenate([*floats, [0.0, 1.0, -1.0], constants])))


@dataclass(frozen=True)
class Reach:
    """Where a result may lie: `exact`, and how far it may be from that; NaN where it has to be NaN."""

    exact: Array
    allowed: Array

    @property
    def decides(self) -> bool:
        """Whether there is a result that would be wrong: some element has a bound, or there is none."""
        return self.exact.size == 0 or not bool(np.isinf(self.allowed).all())

    def excess(self, got: Array) -> float:
        """Return how many times as far as allowed the worst element lies; infinity for another shape, or NaN."""
        if got.shape != self.exact.shape:
            return float("inf")
        if got.size == 0:
            return 0.0
        with np.errstate(all="ignore"):
            far = np.abs(got.astype(np.float64) - self.exact.astype(np.float64))
            ratio = np.where(far == 0, 0.0, far / np.maximum(self.allowed, 1e-300))
        ratio = np.where(np.isnan(ratio), np.where(np.isinf(self.allowed), 0.0, np.inf), ratio)
        ratio = np.where(np.isnan(self.allowed), np.where(np.isnan(got.astype(np.float64)), 0.0, np.inf), ratio)
        return float(ratio.max())


def reach(exact: Array, others: Sequence[Array], factor: float) -> Reach:
    """Return where a result may lie, from what it was with errors: `factor` times as far, and some more everywhere."""
    if any(other.shape != exact.shape for other in others):
        return Reach(exact, np.full(exact.shape, np.inf))
    with np.errstate(all="ignore"):
        far = np.max([np.abs(other.astype(np.float64) - exact.astype(np.float64)) for other in others], axis=0)
    if exact.dtype.kind != "f":
        return Reach(exact, np.where(far > 0, np.inf, 0.0))
    never = np.isnan(exact) & np.all([np.isnan(other.astype(np.float64)) for other in others], axis=0)
    far = np.where(np.isnan(far), np.inf, far)
    usual = float(np.quantile(far[~never], 0.75, method="lower")) if (~never).any() else 0.0
    largest = float(np.abs(exact[~np.isnan(exact)]).max(initial=0.0))
    size = np.nan_to_num(np.abs(exact))
    allowed = factor * (far + usual) + 2.0**-23 * (size + 0.01 * largest) + 1e-37
    allowed = np.where(size + allowed >= MOST / 16, np.inf, allowed)  # beyond float32, or a sum on the way there is
    return Reach(exact, np.where(never, np.nan, allowed))
