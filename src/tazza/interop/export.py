"""Nets that predict, out of nets that train: `init_net` carries the parameters, `predict_net` computes.

The two together are what Caffe2 calls an exported model: `init_net` makes every parameter by a fill operator that holds
its values, and `predict_net` has inputs, then parameters, as external inputs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import BlobTypeError, NetError
from tazza.graph.derivation import net_that_predicts
from tazza.models import Model, Net, given, without_debug_info
from tazza.operator import operator_def
from tazza.proto import NetDef, OperatorDef
from tazza.proto.message import write_message
from tazza.tensor import Tensor
from tazza.workspace import Workspace

PLACEHOLDER_SHAPE = (1, 1)
"""Shape of the zero that an init net puts where the caller will feed an input, so that the blob exists."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A net that predicts, and which blobs it needs and gives."""

    predict_net: NetDef
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]


def predict_part(
    source: Model | Net | NetDef,
    *,
    outputs: Sequence[str] | None = None,
    parameters: Iterable[str] | None = None,
) -> Exported:
    """Return what of a net makes its outputs, with inputs and parameters told apart.

    Args:
        source: what was built. Of a training net only what the outputs need is taken, in test mode and without labels:
            see `net_that_predicts`.
        outputs: blobs to fetch; the declared ones by default.
        parameters: names of the blobs that the init net will make; those of the model by default.

    Raises:
        NetError: there are no outputs, nothing makes one of them, or a bare net comes without its parameters.
        TazzaError: as `net_that_predicts`.
    """
    net = source.net if isinstance(source, Model) else source
    whole = net.export() if isinstance(net, Net) else without_debug_info(net)
    if parameters is None:
        if not isinstance(source, Model):
            raise NetError(
                f"net {whole.name!r} does not know its parameters", hint="pass parameters=[...], or the model"
            )
        parameters = source.parameters
    wanted = tuple(whole.external_output if outputs is None else outputs)
    if not wanted:
        raise NetError(
            f"net {whole.name!r} declares no outputs", hint="pass outputs=[...], or call add_external_output"
        )
    known = frozenset(parameters)
    predict = net_that_predicts(whole, wanted, parameters=known)
    kept = tuple(name for name in predict.external_input if name in known)
    inputs = tuple(name for name in predict.external_input if name not in known)
    del predict.external_input[:]
    predict.external_input.extend([*inputs, *kept])
    return Exported(predict, inputs, wanted, kept)


def parameter_fill(name: str, values: NDArray[Any]) -> OperatorDef:
    """Return the fill operator that makes the blob `name` with these values.

    >>> parameter_fill("w", np.float32([1, 2])).type
    'GivenTensorFill'

    Raises:
        DTypeError: no fill operator carries this type; a predictor file does.
    """
    initializer = given(values)
    return operator_def(initializer.type, (), [name], shape=list(values.shape), **initializer.arguments)


def export_nets(
    source: Model | Net | NetDef,
    workspace: Workspace,
    *,
    outputs: Sequence[str] | None = None,
    parameters: Iterable[str] | None = None,
) -> tuple[NetDef, NetDef]:
    """Return (init_net, predict_net) of a net whose parameters are in a workspace. Arguments as `predict_part`.

    Raises:
        NetError: as `predict_part`.
        NotFoundError, BlobTypeError: a parameter is not there, or no tensor.
        DTypeError: as `parameter_fill`.
    """
    part = predict_part(source, outputs=outputs, parameters=parameters)
    init_net = NetDef(name=f"{part.predict_net.name}_init")
    init_net.op.extend(parameter_fill(name, parameter_value(workspace, name)) for name in part.parameters)
    zero = np.zeros(PLACEHOLDER_SHAPE, np.float32)
    init_net.op.extend(parameter_fill(name, zero) for name in part.inputs)
    return init_net, part.predict_net


def save_nets(
    init_path: str | os.PathLike[str],
    predict_path: str | os.PathLike[str],
    source: Model | Net | NetDef,
    workspace: Workspace,
    *,
    outputs: Sequence[str] | None = None,
    parameters: Iterable[str] | None = None,
) -> None:
    """Write init_net and predict_net to files; text where the suffix says so, see `write_message`.

    Raises:
        FileError: a file cannot be written.
        TazzaError: as `export_nets`.
    """
    init_net, predict_net = export_nets(source, workspace, outputs=outputs, parameters=parameters)
    write_message(init_path, init_net)
    write_message(predict_path, predict_net)


def parameter_value(workspace: Workspace, name: str) -> NDArray[Any]:
    """Return the array that a parameter holds.

    Raises:
        NotFoundError, BlobTypeError: the blob is not there, or holds no tensor with data.
    """
    blob = workspace.blob(name)
    if not isinstance(blob.value, Tensor) or not blob.value.allocated:
        raise BlobTypeError(f"parameter {name!r} holds no values: {blob.describe()}", hint="run the init net first")
    return blob.value.plain()
