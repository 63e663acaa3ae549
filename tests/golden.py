"""Recorded runs of the genuine Caffe2: reading the files in `tests/data/golden`, and what counts as equal."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.operator.nested import all_operators
from tazza.ops.control.statistic import OF_PROCESS
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import Int8Tensor

FOLDER = Path(__file__).parent / "data" / "golden"


@dataclass(frozen=True)
class Recording:
    """One recorded run: operator, inputs and outputs in order, and the gradient operators that Caffe2 emits.

    An input that is no tensor is the text that Caffe2 shows for it, which names its type. Whole numbers with a scale
    and a zero point are an `Int8Tensor`.
    """

    name: str
    definition: OperatorDef
    inputs: list[NDArray[Any] | Int8Tensor]
    outputs: list[NDArray[Any] | Int8Tensor]
    gradient: list[OperatorDef]


def forget_statistics() -> None:
    """Let the process have counted nothing yet: each run was recorded in one of its own."""
    OF_PROCESS._sums.clear()  # pyright: ignore[reportPrivateUsage]


@functools.cache
def operators() -> tuple[str, ...]:
    """Return the operator types that have recordings here."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.npz")))


@functools.cache
def recorded_in_company() -> Counter[str]:
    """Return how many recorded nets and sequences hold an operator type: some have no run of their own."""
    found: Counter[str] = Counter()
    for path in FOLDER.glob("*/*.npz"):
        with np.load(path, allow_pickle=False) as stored:
            nets = [NetDef.FromString(stored[key].tobytes()) for key in stored.files if key == "net"]
            alone = [OperatorDef.FromString(stored[key].tobytes()) for key in stored.files if key.endswith("/op")]
        found.update({op.type for op in (*alone, *(op for net in nets for op, _ in all_operators(net)))})
    return found


def recordings(type: str, folder: Path = FOLDER) -> Iterator[Recording]:
    """Yield the recorded runs of an operator type."""
    with np.load(folder / f"{type}.npz", allow_pickle=False) as stored:
        for case in sorted({key.split("/")[0] for key in stored.files}):
            parts = {key.split("/")[1]: stored[key] for key in stored.files if key.startswith(f"{case}/")}
            definition = OperatorDef.FromString(parts["op"].tobytes())
            gradient = [OperatorDef.FromString(part.tobytes()) for part in _series(parts, "grad")]
            inputs, outputs = _values(parts, "in"), _values(parts, "out")
            yield Recording(f"{type}-{case}", definition, inputs, outputs, gradient)


def _series(parts: dict[str, NDArray[Any]], prefix: str) -> list[NDArray[Any]]:
    count = sum(key.startswith(prefix) and key.removeprefix(prefix).isdigit() for key in parts)
    return [parts[f"{prefix}{i}"] for i in range(count)]


def _values(parts: dict[str, NDArray[Any]], prefix: str) -> list[NDArray[Any] | Int8Tensor]:
    found: list[NDArray[Any] | Int8Tensor] = []
    for i, array in enumerate(_series(parts, prefix)):
        meaning = parts.get(f"{prefix}{i}_int8")
        found.append(_text(array) if meaning is None else Int8Tensor(array, float(meaning[0]), int(meaning[1])))
    return found


def _text(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(object) if array.dtype.kind == "S" else array
