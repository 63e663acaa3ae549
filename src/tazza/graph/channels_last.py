"""Convolutions of a wiring compute with channels innermost; all that others read lies as before.

Each of their images and filters is turned once, whoever reads it, and each result is turned back.
"""

from __future__ import annotations

from tazza.graph.wiring import WiredBlob, Wiring, move_inputs
from tazza.operator import make_argument
from tazza.ops.nn.conv import CONVS
from tazza.proto import OperatorDef

TURNED_INPUTS = 2
"""X and W; b is a vector."""


def channels_last(wiring: Wiring) -> None:
    """Rewire the convolutions whose channels come behind the batch.

    >>> from tazza.graph.text import parse_net
    >>> wiring = Wiring.of(parse_net("y = Conv(x, W; kernel=3)"))
    >>> channels_last(wiring)
    >>> [op.type for op in wiring.to_net().op]
    ['NCHW2NHWC', 'NCHW2NHWC', 'Conv', 'NHWC2NCHW']
    """
    turned: dict[WiredBlob, WiredBlob] = {}
    for node in wiring.sequence():
        if node.name != CONVS[0].type or _order(node.definition) != "NCHW":
            continue
        for blob in node.sources[:TURNED_INPUTS]:
            if blob not in turned:
                turned[blob] = wiring.add_blob(wiring.free_name(blob.name))
                turn = wiring.add_operator(OperatorDef(type="NCHW2NHWC"))
                wiring.join(blob, turn)
                wiring.join(turn, turned[blob])
        (result,) = node.targets
        turned[result] = wiring.add_blob(wiring.free_name(result.name))
        back = wiring.add_operator(OperatorDef(type="NHWC2NCHW"))
        definition = OperatorDef()
        definition.CopyFrom(node.definition)
        del definition.arg[:]
        definition.arg.extend(argument for argument in node.definition.arg if argument.name != "order")
        definition.arg.append(make_argument("order", "NHWC"))
        conv = wiring.add_operator(definition)
        move_inputs(node, conv)
        for place, blob in enumerate(conv.sources[:TURNED_INPUTS]):
            blob.targets.remove(conv)
            conv.sources[place] = turned[blob]
            turned[blob].targets.append(conv)
        wiring.remove(node)
        wiring.join(conv, turned[result])
        wiring.join(turned[result], back)
        wiring.join(back, result)


def _order(definition: OperatorDef) -> str:
    return next((argument.s.decode() for argument in definition.arg if argument.name == "order"), "NCHW").upper()
