"""Updates whose step length all elements share, from the sum of squares of all gradients: Wngrad, Storm, and of rows.

W are the parameters, dW their gradient, lr (1) the learning rate; the last state (1) is what the length comes from:

    Wngrad    W' = W + lr / (b + epsilon) dW;    b' = b + sum of dW^2 / (b + epsilon), of rows: / b
    Storm     s' = s + sum of dW^2;    n = lr (beta + s')^(-1/3);    a = momentum n^2
              M' = dW + (1 - a) (M - dW);    W' = W + n M'

They add, so lr is negative. Of rows, `indices` (K, of any shape) picks those that the K rows of dW belong to; an index
that stands there several times is updated as often, in turn, all with the same length.

Sources: Wu, Ward, Bottou 2018, arXiv 1803.02865, algorithm 1; Cutkosky, Orabona 2019, arXiv 1905.10018, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

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
    kernel,
    row_program,
    schema,
)
from tazza.ops.optimizer.rows import INDICES, carried, occurrences, require_rows
from tazza.ops.optimizer.update import LR, NO_GRADIENT
from tazza.ops.shape.axis import require_as_many, require_one_element
from tazza.ops.sparse.segment import check_rows
from tazza.tensor import TensorSpec

EPSILON = (arg("epsilon", float, 1e-5, doc="added to b where it divides"),)
MOMENTUM = (
    arg("momentum", float, 10.0, doc="of a: how fast M forgets"),
    arg("beta", float, 0.1, doc="added to s before the root"),
)
W = blob("W", FLOAT, role=Role.PARAMETER)
M = blob("M", FLOAT, role=Role.STATE, doc="running gradient")
DW = blob("dW", FLOAT)
B = blob("b", FLOAT, role=Role.STATE, doc="of one element: inverse of the length, before lr")
S = blob("s", FLOAT, role=Role.STATE, doc="of one element: sum of the squares of all gradients")

WNGRAD = schema(
    "Wngrad",
    """W_next = W + lr / (b + epsilon) * dW, b_next = b + sum of dW^2 / (b + epsilon).

    rate = lr / (b + epsilon) and step = rate * dW are outputs if asked for.""",
    inputs=[W, B, DW, LR],
    outputs=[
        blob("W_next", like="W"),
        blob("b_next", like="b"),
        blob("rate", like="b", optional=True),
        blob("step", like="dW", optional=True),
    ],
    args=EPSILON,
    in_place={"W_next": "W", "b_next": "b"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Wu, Ward, Bottou 2018",
    example="""
    >>> run("Wngrad", [1.0, 2.0], [2.0], [2.0, 4.0], [-1.0], epsilon=0.0, outputs=2)
    (array([0., 0.], dtype=float32), array([12.], dtype=float32))
    """,
)

SPARSE_WNGRAD = schema(
    "SparseWngrad",
    "As Wngrad, for the rows that `indices` picks; b_next = b + sum of dW^2 / b.",
    inputs=[W, B, INDICES, DW, LR],
    outputs=[blob("W_next", like="W"), blob("b_next", like="b")],
    args=EPSILON,
    must_in_place={"W_next": "W", "b_next": "b"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Wu, Ward, Bottou 2018",
    example="""
    >>> W, b = np.array([[1.0], [2.0]], np.float32), np.array([2.0], np.float32)
    >>> run("SparseWngrad", W, b, [1], [[4.0]], [-1.0], epsilon=0.0)
    (array([[1.],
           [0.]], dtype=float32), array([10.], dtype=float32))
    """,
)

STORM = schema(
    "Storm",
    """With s_next = s + sum of dW^2, n = lr * (beta + s_next)^(-1/3) and a = momentum * n^2:

    M_next = dW + (1 - a) * (M - dW), W_next = W + n * M_next.""",
    inputs=[W, M, S, DW, LR],
    outputs=[blob("W_next", like="W"), blob("M_next", like="M"), blob("s_next", like="s")],
    args=MOMENTUM,
    in_place={"W_next": "W", "M_next": "M", "s_next": "s"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Cutkosky, Orabona 2019",
    example="""
    >>> [one.round(4) for one in run("Storm", [1.0], [0.0], [4.0], [2.0], [-2.0], momentum=1.0, beta=0.0, outputs=3)]
    [array([-1.], dtype=float32), array([2.], dtype=float32), array([8.], dtype=float32)]
    """,
)

SPARSE_STORM = schema(
    "SparseStorm",
    "As Storm, for the rows of W and M that `indices` picks.",
    inputs=[W, M, S, DW, INDICES, LR],
    outputs=[blob("W_next", like="W"), blob("M_next", like="M"), blob("s_next", like="s")],
    args=MOMENTUM,
    must_in_place={"W_next": "W", "M_next": "M", "s_next": "s"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Cutkosky, Orabona 2019",
    example="""
    >>> W, M, s = (np.array(value, np.float32) for value in ([[1.0], [5.0]], [[0.0], [0.0]], [4.0]))
    >>> run("SparseStorm", W, M, s, [[2.0]], [0], [-2.0], momentum=1.0, beta=0.0)[0][:, 0]
    array([-1.,  5.], dtype=float32)
    """,
)


def _declare(declared: OpSchema, flops: int) -> None:
    """Give an operator its shapes, and its cost: so many operations for each element of dW."""
    alone = next(letter for letter in ("b", "s") if letter in declared.inputs_by_letter)

    @declared.infer
    def infer(op: OpView, **specs: TensorSpec) -> tuple[TensorSpec, ...]:
        for letter in (alone, "lr"):
            require_one_element(op, letter, specs[letter].dims)
        if "M" in specs:
            require_as_many(op, "W", specs["W"].dims, M=specs["M"].dims)
        if "indices" in specs:
            require_rows(op, specs["W"], specs["indices"], specs["dW"])
        else:
            require_as_many(op, "W", specs["W"].dims, dW=specs["dW"].dims)
        like = (str(op.schema.outputs_by_letter[letter].like) for letter in op.output_letters)
        return tuple(TensorSpec(specs[letter].dims, specs[letter].dtype) for letter in like)

    @declared.cost
    def cost(op: OpView, dW: TensorSpec, **others: TensorSpec) -> Cost:
        states = 2 if "M" in others else 1
        read = (1 + states) * dW.nbytes + (others["indices"].nbytes if "indices" in others else 0)
        return Cost(flops * dW.size, read, states * dW.nbytes, dW.nbytes)


for one, work in ((WNGRAD, 5), (SPARSE_WNGRAD, 5), (STORM, 7), (SPARSE_STORM, 7)):
    _declare(one, work)


def _squares(dW: Array) -> np.float32:
    return np.float32(np.square(dW, dtype=np.float32).sum(dtype=np.float32))


def _number(array: Array) -> np.float32:
    return np.float32(array.reshape(()))


@kernel(WNGRAD)
def wngrad(
    op: OpView,
    W: Array,
    b: Array,
    dW: Array,
    lr: Array,
    W_next: Array,
    b_next: Array,
    rate: Array | None,
    step: Array | None,
) -> None:
    divisor = _number(b) + np.float32(op.epsilon)
    length, more = _number(lr) / divisor, _squares(dW) / divisor
    moved = length * dW
    W_next[...] = W + moved.reshape(W.shape)
    b_next[...] = b + more
    if rate is not None:
        rate[...] = length
    if step is not None:
        step[...] = moved


SQUARES = {"squares": Total("sum", "dW * dW")}


def _wngrad(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    rows = {"length": "lr / (b + epsilon)", "b_next": "b + squares / (b + epsilon)", "rate": "lr / (b + epsilon)"}
    each = {"W_next": "W + length * dW", "step": "length * dW"}
    wanted = {"length", *op.output_letters}
    return RowProgram(
        Cut(1, specs["W"].size),
        SQUARES,
        {name: text for name, text in rows.items() if name in wanted},
        {letter: text for letter, text in each.items() if letter in wanted},
        {"lr": "one", "b": "one"},
    )


row_program(WNGRAD, _wngrad)


@kernel(SPARSE_WNGRAD)
def sparse_wngrad(
    op: OpView, W: Array, b: Array, indices: Array, dW: Array, lr: Array, W_next: Array, b_next: Array
) -> None:
    length = _number(lr) / (_number(b) + np.float32(op.epsilon))
    at = indices.reshape(-1)
    check_rows(op, at, len(W), "indices")
    rows = dW.reshape(at.size, *W.shape[1:])
    carried(W, W_next)
    for places in occurrences(at):
        W_next[at[places]] += length * rows[places]
    b_next[...] = b + _squares(dW) / _number(b) if dW.size else b


def _lengths(op: OpView, s: Array, dW: Array, lr: Array) -> tuple[np.float32, np.float32, np.float32]:
    """Return s_next, n and a."""
    after = _number(s) + _squares(dW)
    n = _number(lr) * np.float32(np.power(np.float32(op.beta) + after, np.float32(-1 / 3)))
    return after, n, np.float32(op.momentum) * n * n


@kernel(STORM)
def storm(
    op: OpView, W: Array, M: Array, s: Array, dW: Array, lr: Array, W_next: Array, M_next: Array, s_next: Array
) -> None:
    after, n, a = _lengths(op, s, dW, lr)
    own = dW.reshape(M.shape)
    M_next[...] = own + (1 - a) * (M - own)
    W_next[...] = W + (n * M_next).reshape(W.shape)
    s_next[...] = after


def _storm(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    row = {
        "s_next": "s + squares",
        "n": f"lr * pow(beta + s_next, {float(np.float32(-1 / 3))})",
        "a": "momentum * n * n",
    }
    moved = "(dW + (1 - a) * (M - dW))"
    each = {"M_next": moved, "W_next": f"W + n * {moved}"}
    return RowProgram(Cut(1, specs["W"].size), SQUARES, row, each, {"lr": "one", "s": "one"})


row_program(STORM, _storm)


@kernel(SPARSE_STORM)
def sparse_storm(
    op: OpView,
    W: Array,
    M: Array,
    s: Array,
    dW: Array,
    indices: Array,
    lr: Array,
    W_next: Array,
    M_next: Array,
    s_next: Array,
) -> None:
    after, n, a = _lengths(op, s, dW, lr)
    at = indices.reshape(-1)
    check_rows(op, at, len(W), "indices")
    rows, changed = dW.reshape(at.size, *W.shape[1:]), carried(M, M_next).reshape(W.shape)
    carried(W, W_next)
    for places in occurrences(at):
        picked, own = at[places], rows[places]
        changed[picked] = own + (1 - a) * (changed[picked] - own)
        W_next[picked] += n * changed[picked]
    s_next[...] = after
