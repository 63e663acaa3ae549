"""Event files: what TensorBoard reads. Written through the package `tensorboard`, imported on use.

    with EventFile(Path("out/tensorboard")) as file:
        file.scalars(1, {"train/loss": 2.3})

An event file is only ever appended to; what a training wrote before it was cut off can be read.
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tazza.errors import ArgumentError, FileError, UnavailableError
from tazza.runtime.closing import Closing
from tazza.runtime.files import make_folder, shown

FLUSH_EVERY_S = 10.0
"""Seconds after which what was written can be seen, at the next event."""
BUCKETS = 40
"""Of a histogram."""
COUNTED_MAX = 1_000_000
"""Numbers of a tensor that a histogram counts; of more it takes so many, evenly spaced."""
STEP_END = 2**63
"""Steps are below."""
PNG_SIZE = slice(16, 24)
"""Where a PNG file holds its width and height, four bytes each, the highest first."""

_numbers = itertools.count()
"""Tells files apart that one process makes within a second."""


def protobuf(name: str) -> Any:
    """Return a module of TensorBoard's messages, such as `event`.

    Raises:
        UnavailableError: the package cannot be imported.
    """
    return _module(f"tensorboard.compat.proto.{name}_pb2")


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UnavailableError(
            f"event files need the package tensorboard, which cannot be imported: {error}",
            hint="pip install tensorboard, or tazza with it: pip install 'tazza[tensorboard]'",
        ) from error


class EventFile(Closing):
    """A new event file in a folder; readers show all files of a folder as one run."""

    def __init__(self, folder: str | os.PathLike[str], *, first_step: int = 0) -> None:
        """Make the folder, if need be, and the file.

        Args:
            folder: of the run.
            first_step: what other files of the folder hold of this step and later ones is not shown any more.

        Raises:
            UnavailableError: the package `tensorboard` cannot be imported.
            FileError: the folder or the file cannot be made.
        """
        self._events, self._summaries = protobuf("event"), protobuf("summary")
        record_writer = _module("tensorboard.summary.writer.record_writer")
        make_folder(folder)
        name = f"{time.time():010.0f}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self.path = Path(folder) / f"events.out.tfevents.{name}"
        with self._writing():
            self._file: BinaryIO = self.path.open("xb")
        self._writer = record_writer.RecordWriter(self._file)
        self._flushed_at = time.monotonic()
        self._add(file_version="brain.Event:2")
        start = self._events.SessionLog.START
        self._add(first_step, session_log=self._events.SessionLog(status=start))
        self.flush()

    def close(self) -> None:
        """Write what is left; closing twice is allowed."""
        with self._writing():
            self._file.close()

    def flush(self) -> None:
        """Let readers see all that was written so far.

        Raises:
            FileError: it cannot be written.
        """
        self._flushed_at = time.monotonic()
        with self._writing():
            self._file.flush()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write a number for each tag, as after a step.

        Raises:
            FileError: it cannot be written; so say all that follow.
        """
        self._add_values(step, [{"tag": tag, "simple_value": value} for tag, value in values.items()])

    def image(self, step: int, tag: str, png: bytes) -> None:
        """Write a picture, the bytes of a PNG file.

        Raises:
            ArgumentError: these are no PNG file's.
        """
        if not png.startswith(b"\x89PNG") or len(png) < PNG_SIZE.stop:
            raise ArgumentError(f"picture {tag!r} of {len(png)} bytes is no PNG file")
        width, height = (int(each) for each in np.frombuffer(png[PNG_SIZE], ">u4"))
        colors = 4  # red, green, blue and how opaque they are, as matplotlib writes them
        picture = {"height": height, "width": width, "colorspace": colors, "encoded_image_string": png}
        self._add_values(step, [{"tag": tag, "image": self._summaries.Summary.Image(**picture)}])

    def histograms(self, step: int, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Write how the numbers of each tensor are spread; those that are not finite are left out, as empty tensors."""
        values: list[dict[str, Any]] = []
        for tag, tensor in tensors.items():
            every = max(1, tensor.size // COUNTED_MAX)
            numbers = tensor.reshape(-1)[::every].astype(np.float64)
            numbers = numbers[np.isfinite(numbers)]
            if numbers.size:
                values.append({"tag": tag, "histo": self._histogram(numbers)})
        self._add_values(step, values)

    def _histogram(self, numbers: NDArray[np.float64]) -> Any:
        counts, limits = _buckets(numbers)
        with np.errstate(over="ignore"):  # sums of what is large are infinite
            total, squares = numbers.sum(), np.square(numbers).sum()
        return self._summaries.HistogramProto(
            min=numbers.min(),
            max=numbers.max(),
            num=numbers.size,
            sum=total,
            sum_squares=squares,
            bucket_limit=limits,
            bucket=counts,
        )

    def graph(self, definition: Any) -> None:
        """Write a graph: a GraphDef, as `observers.graph_def` makes it."""
        self._add(graph_def=definition.SerializeToString())

    def _add_values(self, step: int, values: list[dict[str, Any]]) -> None:
        if values:
            summary = self._summaries.Summary
            for value in values:
                value["tag"] = _tag(value["tag"])
            self._add(step, summary=summary(value=[summary.Value(**value) for value in values]))

    def _add(self, step: int = 0, **what: Any) -> None:
        if not -STEP_END <= step < STEP_END:
            raise ArgumentError(f"step = {step}", hint="a step has 64 bits")
        event = self._events.Event(wall_time=time.time(), step=step, **what)
        with self._writing():
            self._writer.write(event.SerializeToString())
        if time.monotonic() - self._flushed_at > FLUSH_EVERY_S:
            self.flush()

    @contextmanager
    def _writing(self) -> Generator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # a ValueError: the file was closed
            raise FileError(
                f"cannot write the event file {shown(self.path)}: {error}", hint="leave TensorBoard's files out"
            ) from error


def _tag(name: str) -> str:
    """Return a name as a tag: what is no text in UTF-8, such as half of a pair of UTF-16, becomes a question mark."""
    return name.encode("utf-8", "replace").decode("utf-8")


def _buckets(numbers: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """Return how many numbers each bucket holds, and where it ends.

    One bucket holds all where there is no room for more between the least and the greatest, or between them is more
    than a float holds.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            counts, edges = np.histogram(numbers, bins=BUCKETS)
        except ValueError:  # too many buckets for the range, or a range that is not finite
            return [float(numbers.size)], [float(numbers.max())]
    return counts.tolist(), edges[1:].tolist()
