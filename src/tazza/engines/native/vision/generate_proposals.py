"""GenerateProposals: the boxes that stay are found by compiled code, the rest by NumPy; sizes come out on the way.

A box that stays looks at all behind it, a vector of them at a time, and notes those that cover it too much.
"""

from __future__ import annotations

import numpy as np

from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
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
BLOCK = Fields("threads count most", own="stayed", doubles="threshold plus", addresses="x1 y1 x2 y2 area gone stay")
"""Boxes, how many may stay and do by now, and addresses; the coordinates lie apart."""


def write_suppression(lines: Lines) -> None:
    """Write into `stay` the numbers of the boxes that stay; `gone` marks those that do not."""
    v = lanes_of(lines)
    at = BLOCK.read(lines)
    count, most, gone, stay, stayed = at.count, at.most, at.gone, at.stay, at.address("stayed")
    corners = [at.x1, at.y1, at.x2, at.y2, at.area]
    threshold, plus = v.of_double(at.threshold), v.of_double(at.plus)
    zero, one = v.constant(0.0), v.constant(1.0)

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


def suppress(kind: Boxes, boxes: Array, threshold: float, most: int) -> Array:
    """Return the numbers of upright boxes that stay; see `Suppress`."""
    count, plus = len(boxes), kind.plus
    x1, y1, x2, y2 = np.ascontiguousarray(boxes.T)
    area = (x2 - x1 + plus) * (y2 - y1 + plus)
    stay = np.empty(count, np.int64)
    arrays = {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "area": area, "gone": np.zeros(count, np.float32), "stay": stay}
    addresses = {name: address_of(array) for name, array in arrays.items()}
    words = BLOCK.words(threads=1, count=count, most=most, threshold=threshold, plus=float(plus), **addresses)
    block = np.array(words, np.int64)
    call_native(SOURCES.compiled("boxes that stay", write_suppression), address_of(block), 0, 0, 0)
    return stay[: block[BLOCK.place("stayed")]]


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
