"""FC and FusedFC: Y = epilogue(X W^T + b), with W in panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from tazza.codegen.block import BlockLaunch, Scratch, Slot, Word, accepts_rows, all_float32
from tazza.codegen.fields import Fields
from tazza.codegen.function import finished
from tazza.codegen.loop import lanes_below
from tazza.codegen.term import Lines, Number, Term
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.native.panel_product import SOURCES
from tazza.engines.native.panel_product.code import PRODUCT, Code, PanelWriter, Tiling, finish
from tazza.engines.native.panel_product.panels import ENGINE, Panels
from tazza.engines.native.panel_product.tile_product import tiled
from tazza.operator import Expression, LaidOut, OpView, Spec, Unsupported, launcher
from tazza.operator.kernel import Offered
from tazza.ops.nn.fc import FC
from tazza.ops.nn.fused import FUSED_FC, epilogue_of
from tazza.tensor import ROW_MAJOR, TensorSpec
from tazza.tensor.offer import Offer
from tazza.tensor.residue import residue_bytes

VECTORS = 2
"""Of a panel."""
FC_WORDS: Mapping[str, Word] = {"X": Slot("X"), "P": Slot("W"), "b": Slot("b"), "Y": Slot("Y")}
"""Where the letters of a product lie."""
LEAST_WEIGHTS = 1 << 19
"""Elements of weights that do not stay in the cache of a core from one run to the next; others gain little."""


def prepare_fc(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Offered:
    """Compile Y = epilogue(X W^T + b, S ...)."""
    del context
    if not all_float32(*inputs, *outputs):
        raise Unsupported("it computes in float32")
    X, W, b, Y = (cast("TensorSpec", spec) for spec in (*inputs[:3], outputs[0]))
    if X.size == 0 or Y.size == 0:
        raise Unsupported("there is nothing to compute")
    if len(W.shape) != 2 or W.shape[0] != b.size:
        raise Unsupported(f"W has the shape {W.shape}, it packs matrices of a row for each output")
    if W.size < LEAST_WEIGHTS:
        raise Unsupported(f"W has {W.size} elements, which stay in the cache of a core")
    N, K = Y.size // b.size, W.shape[1]
    # Tile registers sum up in another order: where rows shall be the same in every batch, no number of them decides.
    tiling = Tiling(N, Panels(b.size, K, VECTORS, split=not op.batch_invariant and tiled(N, VECTORS, K)))
    held = tiling.panels.nbytes + residue_bytes(W.size) - W.nbytes if tiling.panels.split else 0
    return Offer(partial(_laid_out, op, tiling), estimate_ns=tiling.estimate_ns, nbytes=held)


def _laid_out(op: OpView, tiling: Tiling) -> LaidOut:
    fused = "epilogue" in op.schema.args
    code = ProductCode(tiling.code, epilogue_of(op) if fused else None, op.operands if fused else 0)
    letters = dict.fromkeys((*op.input_letters, *op.output_letters), ROW_MAJOR)
    return LaidOut(product_launch(tiling, code), {**letters, "W": tiling.panels.layout()})


def product_launch(tiling: Tiling, code: ProductCode, given: Mapping[str, Word] = FC_WORDS) -> BlockLaunch:
    """Return the launch that writes Y of X, the panels P, b and the S; where these lie, `given` says.

    Where it says so of room too, that lies within scratch memory of which others need what is before it.
    """
    words: dict[str, Word] = {
        **tiling.words,
        **given,
        "M": tiling.panels.M,
        **{f"S{i}": Slot("S", i) for i in range(code.operands)},
    }
    address = SOURCES.compiled(code.description, code.write, finish)
    room = words["room"]
    before = room.offset if isinstance(room, Scratch) else 0
    return BlockLaunch(address, code.fields.words(**words), before + tiling.scratch_bytes)


@dataclass(frozen=True)
class ProductCode:
    """What tells the code of one kernel from that of another.

    A product of turned X has no biases: what is called b gets the sums of its rows, and `biased` tells of others.
    """

    products: Code
    epilogue: Expression | None = None
    operands: int = 0
    biased: bool = True

    @property
    def description(self) -> str:
        """A text that only equal codes have."""
        follows = "" if self.epilogue is None else self.epilogue.text()
        return f"panel product {self.products} {self.operands} {self.biased} {follows}"

    @property
    def fields(self) -> Fields:
        """The words of its block."""
        return Fields("M", addresses=" ".join(("b", "Y", *(f"S{i}" for i in range(self.operands)))), after=PRODUCT)

    def write(self, lines: Lines) -> None:
        """Write the work of one thread: the outputs of its panels, for all rows."""
        writer = PanelWriter(lines, self.products, self.fields)
        outputs, w = _Outputs(writer, self), writer.w
        # Steps of recurrent nets have their X one behind the other, so that every second one goes back.
        turn = w.X.as_integer() // (w.N * w.K * 4)
        writer.each_panel(outputs, turn, outputs.put_row_sums if self.products.turned else None)


class _Outputs:
    """What becomes of sums: outputs of some rows."""

    def __init__(self, writer: PanelWriter, code: ProductCode) -> None:
        self.writer, self.code = writer, code

    def put(self, panel: Term, rows: Sequence[Term], sums: Sequence[Sequence[Term]]) -> None:
        """Write outputs."""
        writer, v, w, code = self.writer, self.writer.v, self.writer.w, self.code
        start = panel * writer.floats
        places = [start + j * v.count for j in range(code.products.vectors)]
        masks = [lanes_below(v, w.M - place) for place in places]
        for n, values in zip(rows, sums, strict=True):
            row = n * w.M
            for place, mask, value in zip(places, masks, values, strict=True):
                at = row + place
                y = value + v.load(w.b, place, mask) if code.biased else value
                others = [v.load(w[f"S{i}"], at, mask) for i in range(code.operands)]
                v.store(finished(v, code.epilogue, y, others), w.Y, at, mask)

    def asked(self, panel: Term, row: Term) -> Sequence[tuple[Term, bool]]:
        """Return where outputs of a row go, and what an epilogue reads for them."""
        w, names = self.writer.w, ("Y", *(f"S{i}" for i in range(self.code.operands)))
        at = row * w.M + panel * self.writer.floats
        return [(w[name].at(at), name == "Y") for name in names]

    def put_row_sums(self, first: Term, total: Term, goes_on: Term) -> None:
        """Write, or add to, the sums of rows of X from the first one on."""
        v, w = self.writer.v, self.writer.w
        mask = lanes_below(v, w.N - first)
        before = goes_on.choose(v.load(w.b, first, mask), 0)
        v.store(before + total, w.b, first, mask)

    def end(self, panel: Term, first: Term, height: Number) -> None:
        """There is nothing more."""


for _schema in (FC, FUSED_FC):
    launcher(_schema, engine=ENGINE, accepts=accepts_rows, batch_invariant=True)(prepare_fc)
