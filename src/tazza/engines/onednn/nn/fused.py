"""FusedConv: a convolution whose epilogue runs inside of the primitive, on what is still in the cache."""

from __future__ import annotations

from tazza.engines.onednn.descriptor import accepts_narrow
from tazza.engines.onednn.estimate import conv_ns
from tazza.engines.onednn.nn.conv import conv_requests
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.search import searched
from tazza.operator import OpView
from tazza.ops.nn.fused import FUSED_CONV
from tazza.tensor import TensorSpec

searched(FUSED_CONV)(conv_requests)


@onednn(FUSED_CONV, empty="zero", accepts=accepts_narrow, estimate_ns=conv_ns)
def fused_conv(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = epilogue(conv(X, W, b), S ...)."""
    return conv_requests(op, specs).best()
