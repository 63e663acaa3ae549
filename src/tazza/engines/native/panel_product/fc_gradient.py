"""FCGradient by tile registers: dW = dY^T X and db, then dX = dY W, each with its second factor in split panels.

Letters as in `ops.nn.fc`. Panels are packed in each run, into scratch memory; the first factor is split by who
multiplies it. dY^T is dY with its rows as columns, and its rows are summed up as they are split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

from tazza.codegen.block import Scratch, Slot, Word, accepts_rows, all_float32
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.native.panel_product.code import Tiling
from tazza.engines.native.panel_product.fc import VECTORS, ProductCode, product_launch
from tazza.engines.native.panel_product.panels import ENGINE, Panels, pack_launch
from tazza.engines.native.panel_product.tile_product import tiled
from tazza.operator import LaidOut, Launch, LaunchChain, OpView, Spec, Unsupported, launcher
from tazza.operator.kernel import Offered
from tazza.ops.nn.fc import FC_GRADIENT
from tazza.runtime.machine import machine
from tazza.tensor import ROW_MAJOR, TensorSpec
from tazza.tensor.offer import Offer

LEAST_FLOPS = 1 << 27
"""Of a product: smaller ones gain less than packing takes."""

PACKING_PASSES = 2.0
"""How often packing goes over panels, with what they are made of."""


@launcher(FC_GRADIENT, engine=ENGINE, accepts=accepts_rows)
def prepare_fc_gradient(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Offered:
    """Compile dW, db and dX."""
    del context
    letters = (*op.input_letters, *op.output_letters)
    specs = cast("dict[str, TensorSpec]", dict(zip(letters, (*inputs, *outputs), strict=True)))
    if not all_float32(*specs.values()):
        raise Unsupported("it computes in float32")
    if op.batch_invariant:
        raise Unsupported("tile registers sum up in another order, where rows shall be the same in every batch")
    M = specs["db"].size
    N, K = specs["dY"].size // max(M, 1), specs["W"].size // max(M, 1)
    if 2 * N * M * K < LEAST_FLOPS:
        raise Unsupported(f"{N} x {M} x {K} products are too few to pack for")
    found = list(products(N, M, K, data="dX" in specs))
    for one in found:
        if not tiled(one.rows, VECTORS, one.summed):
            raise Unsupported(f"tile registers multiply no {one.rows} rows of {one.summed} elements, or there are none")
    made = partial(_laid_out, letters, found)
    return Offer(made, estimate_ns=sum(one.estimate_ns for one in found))


def _laid_out(letters: Sequence[str], found: Sequence[Product]) -> LaidOut:
    launches = tuple(launch for one in found for launch in one.launches)
    return LaidOut(LaunchChain(launches), dict.fromkeys(letters, ROW_MAJOR))


@dataclass(frozen=True)
class Product:
    """Y (rows, columns) of `X` (rows, summed) and a second factor whose rows, `summed` of them, lie as they come.

    `turned`: the first factor lies as (summed, rows), and gives sums of rows too.
    """

    rows: int
    columns: int
    summed: int
    factors: tuple[str, str]
    target: str
    turned: bool = False

    @property
    def tiling(self) -> Tiling:
        """How it is cut."""
        return Tiling(self.rows, Panels(self.columns, self.summed, VECTORS, split=True), self.turned)

    @property
    def estimate_ns(self) -> float:
        """How long it takes: panels are packed in each run."""
        packing_ns = PACKING_PASSES * self.tiling.panels.nbytes / machine().memory_bytes_per_ns
        return packing_ns + self.tiling.alone_ns / self.tiling.threads

    @property
    def launches(self) -> Iterator[Launch]:
        """What packs the second factor, and multiplies."""
        tiling, panels = self.tiling, Scratch()
        yield pack_launch(tiling.panels, (1, self.columns), Slot(self.factors[1]), panels)
        words: dict[str, Word] = {"X": Slot(self.factors[0]), "P": panels, "Y": Slot(self.target)}
        words |= {"b": Slot("db") if self.turned else 0, "room": Scratch(-(-tiling.panels.nbytes // 64) * 64)}
        yield product_launch(tiling, ProductCode(tiling.code, biased=False), words)


def products(N: int, M: int, K: int, *, data: bool) -> Iterator[Product]:
    """Yield those of dW and db, and of dX where it is asked for."""
    yield Product(M, K, N, ("dY", "X"), "dW", turned=True)
    if data:
        yield Product(N, K, M, ("dY", "W"), "dX")
