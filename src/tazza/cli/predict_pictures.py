"""Pictures that a net makes, in a folder: called as the images that they were made from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tazza.errors import FileError
from tazza.images import Preprocessing, as_picture, write_picture
from tazza.images.classes import Image
from tazza.runtime.files import kind_of, make_folder, shown, status_of


class PictureFolder:
    """Where pictures go: `cats/a.jpg` of the folder `cats` becomes `a.png`, and row 3 of `b.npy` becomes `b-3.png`."""

    def __init__(
        self,
        folder: Path,
        inputs: Sequence[Path],
        prepare: Preprocessing,
        limits: tuple[float, float] | None,
    ) -> None:
        self.folder = folder
        self._roots = [path for path in inputs if kind_of(path) == "folder"]
        self._prepare = prepare
        self._limits = limits
        self._written: set[Path] = set()

    def write(self, image: Image, output: NDArray[Any]) -> Path:
        """Write what a net made of an image, and return where.

        Raises:
            ShapeError: the output is no picture.
            FileError: it would replace the image itself or another picture of this run, or cannot be written.
        """
        pixels = as_picture(output, self._prepare, self._limits)
        target = self._place(image)
        if target in self._written:
            raise FileError(f"{shown(target)} was written for another image", hint="name folders, or images apart")
        if kind_of(target) is not None and os.path.samestat(status_of(target), status_of(image.path)):
            raise FileError(f"{shown(target)} is the image itself", hint="--pictures names another folder")
        make_folder(target.parent)
        write_picture(target, pixels)
        self._written.add(target)
        return target

    def _place(self, image: Image) -> Path:
        root = next((root for root in self._roots if image.path.is_relative_to(root)), image.path.parent)
        beside = image.path.relative_to(root)
        name = beside.stem if image.row is None else f"{beside.stem}-{image.row}"
        return self.folder / beside.with_name(f"{name}.png")
