"""Operators that compute as an accelerator did, joined with those that quantize what they read and give.

Nothing runs such nets here: the accelerator's operators were in no wheel of Caffe2, and tazza has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from caffe2.proto.caffe2_pb2 import NetDef, OperatorDef
from tazza.operator import find_argument
from tazza.operator.definition import make_argument

__all__ = ["NetDef", "fakeFp16FuseOps"]

DEQUANTIZE, QUANTIZE = "Int8DequantizeNNPI", "Int8QuantizeNNPI"


@dataclass(frozen=True)
class Fusion:
    """What an operator becomes together with its neighbours."""

    fused: str
    dequantizes: bool = False
    """Whether it takes the place of the operator before it as well; its own arguments are lost then."""


FUSIONS = {
    "SwishFakeFp16NNPI": Fusion("SwishFakeInt8NNPI", dequantizes=True),
    "TanhFakeFp16NNPI": Fusion("TanhQuantFakeFp16NNPI"),
    "LayerNormFakeFP16NNPI": Fusion("LayerNormInt8QuantizeFakeNNPI"),
}


def fakeFp16FuseOps(net: NetDef) -> NetDef:
    """Return a net in which an operator is one with the quantization behind it, where nobody else reads its output."""
    replaced: dict[int, OperatorDef | None] = {}
    for match in _matches(net):
        places = sorted(at for at, op in enumerate(net.op) if any(op is one for one in match.operators))
        replaced |= dict.fromkeys(places) | {places[0]: match.made}
    made = NetDef()
    made.CopyFrom(net)
    del made.op[:]
    made.op.extend(op for at, old in enumerate(net.op) if (op := replaced.get(at, old)) is not None)
    return made


@dataclass(frozen=True)
class _Fused:
    operators: Sequence[OperatorDef]
    made: OperatorDef


def _matches(net: NetDef) -> Iterator[_Fused]:
    readers = Counter(name for op in net.op for name in op.input)
    makers = {name: op for op in net.op for name in op.output}
    for last in net.op:
        middle = makers.get(last.input[0]) if last.type == QUANTIZE else None
        fusion = FUSIONS.get(middle.type) if middle is not None else None
        if middle is None or fusion is None or readers[last.input[0]] != 1:
            continue
        if not fusion.dequantizes:
            yield _Fused([middle, last], _joined(fusion.fused, middle, last, list(middle.input)))
            continue
        first = makers.get(middle.input[0])
        if first is not None and first.type == DEQUANTIZE and readers[middle.input[0]] == 1:
            bare = OperatorDef(output=middle.output)
            yield _Fused([first, middle, last], _joined(fusion.fused, bare, last, list(first.input)))


def _joined(type: str, middle: OperatorDef, last: OperatorDef, inputs: Sequence[str]) -> OperatorDef:
    made = OperatorDef(type=type, input=inputs, output=[*last.output, *middle.output[1:]], arg=middle.arg)
    scale, zero = find_argument(last, "Y_scale"), find_argument(last, "Y_zero_point")
    made.arg.append(make_argument("Y_scale", -1.0 if scale is None else scale.f))
    made.arg.append(make_argument("Y_zero_point", -1 if zero is None else zero.i))
    return made
