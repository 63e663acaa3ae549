"""GenerateProposals: the boxes that stay are found by compiled code, the rest by NumPy; sizes come out on the way.

A box that stays looks at all behind it, a vector of them at a time, and notes those that cover it too much.
"""

from __future__ import annotations

import numpy as np

from tazza.codegen.block import float_word
from tazza.codegen.emit import Lines
from tazza.codegen.loop import count_loop, each_vector, lanes_of
from tazza.codegen.rows import element, when
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES, native
from tazza.operator import Array, Call, Launch, Operands, OpView, Unsupported
from tazza.ops.vision.box import Boxes
from tazza.ops.vision.generate_proposals import proposals, propose
from tazza.runtime.native import call_native
from tazza.tensor import DataType, TensorSpec
from tazza.tensor.allocation import address_of

FLOAT = DataType.FLOAT
THREADS, COUNT, MOST, THRESHOLD, PLUS, STAYED, X1, Y1, X2, Y2, AREA, GONE, STAY = range(13)
"""Words of the block: numbers, two float64, how many boxes stay by now, and addresses; the coordinates lie apart."""


def write_suppression(lines: Lines) -> None:
    """Write into `stay` the numbers of the boxes that stay; `gone` marks those that do not."""
    v = lanes_of(lines)
    count, most = (lines.load_word("%block", word) for word in (COUNT, MOST))
    corners = [lines.load_pointer("%block", word) for word in (X1, Y1, X2, Y2, AREA)]
    gone, stay = (lines.load_pointer("%block", word) for word in (GONE, STAY))
    threshold, plus = (v.splat(_float(lines, word)) for word in (THRESHOLD, PLUS))
    zero, one = v.constant(0.0), v.constant(1.0)
    stayed = element(lines, "%block", str(STAYED), "i64")

    def look(i: str) -> None:
        number = lines.let(f"load i64, ptr {stayed}")
        lines.do(f"store i64 {i}, ptr {element(lines, stay, number, 'i64')}")
        lines.do(f"store i64 {lines.let(f'add i64 {number}, 1')}, ptr {stayed}")
        own = [v.splat(lines.let(f"load float, ptr {element(lines, each, i)}")) for each in corners]

        def behind(j: str, mask: str | None) -> None:
            x1, y1, x2, y2, area = (v.load(each, j, mask) for each in corners)
            wide = v.add(v.sub(least(own[2], x2), most_of(own[0], x1)), plus)
            high = v.add(v.sub(least(own[3], y2), most_of(own[1], y1)), plus)
            both = v.mul(most_of(wide, zero), most_of(high, zero))
            either = v.sub(v.add(own[4], area), both)
            before = v.load(gone, j, mask)
            marked = v.select(v.compare("ogt", both, v.mul(threshold, either)), one, before)
            marked = v.select(v.compare("oeq", either, zero), one, marked)  # 0 / 0 is not below a threshold either
            v.store(marked, gone, j, mask)

        each_vector(v, lines.let(f"add i64 {i}, 1"), count, behind)

    def least(a: str, b: str) -> str:
        return v.select(v.compare("olt", b, a), b, a)

    def most_of(a: str, b: str) -> str:
        return v.select(v.compare("ogt", b, a), b, a)

    def box(i: str) -> None:
        mark = lines.let(f"load float, ptr {element(lines, gone, i)}")
        there = lines.let(f"fcmp oeq float {mark}, 0.0")
        more = lines.let(f"icmp slt i64 {lines.let(f'load i64, ptr {stayed}')}, {most}")
        when(lines, lines.let(f"and i1 {there}, {more}"), lambda: look(i))

    count_loop(lines, "0", count, box)


def _float(lines: Lines, word: int) -> str:
    """Return a float64 of the block as float32."""
    bits = lines.load_word("%block", word)
    return lines.let(f"fptrunc double {lines.let(f'bitcast i64 {bits} to double')} to float")


def suppress(kind: Boxes, boxes: Array, threshold: float, most: int) -> Array:
    """Return the numbers of upright boxes that stay; see `Suppress`."""
    count, plus = len(boxes), kind.plus
    x1, y1, x2, y2 = np.ascontiguousarray(boxes.T)
    area = (x2 - x1 + plus) * (y2 - y1 + plus)
    gone, stay = np.zeros(count, np.float32), np.empty(count, np.int64)
    words = [1, count, most, float_word(threshold), float_word(float(plus)), 0]
    block = np.array([*words, *map(address_of, (x1, y1, x2, y2, area, gone, stay))], np.int64)
    call_native(SOURCES.compiled("boxes that stay", write_suppression), address_of(block), 0, 0, 0)
    return stay[: block[STAYED]]


@dataclass(frozen=True, slots=True)
class _Launch:
    op: OpView
    scratch_bytes: int = 0
    implementation: str = "suppression compiled"
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        letters = [spec.name for spec in self.op.schema.inputs]
        rois, probs = (operands.sized_by_kernel(letter, FLOAT) for letter in ("rois", "probs"))

        def call() -> None:
            scores, deltas, im_info, anchors = (operands[letter].array for letter in letters)
            propose(self.op, (scores, deltas, im_info, anchors), (rois, probs), suppress)

        return call


@native(*proposals.schemas)
def prepare_generate_proposals(op: OpView, anchors: TensorSpec) -> Launch | Unsupported:
    """Compile the choice among boxes."""
    if anchors.dims is not None and anchors.dims[-1] != 4:
        return Unsupported("it takes boxes with sides along the axes")
    return _Launch(op)
