"""A float32 net and its net of bytes on the same inputs, layer by layer: what each layer loses.

Letters: x a number of the float32 net, e the difference of the one that its byte stands for. The noise of a blob is
sum e^2 / sum x^2, over all batches.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.interop.int8.calibrate import Batch, Told, nobody
from tazza.interop.int8.quantize import Quantized
from tazza.interop.int8.rewrite import ByteForm
from tazza.observers.drawing import new_figure, save_figure
from tazza.proto import NetDef
from tazza.runtime.csv_lines import csv_lines
from tazza.runtime.files import write_bytes_atomically
from tazza.tensor import Int8Tensor, Tensor
from tazza.workspace import Workspace

Array = NDArray[Any]
TITLES = ("blob", "operator", "in", "signal to error, dB", "added noise", "largest error", "clipped")
HIGHEST_DB = 200.0
"""What is shown for a blob without any error."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one layer lost.

    Args:
        blob: its output.
        type: the operator that makes it in the float32 net.
        in_bytes: whether bytes stand for it.
        noise: sum of squared errors over that of squared numbers.
        added: how much of that none of its inputs had; what the layer itself is to blame for.
        largest_error: in the units of the blob.
        clipped: share of its numbers, from 0 to 1, beyond what its bytes reach.
    """

    blob: str
    type: str
    in_bytes: bool
    noise: float
    added: float
    largest_error: float
    clipped: float

    @property
    def signal_db(self) -> float:
        """The ratio of signal to error in dB: 20 dB is an error of a tenth; at most `HIGHEST_DB`."""
        return min(-10 * math.log10(self.noise), HIGHEST_DB) if self.noise > 0 else HIGHEST_DB

    def cells(self) -> tuple[str, ...]:
        """Return the row as text, under `TITLES`."""
        form = "int8" if self.in_bytes else "float32"
        numbers = f"{self.signal_db:.1f}", f"{self.added:.3%}", f"{self.largest_error:.3g}", f"{self.clipped:.3%}"
        return self.blob, self.type, form, *numbers


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows in the order of the net; `agreement`: share of examples, 0 to 1, whose largest score has the same place."""

    rows: tuple[Row, ...]
    outputs: tuple[str, ...]
    examples: int
    agreement: float | None

    @property
    def signal_db(self) -> float:
        """The least ratio of signal to error of an output of the net, in dB."""
        return min(row.signal_db for row in self.rows if row.blob in self.outputs)

    def worst(self) -> list[Row]:
        """Return the rows, those that add most noise first."""
        return sorted(self.rows, key=lambda row: -row.added)

    def table(self) -> str:
        """Return titles and the rows, the worst first, as columns of text."""
        lines = [TITLES, *(row.cells() for row in self.worst())]
        widths = [max(len(line[i]) for line in lines) for i in range(len(TITLES))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i < 3 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the rows in the order of the net, with all digits.

        Raises:
            FileError: the file cannot be written.
        """
        titles = ("blob", "operator", "int8", "signal_db", "noise", "added", "largest_error", "clipped")
        rows = (
            (row.blob, row.type, int(row.in_bytes), row.signal_db, row.noise, row.added, row.largest_error, row.clipped)
            for row in self.rows
        )
        write_bytes_atomically(path, "".join(csv_lines([titles, *rows])).encode())


@dataclass(slots=True)
class _Sums:
    signal: float = 0.0
    error: float = 0.0
    largest: float = 0.0
    clipped: int = 0
    count: int = 0

    def add(self, wanted: Array, found: Array, form: ByteForm | None) -> None:
        x = wanted.astype(np.float64)
        e = np.abs(x - found)
        self.signal += float((x * x).sum())
        self.error += float((e * e).sum())
        self.largest = max(self.largest, float(e.max(initial=0)))
        self.count += x.size
        if form is not None:
            s, z = form.meaning.scale, form.meaning.zero_point
            self.clipped += int(((x < s * (-0.5 - z)) | (x > s * (255.5 - z))).sum())

    @property
    def noise(self) -> float:
        return self.error / self.signal if self.signal > 0 else float(self.error > 0)


@dataclass(slots=True)
class _Pair:
    """Both nets in workspaces of their own, and sums over what they were fed."""

    small: Quantized
    sums: dict[str, _Sums] = field(default_factory=dict[str, _Sums])
    alike: int = 0
    examples: int = 0
    scored: bool = False

    def add(self, wanted: Workspace, found: Workspace, batch: Batch) -> None:
        made = {name for op in self.small.predict_net.op for name in op.output}
        names = dict.fromkeys((*batch, *(name for op in self.small.net.op for name in op.output)))
        for name in names:
            form = self.small.forms.get(name)
            if form is None and name not in made:
                continue
            value = wanted.blob(name).value
            if not isinstance(value, Tensor) or not value.dtype.is_float:
                continue
            one = value.plain()
            other = found.fetch(name if form is None else form.name)
            self.sums.setdefault(name, _Sums()).add(one, _numbers(other, form), form)
        self._score(wanted, found)

    def _score(self, wanted: Workspace, found: Workspace) -> None:
        output = self.small.net.external_output[0]
        one, other = (space.fetch(output) for space in (wanted, found))
        if one.ndim < 2 or not one.size:
            return
        self.scored = True
        places = [scores.reshape(len(scores), -1).argmax(1) for scores in (one, other)]
        self.alike += int((places[0] == places[1]).sum())
        self.examples += len(one)


def _numbers(value: Any, form: ByteForm | None) -> Array:
    """Return the numbers that were fetched, with the axes of the float32 blob."""
    real = value.quantization.real(value.data) if isinstance(value, Int8Tensor) else value
    return np.moveaxis(real, -1, 1) if form is not None and form.moved else real


def compare(small: Quantized, batches: Iterable[Batch], *, told: Told = nobody) -> Comparison:
    """Run both nets on the same batches and return what each layer lost; batches are gone through once.

    Raises:
        ArgumentError: no batches, or the net declares no output.
        TazzaError: a net does not run on them.
    """
    if not small.net.external_output:
        raise ArgumentError("the net declares no output to compare", hint="add it to external_output")
    pair, wanted, found = _Pair(small), Workspace(), Workspace()
    try:
        for name, value in small.parameters.items():
            wanted.feed(name, value)
        found.run_net_once(small.init_net)
        nets: list[Any] = []
        for done, batch in enumerate(batches, 1):
            for space in (wanted, found):
                for name, value in batch.items():
                    space.feed(name, value)
            if not nets:
                both = zip((wanted, found), (small.net, small.predict_net), strict=True)
                nets = [space.create_net(_simple(net)) for space, net in both]
            for net in nets:
                net.run()
            pair.add(wanted, found, batch)
            told(done)
    finally:
        wanted.reset()
        found.reset()
    if not nets:
        raise ArgumentError("no batches to compare with", hint="give some of what the net will see")
    agreement = pair.alike / pair.examples if pair.scored else None
    return Comparison(tuple(_rows(small, pair.sums)), tuple(small.net.external_output), pair.examples, agreement)


def _simple(net: NetDef) -> NetDef:
    made = NetDef()
    made.CopyFrom(net)
    made.type = "simple"
    return made


def _rows(small: Quantized, sums: Mapping[str, _Sums]) -> list[Row]:
    """Return a row for each output; a blob that is nowhere in the small net has the noise of what it is made of."""
    noise = {name: one.noise for name, one in sums.items()}
    made: list[Row] = []
    for op in small.net.op:
        read = max((noise.get(name, 0.0) for name in op.input), default=0.0)
        for name in op.output:
            one = sums.get(name)
            if one is None:
                noise.setdefault(name, read)
                continue
            made.append(
                Row(
                    name,
                    op.type,
                    in_bytes=name in small.forms and name not in small.kept,
                    noise=one.noise,
                    added=max(one.noise - read, 0.0),
                    largest_error=one.largest,
                    clipped=one.clipped / max(one.count, 1),
                )
            )
    return made


# -- the picture -------------------------------------------------------------------------------------------------------


def draw_comparison(path: str | os.PathLike[str], compared: Comparison, *, title: str = "") -> None:
    """Draw the signal to error of each layer in the order of the net, and the noise that the worst ones add.

    Raises:
        UnavailableError: matplotlib cannot be imported.
        FileError: the file cannot be written.
    """
    rows = compared.rows
    figure = new_figure(10.0, 2.0 + 0.22 * max(len(rows), 8))
    left = figure.add_subplot(1, 2, 1, title="signal to error", xlabel="dB")
    _draw_bars(left, [row.blob for row in rows], [row.signal_db for row in rows], [_color(row) for row in rows])
    left.set_xlim(0, max([60.0, *(min(row.signal_db, 80.0) for row in rows)]))
    worst = compared.worst()[: len(rows)]
    right = figure.add_subplot(1, 2, 2, title="noise that a layer adds", xlabel="% of its signal's power")
    _draw_bars(
        right,
        [f"{row.blob} ({row.type})" for row in worst],
        [100 * row.added for row in worst],
        list(map(_color, worst)),
    )
    if title:
        figure.suptitle(title)
    save_figure(figure, path)


def _color(row: Row) -> str:
    return "C0" if row.in_bytes else "C7"


def _draw_bars(axes: Any, names: Sequence[str], values: Sequence[float], colors: Sequence[str]) -> None:
    places = range(len(names))
    axes.barh(places, values, color=colors)
    axes.set_yticks(places, names, fontsize=7)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.3)
