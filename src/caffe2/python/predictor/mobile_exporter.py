"""Pairs of nets: one that makes the parameters, one that predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from caffe2.proto import caffe2_pb2
from caffe2.python import core
from tazza.interop.export import PLACEHOLDER_SHAPE, parameter_fill
from tazza.proto import NetDef


def add_tensor(net: NetDef, name: str, blob: NDArray[Any]) -> None:
    """Add to a net the fill that makes a blob with these values."""
    net.op.append(parameter_fill(name, blob))


def Export(workspace: Any, net: Any, params: Any) -> tuple[NetDef, NetDef]:
    """Return the net that makes parameters, and inputs to be overwritten, and the net that predicts."""
    proto = net if isinstance(net, caffe2_pb2.NetDef) else net.Proto()
    ssa, versions = core.get_ssa(net)
    read = {name for inputs, _ in ssa for name, _ in inputs}
    known = list(map(str, params))
    inputs = [name for name, version in versions.items() if version == 0 and name not in known]
    outputs = [name for name, version in versions.items() if version != 0 and name not in read]
    init, predict = NetDef(), NetDef()
    for name in known:
        add_tensor(init, name, workspace.FetchBlob(name))
    for name in inputs:
        add_tensor(init, name, np.zeros(PLACEHOLDER_SHAPE, np.float32))
    predict.CopyFrom(proto)
    predict.external_input[:] = dict.fromkeys([*inputs, *proto.external_input])
    predict.external_output[:] = outputs
    return init, predict
