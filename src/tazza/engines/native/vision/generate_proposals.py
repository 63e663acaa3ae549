"""GenerateProposals: the boxes that stay are found by compiled code, the rest by NumPy; sizes come out on the way.

A box that stays looks at all behind it, a vector of them at a time, and notes those that cover it too much.
"""

from __future__ import annotations

import numpy as np

from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, each_vector, lanes_of, when
from tazza.codegen.term import Lines, Term
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES, native
from tazza.operator import Array, Call, Launch, Operands, OpView, Unsupported
from tazza.ops.vision.box import Boxes
from tazza.ops.vision.generate_proposals import proposals, propose
from tazza.runtime.native import call_native
from tazza.tensor import DataType, TensorSpec
from tazza.tensor.allocation import address_of

FLOAT = DataType.FLOAT
BLOCK = Fields("threads count most", own="stayed", doubles="threshold plus", addresses="x1 y1 x2 y2 area gone stay:i64")
"""Boxes, how many may stay and do by now, and addresses; the coordinates lie apart."""


def write_suppression(lines: Lines) -> None:
    """Write into `stay` the numbers of the boxes that stay; `gone` marks those that do not."""
    v = lanes_of(lines)
    at = BLOCK.lazily(lines)
    count, most, gone, stay, stayed = at.count, at.most, at.gone, at.stay, at.address("stayed")
    corners = [at.x1, at.y1, at.x2, at.y2, at.area]
    threshold, plus = v.full(at.threshold), v.full(at.plus)
    zero = v.constant(0.0)

    def look(i: Term) -> None:
        number = stayed.load()
        stay[number] = i
        stayed.store(number + 1)
        own = [v.full(each[i]) for each in corners]

        def behind(j: Term, mask: Term | None) -> None:
            x1, y1, x2, y2, area = (v.load(each, j, mask) for each in corners)
            wide = least(own[2], x2) - most_of(own[0], x1) + plus
            high = least(own[3], y2) - most_of(own[1], y1) + plus
            both = most_of(wide, zero) * most_of(high, zero)
            either = own[4] + area - both
            before = v.load(gone, j, mask)
            marked = (both > threshold * either).choose(1.0, before)
            marked = either.equals(zero).choose(1.0, marked)  # 0 / 0 is not below a threshold either
            v.store(marked, gone, j, mask)

        each_vector(v, i + 1, count, behind)

    def least(a: Term, b: Term) -> Term:
        return (b < a).choose(b, a)

    def most_of(a: Term, b: Term) -> Term:
        return (b > a).choose(b, a)

    def box(i: Term) -> None:
        when(gone[i].equals(0.0) & (stayed.load() < most), lambda: look(i))

    count_loop(lines, 0, count, box)


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
def prepare_generate_proposals(op: OpView, anchors: TensorSpec) -> Launch:
    """Compile the choice among boxes."""
    if anchors.dims is not None and anchors.dims[-1] != 4:
        raise Unsupported("it takes boxes with sides along the axes")
    return _Launch(op)
