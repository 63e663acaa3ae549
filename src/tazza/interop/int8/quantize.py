"""From nets in float32 to nets of bytes: watched once, written as often as methods and layers are tried."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.interop.init_net import run_init_net
from tazza.interop.int8.calibrate import Batch, Seen, Told, nobody, ranges_of, watch
from tazza.interop.int8.method import Range
from tazza.interop.int8.rewrite import ByteForm, Rewriting
from tazza.interop.int8.unfold import folded, with_own_names
from tazza.operator import check_trust
from tazza.operator.trust import RUN
from tazza.proto import NetDef
from tazza.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Quantized:
    """Nets of bytes, and what they came from.

    Args:
        init_net: makes filters and biases of bytes, and parameters of what stays float32.
        predict_net: computes.
        net: the float32 net in which each name is written once and normalizations are folded; its blobs are compared.
        parameters: those of `net`.
        forms: which bytes stand for a blob of `net`, by its name.
        ranges: what its blobs range over.
        kept: why operators stayed float32, by their first output.
    """

    init_net: NetDef
    predict_net: NetDef
    net: NetDef
    parameters: Mapping[str, NDArray[Any]]
    forms: Mapping[str, ByteForm]
    ranges: Mapping[str, Range]
    kept: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A float32 net and what was seen of its blobs: nets of bytes by any method, without another look at data."""

    init_net: NetDef
    net: NetDef
    parameters: Mapping[str, NDArray[Any]]
    seen: Mapping[str, Seen]

    def quantized(self, *, method: str = "min-max", weights: str = "channel", keep: Collection[str] = ()) -> Quantized:
        """Return nets of bytes.

        Args:
            method: how what was seen tells a range, one of `METHODS`: "min-max", "percentile", "entropy".
            weights: "channel" gives filters a scale for each output channel, "tensor" one for all of them: nets that
                Caffe2 runs too.
            keep: outputs of operators that stay float32.

        Raises:
            ArgumentError: no such method or scaling, or no operator makes what is to be kept.
        """
        ranges = ranges_of(self.seen, method)
        made = Rewriting(self.net, self.parameters, ranges, weights=weights, keep=keep)
        init, predict = made.nets(self.init_net)
        return Quantized(init, predict, self.net, self.parameters, made.bytes, ranges, made.kept)


def watch_nets(
    init_net: NetDef,
    predict_net: NetDef,
    batches: Iterable[Batch],
    *,
    told: Told = nobody,
    trust: bool = False,
) -> Calibrated:
    """Run a float32 net on batches, one after the other, and return what was seen.

    Args:
        init_net: makes the parameters.
        predict_net: computes, in test mode.
        batches: what the net may see, as arrays by input; gone through once, one batch held at a time.
        told: hears how many batches are done.
        trust: let the nets read and write files and databases.

    Raises:
        TrustError: a net would do what nets from files may not.
        TazzaError: a net does not run on the batches.
        ArgumentError: no batches.
    """
    source = f"predict net {predict_net.name!r}"
    check_trust(predict_net, RUN, source=source, trust=trust)
    first, rest = _first(iter(batches))
    workspace = Workspace()
    try:
        run_init_net(init_net, workspace, source=f"init net {init_net.name!r}", trust=trust)
        parameters = {name: workspace.fetch(name) for name in workspace.blob_names() if name not in first}
    finally:
        workspace.reset()
    net, values = folded(with_own_names(predict_net), parameters)
    return Calibrated(init_net, net, values, watch(net, values, chain([first], rest), told=told))


def _first(batches: Iterator[Batch]) -> tuple[Batch, Iterator[Batch]]:
    first = next(batches, None)
    if first is None:
        raise ArgumentError("no batches to calibrate with", hint="give some of what the net will see")
    return first, batches


def quantize_nets(
    init_net: NetDef,
    predict_net: NetDef,
    batches: Iterable[Batch],
    *,
    method: str = "min-max",
    weights: str = "channel",
    keep: Collection[str] = (),
) -> tuple[NetDef, NetDef]:
    """Return nets that compute in bytes what these compute in float32: an init net and a predict net.

    Convolutions with what follows them, sums of two, poolings and fully connected layers get bytes; for all other
    operators numbers become float32 again. Arguments are those of `watch_nets` and `Calibrated.quantized`; a few
    hundred images say enough.

    Raises:
        TazzaError: a net does not run on the batches, or may not.
        ArgumentError: no batches, or no such method.

    >>> import numpy as np
    >>> from tazza.operator import operator_def
    >>> fill = operator_def("GivenTensorFill", [], ["w"], shape=[1, 2], values=[1.0, -1.0])
    >>> init = NetDef(op=[fill, operator_def("ConstantFill", [], ["b"], shape=[1])])
    >>> predict = NetDef(op=[operator_def("FC", ["x", "w", "b"], ["y"])], external_output=["y"])
    >>> _, small = quantize_nets(init, predict, [{"x": np.eye(2, dtype=np.float32)}])
    >>> [op.type for op in small.op]
    ['Int8Quantize', 'Int8FC', 'Int8Dequantize']
    """
    made = watch_nets(init_net, predict_net, batches).quantized(method=method, weights=weights, keep=keep)
    return made.init_net, made.predict_net
