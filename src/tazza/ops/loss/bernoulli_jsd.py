"""How far apart two Bernoulli distributions are, by the divergence of Jensen and Shannon: BernoulliJSD.

x and t are the probabilities of 1, m = (x + t) / 2, H the entropy of such a distribution in nats:

    L = H(m) - (H(x) + H(t)) / 2,    dL/dx = (logit(x) - logit(m)) / 2

H is 0 where p or 1 - p is not above 1e-20. The blobs have as many elements; outputs have the shape of X.

Source: Lin 1991, Divergence measures based on the Shannon entropy, section IV; Caffe2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Effects,
    GradientRequest,
    OpView,
    Role,
    Spec,
    blob,
    ends,
    formula,
    kernel,
    schema,
)
from tazza.ops.math.elementwise import formula_cost
from tazza.ops.shape.axis import require_as_many
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

PROBABILITY_MIN = 1e-20
"""Probabilities below, and those as near to 1, count as certain."""

BERNOULLI_JSD = schema(
    "BernoulliJSD",
    "L = H((X + T) / 2) - (H(X) + H(T)) / 2, with H(p) = -p log(p) - (1 - p) log(1 - p).",
    inputs=[blob("X", FLOAT, doc="probabilities"), blob("T", "X", role=Role.DATA, doc="probabilities")],
    outputs=[blob("L", like="X")],
    effects=Effects.PURE,
    source="Lin 1991, section IV; Caffe2",
    example="""
    >>> run("BernoulliJSD", [0.5, 1.0], [0.5, 0.0])
    array([0.       , 0.6931472], dtype=float32)
    """,
)
BERNOULLI_JSD_GRADIENT = schema(
    "BernoulliJSDGradient",
    """dX = dL / 2 * (logit(X) - logit((X + T) / 2)), with logit(p) = log(p / (1 - p)).

    p counts as 1e-20 at least and as 1 at most; at 1 the gradient is infinite, or NaN where T is 1 too.""",
    inputs=[blob("dL", FLOAT), blob("X", "dL"), blob("T", "dL", role=Role.DATA)],
    outputs=[blob("dX", like="X")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("BernoulliJSDGradient", [1.0, 2.0], [0.5, 0.25], [0.5, 0.75]).round(4)
    array([ 0.    , -1.0986], dtype=float32)
    """,
)


def _align(op: OpView, specs: Mapping[str, Spec]) -> dict[str, tuple[int, ...]]:
    """Let all blobs lie as X does: they have as many elements."""
    del op
    X = specs["X"]
    assert isinstance(X, TensorSpec)
    return dict.fromkeys(specs, tuple(X.shape))


def _entropy_text(p: str) -> str:
    return f"where(min({p}, 1 - {p}) <= 1e-20, 0, -({p} * log({p})) - (1 - {p}) * log(1 - {p}))"


def _logit_text(p: str) -> str:
    return f"log(min(max({p}, 1e-20), 1) / (1 - min(max({p}, 1e-20), 1)))"


MIDDLE = "(0.5 * (X + T))"
formula(
    BERNOULLI_JSD,
    L=f"{_entropy_text(MIDDLE)} - 0.5 * ({_entropy_text('X')} + {_entropy_text('T')})",
    align=_align,
)
formula(BERNOULLI_JSD_GRADIENT, dX=f"0.5 * dL * ({_logit_text('X')} - {_logit_text(MIDDLE)})", align=_align)
BERNOULLI_JSD.cost(formula_cost)
BERNOULLI_JSD_GRADIENT.cost(formula_cost)


def entropy(p: Array) -> Array:
    """Return H(p)."""
    certain = np.minimum(p, 1 - p) <= PROBABILITY_MIN
    q = np.where(certain, p.dtype.type(0.5), p)
    return np.where(certain, 0, -(q * np.log(q)) - (1 - q) * np.log(1 - q))


def logit(p: Array) -> Array:
    """Return log(p / (1 - p)), with p kept in [1e-20, 1]."""
    kept = np.clip(p, p.dtype.type(PROBABILITY_MIN), 1)
    with np.errstate(divide="ignore"):
        return np.log(kept / (1 - kept))


@BERNOULLI_JSD.infer
def bernoulli_jsd_infer(op: OpView, X: TensorSpec, T: TensorSpec) -> TensorSpec:
    require_as_many(op, "X", X.dims, T=T.dims)
    return X


@BERNOULLI_JSD.gradient
def bernoulli_jsd_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("BernoulliJSDGradient", [g.dL, g.X, g.T], [g.dX])


@kernel(BERNOULLI_JSD)
def bernoulli_jsd(X: Array, T: Array, L: Array) -> None:
    t = T.reshape(X.shape)
    L[...] = entropy((X + t) / 2) - (entropy(X) + entropy(t)) / 2


@BERNOULLI_JSD_GRADIENT.infer
def bernoulli_jsd_gradient_infer(op: OpView, dL: TensorSpec, X: TensorSpec, T: TensorSpec) -> TensorSpec:
    require_as_many(op, "X", X.dims, dL=dL.dims, T=T.dims)
    return X


@kernel(BERNOULLI_JSD_GRADIENT)
def bernoulli_jsd_gradient_kernel(dL: Array, X: Array, T: Array, dX: Array) -> None:
    t = T.reshape(X.shape)
    with np.errstate(invalid="ignore"):
        dX[...] = dL.reshape(X.shape) / 2 * (logit(X) - logit((X + t) / 2))
