"""FusedLSTMUnit: a panel has L units, a vector for each of their gates, which go from the product to the unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows, all_float32
from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, lanes_below
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import Vector
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.native.panel_product import SOURCES
from tazza.engines.native.panel_product.code import PRODUCT, Code, PanelWriter, Tiling, finish
from tazza.engines.native.panel_product.panels import ENGINE, Panels
from tazza.engines.native.panel_product.tile_product import tiled
from tazza.engines.native.recurrent.step_unit import cell
from tazza.operator import LaidOut, OpView, Spec, Unsupported, kernel_key, launcher
from tazza.operator.choice import MADE
from tazza.ops.recurrent.fused_lstm_unit import FUSED_LSTM_UNIT
from tazza.tensor import ROW_MAJOR, TensorSpec

OPERANDS = "b rows H_prev C_prev seq_lengths:i32 timestep:i32 gates H C"
UNITS = Fields("D", doubles="bias", addresses=OPERANDS, after=PRODUCT)
GATES, VECTORS = 4, 2
"""Of a unit, and of a panel."""
LEAST_WEIGHTS = 1 << 16
"""Of smaller ones it does not matter how they are read."""


@launcher(FUSED_LSTM_UNIT, engine=ENGINE, accepts=accepts_rows)
def prepare_fused_lstm_unit(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> LaidOut:
    """Compile gates = X W^T + b + rows, and the unit of them."""
    del context, outputs
    specs = cast("dict[str, TensorSpec]", dict(zip(op.input_letters, inputs, strict=True)))
    X, W, state = specs["X"], specs["W"], specs["H_prev"]
    if not all_float32(X, W, state):
        raise Unsupported(f"it computes in float32, not {X}")
    if X.size == 0 or state.size == 0:
        raise Unsupported("there is nothing to compute")
    if len(W.shape) != 2:
        raise Unsupported(f"W has {len(W.shape)} dimensions, it packs matrices")
    N, D = state.shape[1:]
    tiling = unit_tiling(N, D, X.size // N)
    code = UnitCode(tiling.code, op.has_input("seq_lengths"), bool(op.drop_states))
    launch = unit_launch(tiling, code, op.forget_bias)
    letters = dict.fromkeys((*op.input_letters, *op.output_letters), ROW_MAJOR)
    return LaidOut(launch, {**letters, "W": tiling.panels.layout()})


def unit_tiling(N: int, D: int, K: int) -> Tiling:
    """Return how a step of N sequences is cut."""
    return Tiling(N, Panels(GATES * D, K, VECTORS, GATES, tiled(N, VECTORS, K)))


def unit_launch(tiling: Tiling, code: UnitCode, forget_bias: float) -> BlockLaunch:
    """Return the launch for letters as those of FusedLSTMUnit, with panels W."""
    ragged = {} if code.ragged else {"seq_lengths": 0}
    words = UNITS.words(P=Slot("W"), D=tiling.panels.M // GATES, bias=forget_bias, **tiling.words, **ragged)
    address = SOURCES.compiled(code.description, code.write, finish)
    return BlockLaunch(address, words, tiling.scratch_bytes)


@MADE.registering(kernel_key("FusedLSTMUnit", ENGINE), help="weights that are read from behind the cache of a core")
def takes(op: OpView, inputs: Sequence[Spec | None]) -> bool:
    """Whether the weights are known, and large."""
    W = inputs[op.input_letters.index("W")]
    return isinstance(W, TensorSpec) and all_float32(W) and W.shape_known and W.size >= LEAST_WEIGHTS


@dataclass(frozen=True)
class UnitCode:
    """What tells the code of one kernel from that of another.

    `order` says where the gates of the input, of forgetting, of the output and of the cell stand.
    """

    products: Code
    ragged: bool = False
    drop: bool = False
    order: tuple[int, ...] = (0, 1, 2, 3)

    @property
    def description(self) -> str:
        """A text that only equal codes have."""
        return f"fused lstm unit {self.products} {self.ragged} {self.drop} {self.order}"

    def write(self, lines: Lines) -> None:
        """Write the work of one thread: the units of its panels, for all sequences."""
        _Writer(lines, self).write()


class _Writer(PanelWriter):
    """Writes one kernel."""

    def __init__(self, lines: Lines, code: UnitCode) -> None:
        super().__init__(lines, code.products, UNITS)
        self.unit_code = code
        self.forget_bias = self.w.bias.to("float")
        self.step = self.w.timestep.load()

    def write(self) -> None:
        self.each_panel(_Units(self), self.step.to_unsigned("i64"))


class _Units:
    """What becomes of sums: gates of some sequences, and C and H from the four of a unit."""

    def __init__(self, writer: _Writer) -> None:
        self.writer = writer

    def place(self, panel: Term) -> tuple[Term, Term]:
        """Return the gate of a panel, and its first unit."""
        return panel % GATES, panel // GATES * self.writer.floats

    def put(self, panel: Term, rows: Sequence[Term], sums: Sequence[Sequence[Term]]) -> None:
        """Write gates."""
        v, w = self.writer.v, self.writer.w
        gate, unit = self.place(panel)
        for j in range(len(sums[0])):
            within = unit + j * v.count
            mask, column = lanes_below(v, w.D - within), gate * w.D + within
            for n, values in zip(rows, sums, strict=True):
                at = n * w.D * GATES + column
                y = values[j] + v.load(w.b, column, mask)
                v.store(y + v.load(w.rows, at, mask), w.gates, at, mask)

    def asked(self, panel: Term, row: Term) -> Sequence[tuple[Term, bool]]:
        """Return where gates of a row go, and what is added to them."""
        w, (gate, unit) = self.writer.w, self.place(panel)
        at = (row * GATES + gate) * w.D + unit
        return [(w.gates.at(at), True), (w.rows.at(at), False)]

    def end(self, panel: Term, first: Term, height: Number) -> None:
        """Write C and H, all vectors of a panel at once: each has to wait for itself at every step of its formula."""
        writer, w = self.writer, self.writer.w
        wide = Vector(writer.lines, writer.floats)
        unit = self.place(panel)[1]
        mask = lanes_below(wide, w.D - unit)
        bias = wide.full(writer.forget_bias)

        def one(n: Term) -> None:
            row = n * w.D
            gates, at = row * GATES + unit, row + unit
            four = [wide.load(w.gates, gates + w.D * k, mask) for k in writer.unit_code.order]
            found = cell(four, bias, wide.load(w.C_prev, at, mask))
            for letter, value in zip("CH", found, strict=True):
                wide.store(self.kept(wide, n, at, letter, value, mask), w[letter], at, mask)

        count_loop(writer.lines, first, first + height, one)

    def kept(self, v: Vector, n: Term, at: Term, letter: str, value: Term, mask: Term) -> Term:
        """Return a new state, or what a sequence keeps that has ended."""
        writer, code = self.writer, self.writer.unit_code
        if not code.ragged:
            return value
        before = v.constant(0.0) if code.drop else v.load(writer.w[f"{letter}_prev"], at, mask)
        on = (writer.step < writer.w.seq_lengths[n]).choose(v.all_set, False)
        return on.choose(value, before)
