"""`tazza predict`: the most probable classes of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.cli.console import make_console, print_text
from tazza.cli.model_files import ModelFiles
from tazza.errors import ArgumentError, ShapeError
from tazza.interop import Predictor
from tazza.interop.pictures import Pixels, read_images
from tazza.operator import find_schema
from tazza.ops.nn.conv import CONVS
from tazza.tensor import Tensor

BATCH = 100


def predict(model: ModelFiles, images: list[Path], *, top: int, pixels: Pixels) -> None:
    """Print a line for each image: where it is from, and the `top` classes with their probabilities.

    Raises:
        TazzaError: a file is missing or broken, or an image does not fit the net.
    """
    console = make_console()
    with model.load() as predictor:
        if len(predictor.inputs) != 1:
            raise ArgumentError(
                f"net {predictor.name!r} has {len(predictor.inputs)} inputs: {', '.join(predictor.inputs)}",
                hint="name the one that takes images with --input; the others must have values, or use tazza.load",
            )
        channels = input_channels(predictor)
        for path in images:
            found = read_images(path, channels, pixels)
            for start in range(0, len(found), BATCH):
                scores = _scores(predictor, found[start : start + BATCH])
                for row, values in enumerate(scores, start):
                    label = str(path) if len(found) == 1 else f"{path}[{row}]"
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
        if view.schema in CONVS and op.input[0] == predictor.inputs[0]:
            weight = predictor.workspace.blob(view.input_name("W")).value
            if isinstance(weight, Tensor):
                return int(weight.shape[1 if view.order == "NCHW" else -1]) * int(view.group)
    return None
