"""Parameters of another model, taken over by name and shape; and the files beside a model that tell how it is used."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.images.preprocessing import FILE_NAME, Preprocessing
from tazza.interop import Predictor, load
from tazza.interop.model_folder import NET_SUFFIXES, init_beside
from tazza.runtime.files import kind_of, shown
from tazza.tensor import Tensor
from tazza.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Taken:
    """Which parameters of a net came from another model, and which kept what they began with, and why."""

    taken: tuple[str, ...]
    left: Mapping[str, str]

    def __str__(self) -> str:
        told = f"{len(self.taken)} of {len(self.taken) + len(self.left)} parameters were taken"
        if not self.left:
            return told
        return f"{told}; new are {', '.join(f'{name} ({why})' for name, why in self.left.items())}"


def take_parameters(workspace: Workspace, names: Iterable[str], source: Mapping[str, NDArray[Any]], what: str) -> Taken:
    """Put the values of `source` into blobs of the same name and shape.

    Args:
        workspace: holds the blobs.
        names: of the parameters.
        source: values by name.
        what: where they are from, for messages.

    Raises:
        ArgumentError: none fits.
    """
    taken: list[str] = []
    left: dict[str, str] = {}
    for name in names:
        there = workspace.fetch(name)
        value = source.get(name)
        if value is None:
            left[name] = "not there"
        elif value.shape != there.shape or value.dtype != there.dtype:
            left[name] = f"{list(value.shape)} there, {list(there.shape)} here"
        else:
            workspace.feed(name, value)
            taken.append(name)
    if not taken:
        raise ArgumentError(
            f"{what} has no parameter of this net's names and shapes: {', '.join(sorted(source)[:5])} ...",
            hint="take a model of the same kind",
        )
    return Taken(tuple(taken), left)


def parameters_in(predictor: Predictor) -> dict[str, NDArray[Any]]:
    """Return the values of all tensors that a model holds, by name."""
    blobs = {name: predictor.workspace.blob(name).value for name in predictor.workspace.blob_names()}
    return {
        name: np.array(value.plain())
        for name, value in blobs.items()
        if isinstance(value, Tensor) and value.allocated and name not in predictor.inputs
    }


def load_model(path: str | os.PathLike[str]) -> Predictor:
    """Return the model that lies in a folder, in a predict net with its init net beside it, or in a predictor file.

    Raises:
        TazzaError: there is none, or it is broken.
    """
    if kind_of(path) is None:
        raise ArgumentError(f"{shown(path)} does not exist", hint="name a folder with both nets, or a predictor file")
    init = init_beside(Path(path)) if Path(path).suffix in NET_SUFFIXES else None
    return load(path) if init is None else load(init, path)


def stored_preprocessing(path: str | os.PathLike[str]) -> Preprocessing | None:
    """Return what pictures go through for a model, where that lies beside it."""
    file = beside(path, FILE_NAME)
    return None if kind_of(file) is None else Preprocessing.read(file)


def beside(path: str | os.PathLike[str], name: str) -> Path:
    """Return where a file of this name lies, or would lie, beside a model: in its folder."""
    place = Path(path)
    return (place if kind_of(place) == "folder" else place.parent) / name
