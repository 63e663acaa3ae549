"""What a path on the command line stands for: nets, or a predictor file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tazza
from tazza.errors import FileError
from tazza.graph.inference import infer_net
from tazza.interop import Predictor, PredictorFile
from tazza.interop.init_net import placeholders
from tazza.interop.predictor_file import ROLES
from tazza.operator import Spec
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tazza.runtime.files import kind_of, shown
from tazza.tensor import Tensor

NET_SUFFIXES = frozenset({".pb", ".pbtxt", ".prototxt", ".txt"})
PREDICT, INIT = "predict_net.pb", "init_net.pb"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a model: a net, beside it one that makes its parameters if there is one; or a predictor file."""

    main: Path
    init: Path | None
    is_net: bool

    def load(self) -> Predictor:
        """Return what runs the model.

        Raises:
            FileError: a net comes without the one that makes its parameters.
            TazzaError: as `tazza.load`.
        """
        if not self.is_net:
            return tazza.load(self.main)
        if self.init is None:
            raise FileError(
                f"there is no '{self.main.with_name(INIT)}' beside '{self.main}'", hint="name it with --init-net"
            )
        return tazza.load(self.init, self.main)


def find_model(path: Path, init_net: Path | None) -> ModelFiles:
    """Tell what lies at a path.

    Raises:
        FileError: nothing, or a folder without a model.
    """
    if kind_of(path) is None:
        raise FileError(
            f"{shown(path)} does not exist", hint="name a net, a predictor file, or a folder with both nets"
        )
    if kind_of(path) == "folder" and kind_of(path / PREDICT) is not None:
        path = path / PREDICT
    if kind_of(path) == "folder" and kind_of(path / "data.mdb") is None:
        raise FileError(f"folder '{path}' has no {PREDICT}", hint="name the file of the net")
    if path.suffix not in NET_SUFFIXES:
        return ModelFiles(path, None, is_net=False)
    beside = path.with_name(INIT)
    found = beside if path.name == PREDICT and kind_of(beside) is not None else None
    return ModelFiles(path, found if init_net is None else init_net, is_net=True)


@dataclass(frozen=True, slots=True)
class Described:
    """A net, the specs of the parameters that it comes with, and those of inputs where the file says them."""

    net: NetDef
    parameters: Mapping[str, Spec]
    inputs: Mapping[str, Spec]


def describe(files: ModelFiles) -> Described:
    """Return a net and what is known of its blobs.

    Raises:
        TazzaError: a file is missing or broken.
    """
    if not files.is_net:
        return _describe_predictor(files.main)
    net = read_message(files.main, NetDef)
    if files.init is None:
        return Described(net, {}, {})
    init = read_message(files.init, NetDef)
    fed = placeholders(init, net)
    return Described(net, {name: spec for name, spec in _outputs(init).items() if name not in fed}, {})


def _describe_predictor(path: Path) -> Described:
    file = PredictorFile.read(path)
    with tazza.load(path) as predictor:
        blobs = ((name, predictor.workspace.blob(name).value) for name in file.blobs(ROLES.PARAMETERS_BLOB_TYPE))
        parameters: dict[str, Spec] = {name: value.spec for name, value in blobs if isinstance(value, Tensor)}
    prepared = file.find_net(ROLES.PREDICT_INIT_NET_TYPE)
    known = {} if prepared is None else _outputs(prepared)
    inputs = {name: known[name] for name in file.blobs(ROLES.INPUTS_BLOB_TYPE) if name in known}
    return Described(file.net(ROLES.PREDICT_NET_TYPE), parameters, inputs)


def _outputs(net: NetDef) -> dict[str, Spec]:
    return {
        name: spec
        for made in infer_net(net, {})
        for name, spec in zip(made.definition.output, made.outputs, strict=True)
        if spec is not None
    }
