"""Follow the regularized leader: parameters that are 0 while their gradients have not moved them enough.

W are the parameters, dW their gradient; nz holds two numbers for each element of W, in turn: n, the sum of squares of
its gradients, and z, the sum of what moved it. All are computed anew from nz:

    n' = n + dW^2;    z' = z + dW - (sqrt(n') - sqrt(n)) / alpha W
    Ftrl     W' = 0 where |z'| <= lambda1, else -(z' - sign(z') lambda1) / ((beta + sqrt(n')) / alpha + lambda2)
    GFtrl    the same for groups, the elements that differ only in their first coordinate, R of them: with
             s = lambda1 sqrt(R) and l = sqrt(sum of z'^2 over the group), 0 where l <= s, else
             -z' (1 - s / l) / ((beta + sqrt(n')) / alpha + lambda2)

alpha is an argument or, without that, an input. Of rows, `indices` (K, of any shape) picks those that the K rows of dW
belong to; an index that stands there several times is updated as often, in turn.

Source: McMahan et al. 2013, "Ad Click Prediction: a View from the Trenches", algorithm 1; Caffe2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Cut,
    Effects,
    OpSchema,
    OpView,
    Role,
    RowProgram,
    Total,
    arg,
    blob,
    family,
    kernel,
    row_program,
    schema,
)
from tazza.ops.optimizer.rows import INDICES, carried, occurrences, require_rows
from tazza.ops.optimizer.update import NO_GRADIENT
from tazza.ops.shape.axis import agree, product, require_as_many, require_one_element
from tazza.ops.sparse.segment import check_rows
from tazza.tensor import TensorSpec

Specs = tuple[TensorSpec, TensorSpec]

ALPHA = blob("alpha", FLOAT, optional=True, role=Role.PARAMETER, doc="of one element: the argument `alpha`")
ARGS = [
    arg("alpha", float, 0.005, doc="the learning rate"),
    arg("beta", float, 1.0, doc="added to sqrt(n)"),
    arg("lambda1", float, 0.001, doc="the threshold of z"),
    arg("lambda2", float, 0.001, doc="makes W smaller"),
]
OVER = {"W_next": "W", "nz_next": "nz"}


@dataclass(frozen=True, slots=True)
class Leader:
    """What tells these apart: text, source, and the call and result of the example; whether it is of rows."""

    doc: str
    source: str
    given: str
    W_next: str
    of_rows: bool = False


@family(
    {
        "Ftrl": Leader(
            "W_next = the minimum of what all gradients so far make of it, with |W| lambda1 and W^2 lambda2 / 2 added.",
            "McMahan et al. 2013, algorithm 1",
            "[0.0, 0.0], [[0.0, 0.0], [0.0, 0.0]], [2.0, -1.0]",
            "[-0.25,  0.  ]",
        ),
        "GFtrl": Leader(
            "As Ftrl, for groups that are 0 as a whole: all elements that differ only in their first coordinate.",
            "McMahan et al. 2013; Yuan, Lin 2006 for groups",
            "[[0.0, 0.0]], np.zeros((1, 2, 2), 'f'), [[2.0, -1.0]]",
            "[[-0.25,  0.  ]]",
        ),
        "SparseFtrl": Leader(
            "As Ftrl, for the rows of W and nz that `indices` picks.",
            "McMahan et al. 2013, algorithm 1",
            "np.array([[3.0], [0.0]], 'f'), np.zeros((2, 1, 2), 'f'), [1], [[2.0]]",
            "[[ 3.  ],\n       [-0.25]]",
            of_rows=True,
        ),
    }
)
def leaders(type: str, row: Leader) -> OpSchema:
    """Updates that follow the leader."""
    made = schema(
        type,
        row.doc,
        inputs=[
            blob("W", FLOAT, role=Role.PARAMETER),
            blob("nz", FLOAT, role=Role.STATE, doc="n and z of each element of W, in turn"),
            *([INDICES] if row.of_rows else []),
            blob("dW", FLOAT),
            ALPHA,
        ],
        outputs=[blob("W_next", like="W"), blob("nz_next", like="nz")],
        args=ARGS,
        in_place={} if row.of_rows else OVER,
        must_in_place=OVER if row.of_rows else {},
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source=row.source,
        example=f'>>> run("{type}", {row.given}, alpha=0.5, beta=0.0, lambda1=1.0, lambda2=0.0, outputs=2)[0]\n'
        f"array({row.W_next}, dtype=float32)",
    )

    @made.infer
    def infer(op: OpView, W: TensorSpec, nz: TensorSpec, dW: TensorSpec, **others: TensorSpec) -> Specs:
        if others.get("alpha") is not None:
            require_one_element(op, "alpha", others["alpha"].dims)
            if op.given("alpha"):
                raise op.error(ArgumentError, "alpha is given as an argument and as an input", "give one of them")
        if W.dims is not None:
            op.require(len(W.dims) > 0 or type == "Ftrl", "W has rank 0, it must have rows")
        if W.dims is not None and nz.dims is not None:
            count, found = product(W.dims), product(nz.dims)
            relation = f"nz has {found} elements, W has {count}"
            op.require(count is None or agree(2 * count, found), relation, "n and z for each of them")
        if row.of_rows:
            require_rows(op, W, others["indices"], dW)
        else:
            require_as_many(op, "W", W.dims, dW=dW.dims)
        return W, nz

    @made.cost
    def cost(op: OpView, dW: TensorSpec, **others: TensorSpec | None) -> Cost:
        del op
        indices = others.get("indices")
        return Cost(16 * dW.size, 4 * dW.nbytes + (0 if indices is None else indices.nbytes), 3 * dW.nbytes, dW.nbytes)

    return made


def _alpha(op: OpView, alpha: Array | None) -> np.float32:
    return np.float32(op.alpha) if alpha is None else np.float32(alpha.reshape(()))


def _moved(alpha: np.float32, W: Array, nz: Array, dW: Array) -> tuple[Array, Array]:
    """Return n' and z', each of the shape of dW."""
    pairs = nz.reshape(*dW.shape, 2)
    n, z = pairs[..., 0], pairs[..., 1]
    more = n + np.square(dW)
    return more, z + dW - (np.sqrt(more) - np.sqrt(n)) / alpha * W.reshape(dW.shape)


def _divided(op: OpView, alpha: np.float32, n: Array, above: Array) -> Array:
    return -above / ((np.float32(op.beta) + np.sqrt(n)) / alpha + np.float32(op.lambda2))


@kernel(leaders["Ftrl"])
def ftrl(op: OpView, W: Array, nz: Array, dW: Array, alpha: Array | None, W_next: Array, nz_next: Array) -> None:
    rate, threshold = _alpha(op, alpha), np.float32(op.lambda1)
    n, z = _moved(rate, W, nz, dW)
    moved = _divided(op, rate, n, z - np.sign(z) * threshold)
    W_next[...] = np.where(np.abs(z) > threshold, moved, 0).reshape(W.shape)
    nz_next[...] = np.stack([n, z], axis=-1).reshape(nz.shape)


@kernel(leaders["GFtrl"])
def gftrl(op: OpView, W: Array, nz: Array, dW: Array, alpha: Array | None, W_next: Array, nz_next: Array) -> None:
    rate = _alpha(op, alpha)
    n, z = _moved(rate, W, nz, dW)
    n, z, threshold = n.reshape(W.shape), z.reshape(W.shape), np.float32(op.lambda1) * np.sqrt(np.float32(len(W)))
    length = np.sqrt(np.square(z).sum(axis=0, keepdims=True))
    with np.errstate(divide="ignore", invalid="ignore"):  # no gradient has moved the group
        share = np.where(length > threshold, 1 - threshold / length, 0)
    W_next[...] = _divided(op, rate, n, z * share)
    nz_next[...] = np.stack([n, z], axis=-1).reshape(nz.shape)


@kernel(leaders["SparseFtrl"])
def sparse_ftrl(
    op: OpView,
    W: Array,
    nz: Array,
    indices: Array,
    dW: Array,
    alpha: Array | None,
    W_next: Array,
    nz_next: Array,
) -> None:
    at = indices.reshape(-1)
    check_rows(op, at, len(W), "indices")
    rows, weights, pairs = dW.reshape(at.size, *W.shape[1:]), carried(W, W_next), carried(nz, nz_next)
    pairs = pairs.reshape(*W.shape, 2)
    for places in occurrences(at):
        picked = at[places]
        own, both = np.empty_like(rows[places]), np.empty((len(picked), *pairs.shape[1:]), np.float32)
        ftrl(op, weights[picked], pairs[picked], rows[places], alpha, own, both)
        weights[picked], pairs[picked] = own, both


PAIRS = {"nz": ("n", "z"), "nz_next": ("n_next", "z_next")}


def _moved_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    if op.has_input("alpha"):
        return "alpha is an input"
    rate = f"({float(np.float32(op.alpha))})"
    n = "(n + dW * dW)"
    z = f"(z + dW - (sqrt({n}) - sqrt(n)) / {rate} * W)"
    divisor = f"((beta + sqrt({n})) / {rate} + lambda2)"
    each = {"n_next": n, "z_next": z}
    W = specs["W"]
    if op.type == "GFtrl":
        R = W.shape[0]
        totals = {"squares": Total("sum", f"square({z})")}
        row = {"length": "sqrt(squares)", "least": "lambda1 * sqrt(count)"}
        row |= {"share": "where(length > least, 1 - least / length, 0)"}
        each |= {"W_next": f"-({z} * share) / {divisor}"}
        return RowProgram(Cut(1, R, W.size // max(R, 1)), totals, row, each, pairs=PAIRS)
    each |= {"W_next": f"where(abs({z}) > lambda1, -({z} - sign({z}) * lambda1) / {divisor}, 0)"}
    return RowProgram(Cut(1, W.size), each=each, pairs=PAIRS)


for _type in ("Ftrl", "GFtrl"):
    row_program(leaders[_type], _moved_rows)
