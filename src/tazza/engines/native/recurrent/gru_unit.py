"""GRUUnit and its gradient, one sequence of the batch after the other; the block begins like that of LSTMUnit."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.codegen.block import accepts_rows
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.loop import each_vector, lanes_of
from tazza.codegen.rows import row_at
from tazza.codegen.vector import sigmoid, tanh
from tazza.device import Context
from tazza.engines.native.recurrent.lstm_unit import HEAD, Gates, each_sequence, keep, unit_launch
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.recurrent.gru_unit import GRU_UNIT, GRU_UNIT_GRADIENT

BLOCK = Fields(addresses="H_prev gates H", after=HEAD)
GRADIENT_BLOCK = Fields(addresses="H_prev gates dH dH_prev dgates", after=HEAD)
KINDS = 3
"""Of gates: of resetting, of updating, of the output; the first is not read."""


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


def _parts(v: Vector, gates: Gates, k: str, mask: str | None) -> tuple[str, str]:
    """Return u and T of some units."""
    return sigmoid(v, v.load(gates.kind(1), k, mask)), tanh(v, v.load(gates.kind(2), k, mask))


def _forward(lines: Lines, *, ragged: bool, drop: bool) -> None:
    v, at = lanes_of(lines), BLOCK.read(lines)
    units, H_prev, gates, H = at.D, at.H_prev, at.gates, at.H

    def within(n: str) -> None:
        before, after, row = (
            row_at(lines, H_prev, n, units),
            row_at(lines, H, n, units),
            Gates(v, gates, n, units, KINDS),
        )

        def unit(k: str, mask: str | None) -> None:
            u, T = _parts(v, row, k, mask)
            h = v.load(before, k, mask)
            v.store(v.fma(u, h, v.mul(v.sub(v.constant(1.0), u), T)), after, k, mask)  # u h + (1 - u) T

        each_vector(v, "0", units, unit)

    def beyond(n: str) -> None:
        keep(v, row_at(lines, H_prev, n, units), row_at(lines, H, n, units), units, drop)

    each_sequence(lines, ragged, within, beyond)


def _backward(lines: Lines, *, ragged: bool, drop: bool) -> None:
    v, at = lanes_of(lines), GRADIENT_BLOCK.read(lines)
    units, H_prev, gates, dH, dH_prev, dgates = at.D, at.H_prev, at.gates, at.dH, at.dH_prev, at.dgates

    def within(n: str) -> None:
        h, dh, dh_prev = (row_at(lines, one, n, units) for one in (H_prev, dH, dH_prev))
        row, slopes = Gates(v, gates, n, units, KINDS), Gates(v, dgates, n, units, KINDS)

        def unit(k: str, mask: str | None) -> None:
            (u, T), slope = _parts(v, row, k, mask), v.load(dh, k, mask)
            one = v.constant(1.0)
            rest = v.mul(slope, v.sub(one, u))  # dH (1 - u)
            update = v.mul(v.mul(rest, u), v.sub(v.load(h, k, mask), T))
            thirds = v.constant(0.0), update, v.mul(rest, v.sub(one, v.mul(T, T)))
            v.store(v.mul(slope, u), dh_prev, k, mask)
            for place, value in enumerate(thirds):
                v.store(value, slopes.kind(place), k, mask)

        each_vector(v, "0", units, unit)

    def beyond(n: str) -> None:
        keep(v, row_at(lines, dH, n, units), row_at(lines, dH_prev, n, units), units, drop)
        width = lines.let(f"mul i64 {units}, {KINDS}")
        row = row_at(lines, dgates, n, width)
        keep(v, row, row, width, drop=True)

    each_sequence(lines, ragged, within, beyond)
