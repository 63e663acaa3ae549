"""InferenceLSTM: for each layer and direction of it, the product of all steps at once, and then a unit a step.

Letters as in `ops.recurrent.inference_lstm`. What a step gives is written where it stays: h of a layer in rows of Y, or
of memory like that, c in `cell_last`. Weights are packed in each run, since they may have been written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from tazza.codegen.block import accepts_rows, all_float32
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.native.panel_product.code import Tiling
from tazza.engines.native.panel_product.fc import VECTORS, ProductCode, product_launch
from tazza.engines.native.panel_product.fused_lstm_unit import GATES, UnitCode, unit_launch, unit_tiling
from tazza.engines.native.panel_product.panels import ENGINE, Panels, pack_launch
from tazza.engines.native.panel_product.tile_product import tiled
from tazza.operator import Array, Call, Launch, Operands, OpView, Spec, Unsupported, launcher
from tazza.operator.kernel import CallChain
from tazza.ops.recurrent.inference_lstm import INFERENCE_LSTM, directions
from tazza.tensor import CPUPlace, DataType, Tensor, TensorSpec

ORDER = (0, 1, 3, 2)
"""Where the gates of the input, of forgetting, of the output and of the cell stand here."""


@launcher(INFERENCE_LSTM, engine=ENGINE, accepts=accepts_rows)
def prepare_inference_lstm(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    """Compile the products and units of all layers."""
    del context, outputs
    X, state = (cast("TensorSpec", spec) for spec in inputs[:2])
    if not all_float32(*inputs):
        raise Unsupported(f"it computes in float32, not {X}")
    if X.size == 0 or state.size == 0:
        raise Unsupported("there is nothing to compute")
    first, second, F = X.shape
    T, B = (second, first) if op.batch_first else (first, second)
    return StackLaunch(T, B, F, state.shape[2], op.num_layers, directions(op), op.has_biases, op.batch_first)


@dataclass(frozen=True, slots=True)
class StackLaunch:
    """The launch for these extents."""

    T: int
    B: int
    F: int
    H: int
    layers: int
    directions: int
    biases: bool
    batch_first: bool
    capturable: bool = False

    @property
    def scratch_bytes(self) -> int:
        """What its products need, one after the other."""
        widths = {self.F} if self.layers == 1 else {self.F, self.directions * self.H}
        return max(tiling.scratch_bytes for K in widths for tiling in self._tilings(K))

    def bind(self, operands: Operands) -> Call:
        """Return the calls of all layers in a row."""
        return CallChain(tuple(self._calls(operands)))

    def _tilings(self, K: int) -> tuple[Tiling, Tiling]:
        """Return how the product of all steps of a layer is cut, of K elements each, and how a step is."""
        rows = self.T * self.B
        product = Tiling(rows, Panels(GATES * self.H, K, VECTORS, split=tiled(rows, VECTORS, K)))
        return product, unit_tiling(self.B, self.H, self.H)

    def _calls(self, operands: Operands) -> Iterator[Call]:
        T, B, D, H = self.T, self.B, self.directions, self.H
        comes, Y = operands["X"], operands["Y"]
        if self.batch_first:
            given, comes = comes.array.swapaxes(0, 1), _room(T, B, self.F)
            yield _copy(given, comes.array)
        for layer in range(self.layers):
            plain = layer + 1 == self.layers and not self.batch_first
            goes = Y if plain else _room(T, B, D * H)
            for side in range(D):
                steps = goes if D == 1 else _room(T, B, H)
                yield from self._direction(operands, layer * D + side, comes, steps, back=side > 0)
                if D > 1:
                    yield _copy(steps.array, goes.array[:, :, side * H : (side + 1) * H])
            comes = goes
        if self.batch_first:
            yield _copy(comes.array.swapaxes(0, 1), Y.array)

    def _direction(self, operands: Operands, state: int, comes: Tensor, goes: Tensor, *, back: bool) -> Iterator[Call]:
        """Yield the calls of one direction of a layer, which writes (T, B, H)."""
        T, B, H, K, gates = self.T, self.B, self.H, int(comes.shape[2]), GATES * self.H
        each = 4 if self.biases else 2
        w_in, w_hidden, *biases = cast("tuple[Tensor, ...]", operands.tensors["W"])[state * each : (state + 1) * each]
        b_in, b_hidden = biases if self.biases else (_zeros(gates),) * 2
        product, unit = self._tilings(K)

        def bound(launch: Launch, **tensors: Tensor) -> Call:
            return launch.bind(replace(operands, tensors=tensors))

        rows, made = _room(T, B, gates), _room(1, B, gates)
        packed: list[Tensor] = []
        for weights, tiling in ((w_in, product), (w_hidden, unit)):
            packed.append(_room(tiling.panels.layout().nbytes // 4))
            yield bound(pack_launch(tiling.panels, (int(weights.shape[1]), 1)), X=weights, Y=packed[-1])
        code = ProductCode(product.code)
        yield bound(product_launch(product, code), X=comes, W=packed[0], b=b_in, Y=rows)
        launch = unit_launch(unit, UnitCode(unit.code, order=ORDER), 0.0)
        states = {name: operands[name].view((B, H), offset=state * B * H) for name in ("hidden", "cell", "cell_last")}
        h, c = states["hidden"], states["cell"]
        for number, t in enumerate(reversed(range(T)) if back else range(T)):
            now = goes.view((B, H), offset=t * B * H)
            ends = {"gates": made, "H": now, "C": states["cell_last"], "timestep": _number(number)}
            row = rows.view((B, gates), offset=t * B * gates)
            yield bound(launch, X=h, W=packed[1], b=b_hidden, rows=row, H_prev=h, C_prev=c, **ends)
            h, c = now, states["cell_last"]
        yield _copy(h.array, operands["hidden_last"].array[state])


def _room(*dims: int) -> Tensor:
    """Return memory that lives as long as the calls."""
    made = Tensor(dims, DataType.FLOAT, CPUPlace())
    made.reserve()
    return made


def _zeros(count: int) -> Tensor:
    made = _room(count)
    made.array[...] = 0
    return made


def _number(value: int) -> Tensor:
    made = Tensor((1,), DataType.INT32, CPUPlace())
    made.reserve()
    made.array[...] = value
    return made


def _copy(source: Array, target: Array) -> Call:
    return lambda: np.copyto(target, source)
