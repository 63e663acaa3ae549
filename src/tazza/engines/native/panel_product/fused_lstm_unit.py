"""FusedLSTMUnit: a panel has L units, a vector for each of their gates, which go from the product to the unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows, all_float32
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, lanes_below
from tazza.codegen.rows import element
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.native.panel_product import SOURCES
from tazza.engines.native.panel_product.code import PRODUCT, Code, PanelWriter, Tiling, finish
from tazza.engines.native.panel_product.panels import ENGINE, Panels
from tazza.engines.native.panel_product.tile_product import tiled
from tazza.engines.native.recurrent.lstm_unit import cell
from tazza.operator import LaidOut, OpView, Spec, Unsupported, kernel_key, launcher
from tazza.operator.choice import MADE
from tazza.ops.recurrent.fused_lstm_unit import FUSED_LSTM_UNIT
from tazza.tensor import ROW_MAJOR, TensorSpec

OPERANDS = "b rows H_prev C_prev seq_lengths timestep gates H C"
UNITS = Fields("D", doubles="bias", addresses=OPERANDS, after=PRODUCT)
GATES, VECTORS = 4, 2
"""Of a unit, and of a panel."""
LEAST_WEIGHTS = 1 << 16
"""Of smaller ones it does not matter how they are read."""


@launcher(FUSED_LSTM_UNIT, engine=ENGINE, accepts=accepts_rows)
def prepare_fused_lstm_unit(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> LaidOut | Unsupported:
    """Compile gates = X W^T + b + rows, and the unit of them."""
    del context, outputs
    specs = cast("dict[str, TensorSpec]", dict(zip(op.input_letters, inputs, strict=True)))
    X, W, state = specs["X"], specs["W"], specs["H_prev"]
    if not all_float32(X, W, state):
        return Unsupported(f"it computes in float32, not {X}")
    if X.size == 0 or state.size == 0:
        return Unsupported("there is nothing to compute")
    if len(W.shape) != 2:
        return Unsupported(f"W has {len(W.shape)} dimensions, it packs matrices")
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
        self.forget_bias = lines.let(f"fptrunc double {self.w.bias} to float")
        self.step = lines.let(f"load i32, ptr {self.w['timestep']}")

    def write(self) -> None:
        self.each_panel(_Units(self), self.lines.let(f"zext i32 {self.step} to i64"))

    def goes_on(self, v: Vector, n: str) -> str:
        """Return the mask of a sequence: whether the step lies within it."""
        lines = self.lines
        length = lines.let(f"load i32, ptr {element(lines, self.w['seq_lengths'], n, 'i32')}")
        on = lines.let(f"icmp slt i32 {self.step}, {length}")
        return lines.let(f"select i1 {on}, {v.mask} {v.all_set}, {v.mask} zeroinitializer")


class _Units:
    """What becomes of sums: gates of some sequences, and C and H from the four of a unit."""

    def __init__(self, writer: _Writer) -> None:
        self.writer = writer

    def place(self, panel: str) -> tuple[str, str]:
        """Return the gate of a panel, and its first unit."""
        writer = self.writer
        return writer.rem(panel, GATES), writer.mul(writer.div(panel, GATES), writer.floats)

    def put(self, panel: str, rows: Sequence[str], sums: Sequence[Sequence[str]]) -> None:
        """Write gates."""
        writer, v, w = self.writer, self.writer.v, self.writer.w
        gate, unit = self.place(panel)
        for j in range(len(sums[0])):
            within = writer.add(unit, j * v.count)
            mask, column = lanes_below(v, writer.sub(w["D"], within)), writer.add(writer.mul(gate, w["D"]), within)
            for n, values in zip(rows, sums, strict=True):
                at = writer.add(writer.mul(writer.mul(n, w["D"]), GATES), column)
                y = v.add(values[j], v.load(w["b"], column, mask))
                v.store(v.add(y, v.load(w["rows"], at, mask)), w["gates"], at, mask)

    def asked(self, panel: str, row: str) -> Sequence[tuple[str, bool]]:
        """Return where gates of a row go, and what is added to them."""
        writer, w = self.writer, self.writer.w
        (gate, unit), D = self.place(panel), w["D"]
        at = writer.add(writer.mul(writer.add(writer.mul(row, GATES), gate), D), unit)
        return [(element(writer.lines, w["gates"], at), True), (element(writer.lines, w["rows"], at), False)]

    def end(self, panel: str, first: str, height: str | int) -> None:
        """Write C and H, all vectors of a panel at once: each has to wait for itself at every step of its formula."""
        writer, w, lines = self.writer, self.writer.w, self.writer.lines
        wide = Vector(lines, writer.floats)
        unit = self.place(panel)[1]
        mask = lanes_below(wide, writer.sub(w["D"], unit))
        bias = wide.splat(writer.forget_bias)

        def one(n: str) -> None:
            row = writer.mul(n, w["D"])
            gates, at = writer.add(writer.mul(row, GATES), unit), writer.add(row, unit)
            four = [
                wide.load(w["gates"], writer.add(gates, writer.mul(w["D"], k)), mask) for k in writer.unit_code.order
            ]
            found = cell(wide, four, bias, wide.load(w["C_prev"], at, mask))
            for letter, value in zip("CH", found, strict=True):
                wide.store(self.kept(wide, n, at, letter, value, mask), w[letter], at, mask)

        count_loop(lines, first, writer.add(first, height), one)

    def kept(self, v: Vector, n: str, at: str, letter: str, value: str, mask: str) -> str:
        """Return a new state, or what a sequence keeps that has ended."""
        writer, code = self.writer, self.writer.unit_code
        if not code.ragged:
            return value
        before = v.constant(0.0) if code.drop else v.load(writer.w[f"{letter}_prev"], at, mask)
        return v.select(writer.goes_on(v, n), value, before)
