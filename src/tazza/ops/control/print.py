"""Showing what a blob holds while a net runs: Print, Summarize. N is the number of elements.

With `to_file` the first run of an operator begins a file in the root folder of its workspace, called after the blob; a
`/` in the name of a blob stands there as `#`. The texts are those of Caffe2.
"""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import numpy as np

from tazza.errors import FileError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    Operator,
    OpView,
    Spec,
    arg,
    blob,
    forbidden,
    host_kernel,
    schema,
)
from tazza.runtime.files import open_descriptor
from tazza.runtime.files import shown as shown_path
from tazza.runtime.log import logger
from tazza.tensor import Blob, DataType, Tensor, TensorSpec
from tazza.tensor.blob import type_of

TO_FILE = arg("to_file", bool, False, doc="write to a file instead of showing it")
LIMIT = 1000
"""Elements that Print shows unless told otherwise."""

NATIVE_NAMES = {
    DataType.FLOAT: "float",
    DataType.DOUBLE: "double",
    DataType.FLOAT16: "c10::Half",
    DataType.BFLOAT16: "c10::BFloat16",
    DataType.BOOL: "bool",
    DataType.INT8: "signed char",
    DataType.UINT8: "unsigned char",
    DataType.INT16: "short int",
    DataType.UINT16: "short unsigned int",
    DataType.INT32: "int",
    DataType.INT64: "long int",
    DataType.STRING: "std::basic_string<char>",
}
"""What the texts of Caffe2 call the element types."""


def effects_of_showing(op: OpView) -> Effects:
    """Return IO where lines go to a file; else they are shown, in the order of the net."""
    return Effects.IO if op.to_file else Effects.STATE


class LinesFile:
    """The file of one operator: begun, over one that is there, with the first line."""

    def __init__(self, operator: Operator, suffix: str) -> None:
        """Name it after the operator's first input; nothing is opened yet."""
        root: Path = getattr(operator.workspace, "root", Path())
        self._path = root / f"{operator.definition.input[0].replace('/', '#')}{suffix}"
        self._type = operator.op.type
        self._file: TextIO | None = None

    def add(self, line: str) -> None:
        """Write a line so that it is there at once.

        Raises:
            FileError: it cannot be written.
        """
        try:
            if self._file is None:
                self._file = open(self._path, "w", encoding="utf-8", opener=open_descriptor)
            self._file.write(f"{line}\n")
            self._file.flush()
        except OSError as error:
            said = error.message if isinstance(error, FileError) else error.strerror
            reason = f"{self._type} cannot write {shown_path(self._path)}: {said}"
            raise FileError(reason, hint="it goes to the root folder of the workspace") from error

    def close(self) -> None:
        """Close it, if it was begun."""
        if self._file is not None:
            self._file.close()


PRINT = schema(
    "Print",
    """Shows the first `limit` elements of X on standard output, or in the file `<blob>.log`.

    Of `every_n` runs it shows the first. What is no tensor is named by its type.""",
    inputs=[blob("X", type_name="*")],
    args=[
        TO_FILE,
        arg("limit", int, 0, minimum=0, doc=f"elements; 0 means {LIMIT}"),
        arg("every_n", int, 1, minimum=1, doc="show the first of so many runs"),
    ],
    effects=effects_of_showing,
    no_gradient=forbidden("it has no output"),
    source="Caffe2",
    example="""
    >>> run("Print", [[0.5, 2.0]], limit=1)
    Tensor in0 of type float. Dims: (1,2,): 0.5
    ()
    """,
)


@PRINT.cost
def print_cost(op: OpView, X: Spec) -> Cost:
    if not isinstance(X, TensorSpec):
        return Cost()
    shown = LIMIT if op.limit == 0 else op.limit
    return Cost(bytes_read=min(X.size, shown) * X.dtype.itemsize)


@host_kernel(PRINT)
class Print:
    """Counts the runs, and holds the file."""

    def __init__(self, operator: Operator) -> None:
        self._file = LinesFile(operator, ".log") if operator.op.to_file else None
        self._runs = 0

    def run(self, op: OpView, X: Blob) -> None:
        due = self._runs % op.every_n == 0
        self._runs += 1
        if not due:
            return
        line = describe(X, LIMIT if op.limit == 0 else op.limit)
        if self._file is None:
            print(line, flush=True)
        else:
            self._file.add(line)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def describe(X: Blob, limit: int) -> str:
    """Return the line that shows a blob, with at most `limit` elements."""
    if not isinstance(X.value, Tensor):
        names = type_of(X.value)
        return f"Blob of type: {'nullptr (uninitialized)' if names is None else names.native}"
    tensor = X.value
    dims = "".join(f"{extent}," for extent in tensor.shape)
    shown = tensor.plain().reshape(-1)[:limit]
    elements = ",".join(_text(element) for element in shown.tolist())
    return f"Tensor {X.name} of type {NATIVE_NAMES[tensor.dtype]}. Dims: ({dims}): {elements}"


def _text(element: object) -> str:
    if isinstance(element, bytes):
        return element.decode(errors="backslashreplace")
    return f"{element:g}" if isinstance(element, float) else f"{element:d}"


SUMMARIZE = schema(
    "Summarize",
    """Y = [minimum, maximum, mean, standard deviation] of X.

    The deviation is that of a sample, sqrt(sum (x - mean)**2 / (N - 1)), and 0 for N = 1. Minimum and maximum pass
    over NaN. With `to_file` each run adds a line to `<blob>.summary`.""",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", FLOAT, "4", optional=True)],
    args=[TO_FILE],
    effects=effects_of_showing,
    no_gradient=forbidden("it is there to be looked at"),
    source="Caffe2",
    example="""
    >>> run("Summarize", [1.0, 2.0, 6.0], outputs=1)
    array([1.       , 6.       , 3.       , 2.6457512], dtype=float32)
    """,
)


@SUMMARIZE.cost
def summarize_cost(op: OpView, X: TensorSpec, Y: TensorSpec | None) -> Cost:
    del op
    return Cost(6 * X.size, X.nbytes, 0 if Y is None else Y.nbytes)


@host_kernel(SUMMARIZE)
class Summarize:
    """Holds the file."""

    def __init__(self, operator: Operator) -> None:
        self._file = LinesFile(operator, ".summary") if operator.op.to_file else None

    def run(self, op: OpView, X: Blob, Y: Blob | None) -> None:
        x = X.tensor().plain()
        op.require(x.size > 0, "X has no elements, so there is nothing to summarize")
        summary = summarize(x)
        line = " ".join(f"{float(value):g}" for value in summary)
        if self._file is not None:
            self._file.add(line)
        if Y is not None:
            Y.tensor().assign(summary)
        if self._file is None and Y is None:
            logger.info("summary of %s (minimum, maximum, mean, deviation): %s", X.name, line)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def summarize(x: Array) -> Array:
    """Return (4,): minimum, maximum, mean, standard deviation, computed in float64."""
    with np.errstate(all="ignore"):
        deviation = x.std(dtype=np.float64, ddof=1) if x.size > 1 else 0.0
        values = [np.fmin.reduce(x, None), np.fmax.reduce(x, None), x.mean(dtype=np.float64), deviation]
    return np.array(values, np.float32)
