"""Int8Add and its kin: A and B scaled and added, the rest as post-ops: C = clip((s_A A + s_B B) / s_C + beta)."""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor, accepts_dense
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Eltwise, PostOp, describe
from tazza.engines.onednn.quantized.scaled import Scaling, meaning_of
from tazza.operator import LaidOut, OpView
from tazza.ops.quantized.int8_add import int8_add_relus, int8_adds, int8_sum_relu
from tazza.tensor import TensorSpec


@onednn(*int8_adds.schemas, *int8_add_relus.schemas, accepts=accepts_dense)
def int8_add(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """C = A + B in the layout of A."""
    a, b, c = (meaning_of(specs[letter]) for letter in "ABC")
    beta = c.zero_point - (a.scale * a.zero_point + b.scale * b.zero_point) / c.scale
    post_ops: list[PostOp] = [Eltwise("eltwise_linear", 1 / c.scale, beta)]
    if int8_sum_relu(op):
        post_ops.append(Eltwise("eltwise_clip", max(c.zero_point, 0), 255))
    scaling = Scaling(tuple(post_ops))
    scaling.scale("src_0", a.scale)
    scaling.scale("src_1", b.scale)
    lies = Descriptor.of(specs["A"])
    found = describe("binary", "binary_add", lies, lies, lies, attributes=scaling.attributes).unless_slow
    arguments = {"src_0": "A", "src_1": "B", "dst": "C", **scaling.arguments}
    return LaidOut(PrimitiveLaunch(found, arguments), dict.fromkeys("ABC", specs["A"].layout))
