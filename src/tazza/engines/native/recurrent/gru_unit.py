"""GRUUnit and its gradient, one sequence of the batch after the other; the block begins like that of LSTMUnit."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.codegen.block import accepts_rows
from tazza.codegen.fields import Fields
from tazza.codegen.function import sigmoid, tanh
from tazza.codegen.loop import each_vector, lanes_of
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.device import Context
from tazza.engines.native.recurrent.lstm_unit import HEAD, each_sequence, keep, unit_launch
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.recurrent.gru_unit import GRU_UNIT, GRU_UNIT_GRADIENT

BLOCK = Fields(addresses="H_prev gates H", after=HEAD)
GRADIENT_BLOCK = Fields(addresses="H_prev gates dH dH_prev dgates", after=HEAD)
UPDATE, OUTPUT, KINDS = 1, 2, 3
"""Of gates; the first one, of resetting, is not read."""


@launcher(GRU_UNIT, engine="native", accepts=accepts_rows)
def prepare_gru_unit(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile GRUUnit."""
    del context, outputs
    return unit_launch(op, inputs, BLOCK, _forward)


@launcher(GRU_UNIT_GRADIENT, engine="native", accepts=accepts_rows)
def prepare_gru_unit_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile GRUUnitGradient."""
    del context, outputs
    return unit_launch(op, inputs, GRADIENT_BLOCK, _backward)


def _parts(v: Vector, gates: Term, units: Term, k: Term, mask: Term | None) -> tuple[Term, Term]:
    """Return u and T of some units."""
    return sigmoid(v.load(gates.at(units * UPDATE), k, mask)), tanh(v.load(gates.at(units * OUTPUT), k, mask))


def _forward(lines: Lines, *, ragged: bool, drop: bool) -> None:
    v, at = lanes_of(lines), BLOCK.lazily(lines)
    units, H_prev, gates, H = at.D, at.H_prev, at.gates, at.H

    def within(n: Term) -> None:
        before, after, row = H_prev.at(n * units), H.at(n * units), gates.at(n * (units * KINDS))

        def unit(k: Term, mask: Term | None) -> None:
            u, T = _parts(v, row, units, k, mask)
            h = v.load(before, k, mask)
            v.store(u.fma(h, (1.0 - u) * T), after, k, mask)  # u h + (1 - u) T

        each_vector(v, 0, units, unit)

    each_sequence(lines, ragged, within, lambda n: keep(v, H_prev.at(n * units), H.at(n * units), units, drop))


def _backward(lines: Lines, *, ragged: bool, drop: bool) -> None:
    v, at = lanes_of(lines), GRADIENT_BLOCK.lazily(lines)
    units, H_prev, gates, dH, dH_prev, dgates = at.D, at.H_prev, at.gates, at.dH, at.dH_prev, at.dgates

    def within(n: Term) -> None:
        h, dh, dh_prev = (one.at(n * units) for one in (H_prev, dH, dH_prev))
        row, slopes = gates.at(n * (units * KINDS)), dgates.at(n * (units * KINDS))

        def unit(k: Term, mask: Term | None) -> None:
            (u, T), slope = _parts(v, row, units, k, mask), v.load(dh, k, mask)
            rest = slope * (1.0 - u)  # dH (1 - u)
            update = rest * u * (v.load(h, k, mask) - T)
            thirds = v.constant(0.0), update, rest * (1.0 - T * T)
            v.store(slope * u, dh_prev, k, mask)
            for place, value in enumerate(thirds):
                v.store(value, slopes.at(units * place), k, mask)

        each_vector(v, 0, units, unit)

    def beyond(n: Term) -> None:
        keep(v, dH.at(n * units), dH_prev.at(n * units), units, drop)
        width = units * KINDS
        row = dgates.at(n * width)
        keep(v, row, row, width, drop=True)

    each_sequence(lines, ragged, within, beyond)
