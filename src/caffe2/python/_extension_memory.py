"""Names that blobs share, as the extension gave them to Python; `tazza.graph.recycling` is what they stand on."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from caffe2.python._extension_workspace import message
from tazza.proto import NetDef


def memonger_compute_blob_recycling_for_dag(
    arg0: bytes,
    arg1: Sequence[str],
    arg2: Sequence[int],
    arg3: Collection[str],
    arg4: str,
    arg5: Collection[str],
    arg6: Mapping[str, Sequence[int]],
) -> bytes:
    """Return a net in which blobs share names, and operators can run as parallel as they could.

    Args:
        arg0: the net.
        arg1: blobs where it begins: what does not follow from them keeps out of it.
        arg2: positions of the operators whose outputs get new names.
        arg3: blobs that take part; those that other operators make keep their names, and lend their memory.
        arg4: stands in front of new names.
        arg5: blobs that keep out of it.
        arg6: shapes; with them memory counts, without them the number of names.
    """
    from tazza.graph.recycling import behind, recycle

    net = message(NetDef, arg0)
    taking = set(arg3) - set(arg5)
    reached = set(arg2).intersection(behind(net, arg1))
    blobs = {name for position in reached for name in net.op[position].output} & taking
    sizes = {name: math.prod(shape) for name, shape in arg6.items()} if arg6 else None
    return recycle(net, blobs, hosts=taking - blobs, prefix=arg4, sizes=sizes).net.SerializeToString()


def memonger_optimize_inference_net(arg0: bytes, arg1: Sequence[str]) -> bytes:
    """Return a net that runs its operators in order, in which all blobs but these share names; others as they are."""
    from tazza.graph.recycling import recycle

    net = message(NetDef, arg0)
    if net.type not in {"", "simple"}:
        return net.SerializeToString()
    blobs = {name for op in net.op for name in op.output}.difference(arg1)
    return recycle(net, blobs, in_order=True).net.SerializeToString()
