"""Nets of bytes out of float32 nets that predict: what the numbers of a net range over, and its operators on bytes.

    init_net, predict_net = quantize_nets(init_net, predict_net, batches)

Four steps, a file each: `unfold` gives every value a name of its own and folds batch normalization into convolutions,
`calibrate` runs the net and watches its values, `rewrite` puts an operator on bytes in the place of each that has one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tazza.interop.init_net import run_init_net
from tazza.interop.int8.calibrate import METHODS, Range, calibrate
from tazza.interop.int8.rewrite import Rewriting
from tazza.interop.int8.unfold import folded, with_own_names
from tazza.proto import NetDef
from tazza.workspace import Workspace

__all__ = ["METHODS", "Range", "calibrate", "quantize_nets"]


def quantize_nets(
    init_net: NetDef,
    predict_net: NetDef,
    batches: Iterable[Mapping[str, Any]],
    *,
    method: str = "min-max",
    keep: Collection[str] = (),
) -> tuple[NetDef, NetDef]:
    """Return nets that compute in bytes what these compute in float32: an init net and a predict net.

    Convolutions with what follows them, sums of two, poolings and fully connected layers get bytes; for all other
    operators numbers become float32 again. Filters get a scale for each output channel.

    Args:
        init_net: makes the parameters.
        predict_net: computes, in test mode.
        batches: what the net may see, as arrays by input; a few hundred images say enough.
        method: how values tell a range, one of `METHODS`: "min-max", or "percentile", which leaves out what is rare.
        keep: outputs of operators that stay float32.

    Raises:
        TazzaError: a net does not run on the batches.
        ArgumentError: no batches, or no such method.
    """
    workspace = Workspace()
    try:
        run_init_net(init_net, workspace, source=f"init net {init_net.name!r}")
        net = with_own_names(predict_net)
        seen = list(batches)
        fed = {name for batch in seen for name in batch}
        parameters = {name: workspace.fetch(name) for name in workspace.blob_names() if name not in fed}
        net, parameters = folded(net, parameters)
        ranges = calibrate(net, parameters, seen, method=method)
        return Rewriting(net, parameters, ranges, keep).nets(init_net)
    finally:
        workspace.reset()
