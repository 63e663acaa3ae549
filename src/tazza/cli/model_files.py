"""What a path on the command line stands for: nets, or a predictor file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

import tazza
from tazza.data_class import dataclass
from tazza.errors import ArgumentError, FileError
from tazza.graph.inference import infer_net
from tazza.images.files import SUFFIXES
from tazza.interop import Predictor, PredictorFile
from tazza.interop.chosen_inputs import check_inputs, choose_inputs
from tazza.interop.model_folder import INIT, NET_SUFFIXES, PREDICT, find_nets, init_beside
from tazza.interop.predictor_file import ROLES
from tazza.operator import Spec
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tazza.runtime.files import kind_of, shown


@dataclass(frozen=True, slots=True)
class Loading:
    """What the user says of a model: its inputs where they are not those that the files tell, device, trust."""

    inputs: Sequence[str] = ()
    device: str | None = None
    trust: bool = False

    def with_inputs(self, extents: Mapping[str, object] | None) -> Loading:
        """Return this with the inputs that a folder tells, where the user says none."""
        return self if extents is None or self.inputs else replace(self, inputs=tuple(extents))


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a model: a net, beside it one that makes its parameters if there is one; or a predictor file."""

    main: Path
    init: Path | None
    is_net: bool
    loading: Loading = field(default_factory=Loading)

    def load(self, *, outputs: Sequence[str] | None = None) -> Predictor:
        """Return what runs the model; `outputs` are those that it declares by default.

        Raises:
            FileError: a net comes without the one that makes its parameters.
            TazzaError: as `tazza.load`.
        """
        said = self.loading
        files: tuple[Path | NetDef, ...] = (self.main,) if self.init is None else (self.init, self.main)
        if self.is_net and self.init is None:
            self._check_no_parameters()
            files = (NetDef(), self.main)
        return tazza.load(*files, inputs=said.inputs or None, outputs=outputs, device=said.device, trust=said.trust)

    def _check_no_parameters(self) -> None:
        """Check that a net without an init net reads nothing but inputs: those that the user names, or a single one."""
        read = list(dict.fromkeys(read_message(self.main, NetDef).external_input))
        others = [name for name in read if name not in self.inputs]
        if others and len(read) > 1:
            raise FileError(
                f"there is no '{self.main.with_name(INIT)}' beside '{self.main}', which makes {others[0]!r}",
                hint="name it with --init-net; a net that reads nothing but its inputs needs none: name each of "
                f"{', '.join(read)} with --input",
            )

    @property
    def inputs(self) -> Sequence[str]:
        """The inputs that the user names; none where he leaves it to the files."""
        return self.loading.inputs


def find_model(path: Path, init_net: Path | None, loading: Loading | None = None) -> ModelFiles:
    """Tell what lies at a path.

    Raises:
        FileError: nothing, or a folder without a model.
    """
    said = Loading() if loading is None else loading
    if kind_of(path) is None:
        raise FileError(
            f"{shown(path)} does not exist", hint="name a net, a predictor file, or a folder with both nets"
        )
    if kind_of(path) == "folder" and kind_of(path / "data.mdb") is None:
        found = find_nets(path)
        init = found.init if init_net is None else init_net
        return ModelFiles(found.main, init, is_net=found.init is not None, loading=said.with_inputs(found.inputs))
    if path.suffix.lower() in SUFFIXES:
        raise ArgumentError(f"{shown(path)} is an image, and the model comes first", hint="tazza predict MODEL IMAGES")
    if path.suffix not in NET_SUFFIXES:
        return ModelFiles(path, None, is_net=False, loading=said)
    if init_net is None and path.name == INIT and kind_of(path.with_name(PREDICT)) == "file":
        raise ArgumentError(
            f"{shown(path)} makes the parameters of '{path.with_name(PREDICT)}'", hint="name that net, or their folder"
        )
    init = init_beside(path) if init_net is None else init_net
    return ModelFiles(path, init, is_net=True, loading=said)


@dataclass(frozen=True, slots=True)
class Described:
    """A net, the specs of the parameters that it comes with, and those of inputs where the file says them."""

    net: NetDef
    parameters: Mapping[str, Spec]
    inputs: Mapping[str, Spec]


def describe(files: ModelFiles) -> Described:
    """Return a net and what is known of its blobs; no operator is made.

    Raises:
        ArgumentError: the user names an input that the net does not read.
        TazzaError: a file is missing or broken.
    """
    described = _describe_nets(files) if files.is_net else _describe_predictor(files)
    check_inputs(described.net, files.inputs)
    return described


def _describe_nets(files: ModelFiles) -> Described:
    net = read_message(files.main, NetDef)
    if files.init is None:
        return Described(net, {}, {})
    init = read_message(files.init, NetDef)
    chosen = choose_inputs(init, net, files.inputs or None)
    made = _outputs(init)
    parameters = {name: spec for name, spec in made.items() if name not in chosen.names}
    return Described(net, parameters, {name: made[name] for name in chosen.examples if name in made})


def _describe_predictor(files: ModelFiles) -> Described:
    file = PredictorFile.read(files.main)
    taken = files.inputs if files.inputs else file.blobs(ROLES.INPUTS_BLOB_TYPE)
    listed = file.blobs(ROLES.PARAMETERS_BLOB_TYPE)
    parameters: dict[str, Spec] = {
        name: spec for name, spec in file.specs().items() if name in listed and name not in taken
    }
    prepared = file.find_net(ROLES.PREDICT_INIT_NET_TYPE)
    known = {} if prepared is None else _outputs(prepared)
    return Described(
        file.net(ROLES.PREDICT_NET_TYPE), parameters, {name: known[name] for name in taken if name in known}
    )


def _outputs(net: NetDef) -> dict[str, Spec]:
    return {
        name: spec
        for made in infer_net(net, {}, only_declared=True)
        for name, spec in zip(made.definition.output, made.outputs, strict=True)
        if spec is not None
    }
