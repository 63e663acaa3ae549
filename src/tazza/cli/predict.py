"""`tazza predict`: the most probable classes of images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.cli.console import make_console, print_text
from tazza.cli.model_files import find_model
from tazza.db.idx import read_idx
from tazza.errors import ArgumentError, FileError, FormatError, ShapeError, UnavailableError
from tazza.interop import Predictor
from tazza.operator import find_schema
from tazza.tensor import Tensor

BATCH = 100
BYTE_MAX = 255


@dataclass(frozen=True, slots=True)
class Pixels:
    """How images become input: what bytes are multiplied by, the height and width to scale to, black for white."""

    scale: float
    size: int | None = None
    invert: bool = False


def predict(model: Path, inputs: list[Path], *, init_net: Path | None, top: int, pixels: Pixels) -> None:
    """Print a line for each image: where it is from, and the `top` classes with their probabilities.

    Raises:
        TazzaError: a file is missing or broken, or an image does not fit the net.
    """
    console = make_console()
    with find_model(model, init_net).load() as predictor:
        if len(predictor.inputs) != 1:
            raise ArgumentError(
                f"net {predictor.name!r} has {len(predictor.inputs)} inputs: {', '.join(predictor.inputs)}",
                hint="predict feeds images to nets with one; use tazza.load for others",
            )
        channels = input_channels(predictor)
        for path in inputs:
            images = read_images(path, channels, pixels)
            for start in range(0, len(images), BATCH):
                scores = _scores(predictor, images[start : start + BATCH])
                for row, values in enumerate(scores, start):
                    label = str(path) if len(images) == 1 else f"{path}[{row}]"
                    print_text(console, _line(label, values, top))


def _scores(predictor: Predictor, images: NDArray[np.float32]) -> NDArray[Any]:
    outputs = predictor.run({predictor.inputs[0]: images})
    name, scores = next(iter(outputs.items()))
    if scores.ndim < 2 or len(scores) != len(images):
        raise ShapeError(
            f"output {name!r} of shape {scores.shape} is not (N, classes), with N = {len(images)} images",
            hint="predict is for nets that classify",
        )
    return scores.reshape(len(images), -1)


def _line(label: str, scores: NDArray[Any], top: int) -> str:
    best = np.argsort(-scores, kind="stable")[:top]
    return f"{label}: " + "  ".join(f"{index} ({scores[index]:.1%})" for index in best)


def input_channels(predictor: Predictor) -> int | None:
    """Return how many channels the first convolution on the input takes; None when there is none."""
    for op in predictor.definition.op:
        view = find_schema(op.type).view(op)
        if op.type.startswith("Conv") and view.has_input("W") and op.input[0] == predictor.inputs[0]:
            weight = predictor.workspace.blob(view.input_name("W")).value
            if isinstance(weight, Tensor):
                return int(weight.shape[1 if view.order == "NCHW" else -1]) * int(view.group)
    return None


# -- images ------------------------------------------------------------------------------------------------------------


def read_images(path: Path, channels: int | None, pixels: Pixels) -> NDArray[np.float32]:
    """Read a file into (N, C, H, W). Bytes are scaled; other numbers of arrays are taken as they are.

    Raises:
        FileError: the file is missing or cannot be read.
        FormatError: it is no image, array or IDX file.
        ShapeError: an array is not (H, W), (N, H, W) or (N, C, H, W).
    """
    if not path.is_file():
        raise FileError(f"'{path}' is not a file", hint="name an image, an array (.npy) or an IDX file")
    if path.suffix == ".npy":
        array = _read_array(path)
    elif "idx" in path.name and path.suffix in ("", ".gz"):
        array = read_idx(path)
    else:
        array = _read_picture(path, channels, pixels.size)
    if array.ndim not in (2, 3, 4):
        raise ShapeError(f"'{path}' has the shape {array.shape}, not (H, W), (N, H, W) or (N, C, H, W)")
    if array.ndim < 4:
        array = array.reshape(-1, 1, *array.shape[-2:])
    if array.dtype != np.uint8:
        return array.astype(np.float32)
    return (BYTE_MAX - array if pixels.invert else array).astype(np.float32) * np.float32(pixels.scale)


def _read_array(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise FormatError(f"'{path}' is no array: {error}", hint="numpy.save writes such files") from error
    if array.dtype.kind not in "uif":
        raise FormatError(f"'{path}' holds {array.dtype}, not numbers")
    return array


def _read_picture(path: Path, channels: int | None, size: int | None) -> NDArray[np.uint8]:
    """Return (1, C, H, W) bytes: grey for one channel, else red, green, blue."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise UnavailableError(
            f"pictures need Pillow, which cannot be imported: {error}", hint="pip install pillow"
        ) from error
    try:
        with Image.open(path) as image:
            made = image.convert("RGB" if channels == 3 else "L")
            if size is not None:
                made = made.resize((size, size))
            array = np.asarray(made, np.uint8)
    except UnidentifiedImageError as error:
        raise FormatError(f"'{path}' is no image that can be read", hint="use .png, .jpg, .npy or IDX") from error
    except (OSError, Image.DecompressionBombError) as error:
        raise FormatError(f"'{path}' cannot be read as an image: {error}") from error
    return np.moveaxis(array, -1, 0)[np.newaxis] if array.ndim == 3 else array[np.newaxis, np.newaxis]
