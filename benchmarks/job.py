"""What a contender is asked to do, and the net it does it with: plain data, which needs no runtime to be read.

A net lies in a folder of its own: `net.json` (a `PlainNet`), `parameters.npz`, `predict_net.pb` or `train_net.pb` and
`init_net.pb` for tazza, `model.onnx` once somebody wants it, and `inputs-<batch>.npz`.
"""

from __future__ import annotations

import json
import math
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

LEARNING_RATE, MOMENTUM = 0.001, 0.9
"""Of SGD in training nets. The rate is small: one batch is learned again and again, and losses must stay finite."""

FLOAT32, BFLOAT16 = "float32", "bfloat16"

NET_FILE, PARAMETERS_FILE, ONNX_FILE = "net.json", "parameters.npz", "model.onnx"
_LENGTHS_AT = 26
"""Where the header of a member of a zip file says how long its name and its extra field are."""
PREDICT_FILE, TRAIN_FILE, INIT_FILE = "predict_net.pb", "train_net.pb", "init_net.pb"


@dataclass(frozen=True, slots=True)
class PlainOperator:
    """An operator as plain data: an OperatorDef with the values of its arguments, and the shapes of its outputs.

    The first extent of a shape is that of one image.
    """

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    arguments: Mapping[str, Any]
    shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class PlainNet:
    """A net as plain data. A training net is the part up to its loss: gradients are the contender's own affair."""

    name: str
    operators: tuple[PlainOperator, ...]
    inputs: Mapping[str, tuple[int, ...]]
    """Shape of one image by name, without the batch."""
    output: str
    parameters: Mapping[str, tuple[int, ...]]
    """Shape by name."""
    learned: tuple[str, ...]

    def write(self, folder: Path) -> None:
        """Put the net into a folder."""
        (folder / NET_FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def read(folder: Path) -> PlainNet:
        """Return the net of a folder."""
        stored: dict[str, Any] = json.loads((folder / NET_FILE).read_text(encoding="utf-8"))
        operators = [
            PlainOperator(
                op["type"],
                tuple(op["inputs"]),
                tuple(op["outputs"]),
                op["arguments"],
                tuple(tuple(shape) for shape in op["shapes"]),
            )
            for op in stored["operators"]
        ]
        return PlainNet(
            stored["name"],
            tuple(operators),
            {name: tuple(shape) for name, shape in stored["inputs"].items()},
            stored["output"],
            {name: tuple(shape) for name, shape in stored["parameters"].items()},
            tuple(stored["learned"]),
        )


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work for one contender."""

    folder: str
    """Where the net lies."""
    batch: int
    training: bool = False
    precision: str = FLOAT32
    threads: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What this contender does otherwise than others of its kind."""

    def text(self) -> str:
        """Return the job as one line."""
        return json.dumps(asdict(self))

    @staticmethod
    def of(text: str) -> Job:
        """Return the job that `text` made a line of."""
        return Job(**json.loads(text))

    @property
    def path(self) -> Path:
        """The folder of the net."""
        return Path(self.folder)

    @property
    def net(self) -> PlainNet:
        """The net, read anew each time."""
        return PlainNet.read(self.path)

    def parameters(self) -> Mapping[str, NDArray[Any]]:
        """Return the parameters by name; each is read from the file when its elements are."""
        return mapped_arrays(self.path / PARAMETERS_FILE)

    def inputs(self) -> Arrays:
        """Return the inputs by name."""
        with np.load(self.path / inputs_file(self.batch)) as stored:
            return {name: stored[name] for name in stored.files}


def mapped_arrays(file: Path) -> Arrays:
    """Return the arrays of an `.npz` of `np.savez` over the memory of the file, by name.

    NumPy's own reader copies each and computes its checksum, which takes longer than some runtimes do to load a net.
    Source: PKWARE APPNOTE 6.3, section 4.3.7 (local file header).
    """
    content = np.memmap(file, np.uint8, "r")
    found: Arrays = {}
    with zipfile.ZipFile(file) as archive, file.open("rb") as stream:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename} in {file} is compressed: np.savez does not do that")
            stream.seek(member.header_offset + _LENGTHS_AT)
            name_bytes, extra_bytes = struct.unpack("<HH", stream.read(4))
            stream.seek(name_bytes + extra_bytes, 1)
            header = npy.read_array_header_1_0 if npy.read_magic(stream) == (1, 0) else npy.read_array_header_2_0
            shape, columns, dtype = header(stream)
            nbytes = math.prod(shape) * dtype.itemsize
            start = stream.tell()
            values = content[start : start + nbytes].view(dtype)
            found[member.filename.removesuffix(".npy")] = values.reshape(shape, order="F" if columns else "C")
    return found


class Session(Protocol):
    """A runtime with a net in it."""

    def load(self) -> None:
        """Make the net ready to run."""
        ...

    def run(self) -> None:
        """Run once, through the call that users of the runtime make; when it returns, the results are there."""
        ...

    def result(self) -> NDArray[Any]:
        """Return what the last run gave: probabilities, or the loss of a training step."""
        ...

    def note(self) -> str:
        """Return version and settings, in a few words."""
        ...


def inputs_file(batch: int) -> str:
    """Return the name of the file of inputs for a batch."""
    return f"inputs-{batch}.npz"


@dataclass(frozen=True, slots=True)
class Window:
    """What a convolution or a pooling slides over images; rows first, then columns."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    begin: tuple[int, int]
    """Padding above and to the left."""
    end: tuple[int, int]
    """Padding below and to the right."""
    dilation: tuple[int, int]

    @property
    def symmetric(self) -> bool:
        """Whether both sides have the same padding."""
        return self.begin == self.end


def window(op: PlainOperator) -> Window:
    """Return the window of a two-dimensional operator.

    >>> op = PlainOperator("MaxPool", ("x",), ("y",), {"kernel": 3, "stride": 2, "pads": [0, 0, 1, 1]})
    >>> window(op).end, window(op).symmetric
    ((1, 1), False)
    """
    begin, end = _pads(op.arguments)
    return Window(
        _pair(op.arguments, "kernel", 1),
        _pair(op.arguments, "stride", 1),
        begin,
        end,
        _pair(op.arguments, "dilation", 1),
    )


def _pair(arguments: Mapping[str, Any], name: str, default: int) -> tuple[int, int]:
    if f"{name}s" in arguments:
        rows, columns = arguments[f"{name}s"]
        return int(rows), int(columns)
    value = int(arguments.get(name, default))
    return value, value


def _pads(arguments: Mapping[str, Any]) -> tuple[tuple[int, int], tuple[int, int]]:
    if "pads" in arguments:
        top, left, bottom, right = (int(each) for each in arguments["pads"])
        return (top, left), (bottom, right)
    pad = int(arguments.get("pad", 0))
    return (pad, pad), (pad, pad)


def check_known(op: PlainOperator, declared: Sequence[str]) -> None:
    """Raise ValueError when an operator has an argument that its translation does not look at."""
    strange = [name for name in op.arguments if name not in declared]
    if strange:
        raise ValueError(f"{op.type}: the argument {strange[0]!r} is not translated")
