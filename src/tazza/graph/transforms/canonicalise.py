"""Operators that only hand on their input go: Copy, Alias, StopGradient, Dropout in tests, sums of one blob ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tazza.graph.graph import Graph, Node
from tazza.graph.transform import Transform, transform
from tazza.operator import OpView

Rule = Callable[[OpView], bool]


def _always(op: OpView) -> bool:
    del op
    return True


def _single(op: OpView) -> bool:
    return len(op.input_slots) == 1


def _in_tests(op: OpView) -> bool:
    return bool(op.is_test)


def _stacks_nothing(op: OpView) -> bool:
    return _single(op) and not op.add_axis


def _by_one(op: OpView) -> bool:
    return op.scale == 1


HANDS_ON: dict[str, Rule] = {
    "Copy": _always,
    "Alias": _always,
    "EnsureCPUOutput": _always,
    "StopGradient": _always,
    "Dropout": _in_tests,
    "Sum": _single,
    "Concat": _stacks_nothing,
    "Scale": _by_one,
}
"""Operator type -> when its first output equals its first input. Third parties may add theirs."""


@transform("canonicalise", help="remove operators that only hand on their input")
class Canonicalise(Transform):
    """Y = X, and nothing else that anybody looks at: who reads Y reads X."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """One node that hands on its input."""
        del graph
        rule = HANDS_ON.get(node.type)
        return not partial and rule is not None and rule(node.view)

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """The other outputs are not used, and one of the two values can take the other's part."""
        (node,) = match
        others_unused = all(not value.readers and not value.kept for value in node.outputs[1:])
        maker = node.inputs[0].producer
        same_device = maker is None or maker.device == node.device
        return others_unused and same_device and graph.can_merge(node.outputs[0], node.inputs[0])

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Merge the two values."""
        (node,) = match
        graph.remove(node)
        graph.merge(node.outputs[0], node.inputs[0])
