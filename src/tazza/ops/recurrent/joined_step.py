"""A step net with operators that stand for several: what an LSTM does in a step becomes one FusedLSTMUnit.

    y = FC(X, W, b); y = Sum(y, rows); H, C = LSTMUnit(H_prev, C_prev, y ...)    ->    y, H, C = FusedLSTMUnit(X ...)

Every blob holds afterwards what it would hold without, to rounding. It is done where some engine gains by it, as its
judge says when it sees what a step begins with (`operator.choice.MADE`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tazza.data_class import dataclass
from tazza.device import place_of
from tazza.operator import find_schema, operator_def
from tazza.operator.choice import takes_operator
from tazza.operator.schema import Spec
from tazza.ops.recurrent.recurrence import Link
from tazza.proto import NetDef, OperatorDef

STEP_RANK = 3
"""Of what a unit reads: (1, N, D)."""


@dataclass(frozen=True, slots=True)
class _Product:
    """An FC, and the Sum behind it that overwrites its result."""

    layer: OperatorDef
    sums: str
    rows: str

    @classmethod
    def of(cls, layer: OperatorDef, add: OperatorDef) -> _Product | None:
        """Return the two as one; None where they are no such pair."""
        if layer.type != "FC" or add.type != "Sum" or len(add.input) != 2 or len(layer.input) != 3:
            return None
        op = find_schema("FC").view(layer)
        sums = layer.output[0]
        others = [name for name in add.input if name != sums]
        if (op.axis, op.axis_w) != (STEP_RANK - 1, 1) or list(add.output) != [sums] or len(others) != 1:
            return None
        return None if sums in layer.input else cls(layer, sums, others[0])


def joined(net: NetDef, links: Sequence[Link], spec_of: Callable[[str], Spec | None]) -> NetDef:
    """Return a step net with operators that stand for several; the net itself where there are none.

    Args:
        net: one step.
        links: of its blobs.
        spec_of: what a blob holds before the first step, None where that is not known.
    """
    ops: list[OperatorDef] = []
    place = 0
    lies = {link.internal: link for link in links}
    while place < len(net.op):
        made = _unit(net.op[place : place + 3], lies)
        if made is not None and _gains(made, spec_of):
            ops.append(made)
            place += 3
        else:
            ops.append(net.op[place])
            place += 1
    if len(ops) == len(net.op):
        return net
    found = NetDef()
    found.CopyFrom(net)
    del found.op[:]
    found.op.extend(ops)
    return found


def _unit(ops: Sequence[OperatorDef], lies: Mapping[str, Link]) -> OperatorDef | None:
    """Return the one operator that three stand for; None where they are no step of an LSTM."""
    if [op.type for op in ops] != ["FC", "Sum", "LSTMUnit"] or not _alike(ops):
        return None
    product, unit = _Product.of(ops[0], ops[1]), find_schema("LSTMUnit").view(ops[2])
    if product is None:
        return None
    given = dict(zip(unit.input_letters, ops[2].input, strict=True))
    ends = [given[letter] for letter in ("seq_lengths", "timestep") if letter in given]
    inputs = [*product.layer.input, product.rows, given["H_prev"], given["C_prev"], *ends]
    outputs = [product.sums, *ops[2].output]
    if given["gates"] != product.sums or not _apart(inputs, outputs, lies):
        return None
    made = operator_def("FusedLSTMUnit", inputs, outputs)
    made.arg.extend(ops[2].arg)
    made.name = ops[2].name
    made.device_option.CopyFrom(ops[2].device_option)
    made.debug_info = ops[2].debug_info
    return made


def _alike(ops: Sequence[OperatorDef]) -> bool:
    """Whether operators stand on one device, and none asks for an engine or waits for another."""
    return all(op.device_option == ops[0].device_option and not op.engine and not op.control_input for op in ops)


def _apart(inputs: Sequence[str], outputs: Sequence[str], lies: Mapping[str, Link]) -> bool:
    """Whether no output overwrites an input or another output: by its name, or on rows of the same blob."""

    def meet(one: str, other: str) -> bool:
        a, b = lies.get(one), lies.get(other)
        if a is None or b is None or a.external != b.external:
            return one == other
        return a.offset < b.offset + b.window and b.offset < a.offset + a.window

    pairs = [(name, other) for name in outputs for other in (*inputs, *outputs) if other is not name]
    return not any(meet(*pair) for pair in pairs) and len(set(outputs)) == len(outputs)


def _gains(made: OperatorDef, spec_of: Callable[[str], Spec | None]) -> bool:
    op = find_schema(made.type).view(made)
    return takes_operator(op, [spec_of(name) for name in made.input], place_of(made.device_option).kind)
