"""Blobs are emptied as soon as nobody reads them any more, by operators `Free` in the net."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

from tazza.graph.live_range import last_readers
from tazza.operator import SCHEMAS, operator_def
from tazza.ops.control.free import FREE
from tazza.proto import NetDef


def with_release(net: NetDef, keep: Collection[str] = (), wanted: Callable[[str], bool] | None = None) -> NetDef:
    """Return the net with a `Free` behind the last reader of each blob that a run need not keep.

    >>> from tazza.graph.text import parse_net
    >>> net = parse_net("in: x", "out: c", "a = Relu(x)", "b = Relu(a)", "c = Sum(a, b)")
    >>> [f"{op.type} {op.output[0]}" for op in with_release(net).op]
    ['Relu a', 'Relu b', 'Sum c', 'Free a', 'Free b']

    Second names of blobs, and these, stay: where nets of Caffe2 run otherwise, they lie in one memory.

    Args:
        net: stays as it is.
        keep: blobs that stay besides.
        wanted: says of a blob whether it may be emptied.
    """
    stays = {*keep}
    for op in net.op:
        schema = SCHEMAS.get(op.type)
        if schema is not None and schema.second_name:
            stays.update((*op.input, *op.output))
    emptied: defaultdict[int, list[str]] = defaultdict(list)
    for name, position in last_readers(net).items():
        if name not in stays and (wanted is None or wanted(name)):
            emptied[position].append(name)
    made = NetDef()
    made.CopyFrom(net)
    del made.op[:]
    for position, op in enumerate(net.op):
        made.op.append(op)
        made.op.extend(operator_def(FREE.type, [name], [name]) for name in emptied[position])
    return made
