"""A folder with the files of a model: which one is which, by the names that people give them.

An init net and a predict net share a name but for the word that tells them apart: `init_net.pb` and `predict_net.pb`,
`squeezenet_init_net.pb` and `squeezenet_predict_net.pb`, `model_init.pb` and `model.pb`, binary or text. Of several
pairs the one with nothing else in its name counts; otherwise the user chooses. `value_info.json`, which the translator
of ONNX writes, tells the inputs with their shapes: `{"data": [1, [1, 3, 224, 224]]}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tazza.data_class import dataclass
from tazza.errors import FileError, FormatError, TazzaError
from tazza.runtime.files import AnyPath, kind_of, names_in, read_json, shown
from tazza.tensor import DataType, TensorSpec

INIT, PREDICT = "init_net.pb", "predict_net.pb"
"""What nets are written as."""
NET_SUFFIXES = (".pb", ".pbtxt", ".prototxt", ".txt")
"""What the files of nets end in; of two that are called alike the first counts."""
DATABASE_SUFFIXES = (".minidb", ".predictor")
VALUE_INFO = "value_info.json"
INFO_BYTES_MAX = 1 << 20
_WORD = re.compile(r"[a-zA-Z]+|\d+")
_ROLE_WORDS = frozenset({"init", "predict", "net", "param", "exec"})


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The files of a model: two nets, or a predictor file alone; and the inputs where the folder tells them."""

    main: Path
    init: Path | None = None
    inputs: Mapping[str, TensorSpec] | None = None


def find_nets(folder: AnyPath) -> ModelFolder:
    """Return the model that lies in a folder.

    Raises:
        FileError: there is none, half of one, or several.
        FormatError: `value_info.json` is broken.
    """
    place = Path(folder)
    names = [name for name in names_in(place) if kind_of(place / name) == "file"]
    pairs = _pairs(names)
    if "" in pairs:
        pairs = {"": pairs[""]}
    if len(pairs) == 1:
        init, main = next(iter(pairs.values()))
        return ModelFolder(place / main, place / init, read_value_info(place / VALUE_INFO))
    if pairs:
        told = "; ".join(f"{init} and {main}" for init, main in pairs.values())
        raise FileError(f"{shown(folder)} has {len(pairs)} models: {told}", hint="name the two files of one")
    databases = [name for name in names if Path(name).suffix in DATABASE_SUFFIXES]
    if len(databases) == 1:
        return ModelFolder(place / databases[0])
    raise FileError(_what_is_missing(folder, names), hint="name the files of its nets")


def init_beside(net: Path) -> Path | None:
    """Return the init net that lies beside a predict net and is called like it; None: there is none."""
    folder = net.parent
    pairs = _pairs([name for name in names_in(folder) if kind_of(folder / name) == "file"])
    return next((folder / init for init, main in pairs.values() if main == net.name), None)


def read_value_info(path: Path) -> dict[str, TensorSpec] | None:
    """Return the inputs with their specs that `value_info.json` tells; None: there is no such file.

    Raises:
        FormatError: it is something else.
    """
    if kind_of(path) is None:
        return None
    found = read_json(path, "table of inputs", INFO_BYTES_MAX)
    try:
        return {name: _spec(*told) for name, told in found.items()}
    except (AttributeError, TypeError, ValueError, TazzaError) as error:
        raise FormatError(
            f"{shown(path)} is no table of inputs", hint='such as {"data": [1, [1, 3, 224, 224]]}: type and shape'
        ) from error


def _spec(number: Any, dims: Any) -> TensorSpec:
    if not all(isinstance(each, int) and each >= 0 for each in [number, *dims]):
        raise ValueError("extents are whole numbers")
    return TensorSpec(tuple(dims), DataType.from_proto(number))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(Path(name).stem)]


def _key(name: str) -> str:
    return " ".join(word for word in _words(name) if word not in _ROLE_WORDS)


def _pairs(names: list[str]) -> dict[str, tuple[str, str]]:
    """Return init net and predict net by what else is in their names."""
    nets = [name for name in names if Path(name).suffix in NET_SUFFIXES]
    nets.sort(key=lambda name: (NET_SUFFIXES.index(Path(name).suffix), "param" in _words(name)))
    inits: dict[str, str] = {}
    mains: dict[str, str] = {}
    for name in nets:
        words = _words(name)
        if "init" in words:
            inits.setdefault(_key(name), name)
        elif {"predict", "exec"} & set(words):
            mains.setdefault(_key(name), name)
    for name in nets:  # model_init.pb beside model.pb
        if "init" not in _words(name) and _key(name) in inits:
            mains.setdefault(_key(name), name)
    return {key: (inits[key], mains[key]) for key in inits if key in mains}


def _what_is_missing(folder: AnyPath, names: list[str]) -> str:
    inits = [name for name in names if Path(name).suffix in NET_SUFFIXES and "init" in _words(name)]
    mains = [name for name in names if Path(name).suffix in NET_SUFFIXES and "predict" in _words(name)]
    if mains and not inits:
        return f"{shown(folder)} has {mains[0]}, and no init_net.pb with its parameters"
    if inits and not mains:
        return f"{shown(folder)} has {inits[0]}, and no predict_net.pb"
    return f"folder {shown(folder)} has no predict_net.pb and init_net.pb"
