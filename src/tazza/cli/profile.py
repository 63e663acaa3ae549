"""`tazza profile`: where the time of a net goes, as tables, a timeline, a trace for Perfetto or a picture."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path

import numpy as np
from rich.console import Console

from tazza.cli.console import make_console, print_text
from tazza.cli.model_files import Loading, describe, find_model
from tazza.cli.show import read_shape
from tazza.cli.table import Column, Row, print_table
from tazza.data_class import dataclass
from tazza.errors import ArgumentError, FileError
from tazza.interop import Predictor
from tazza.models.zoo import CLASSIFIERS
from tazza.nets import NetBase, create_net
from tazza.nets.base import PLAN
from tazza.observers.drawing import check_drawing
from tazza.observers.profile import Profile, Summary, Table
from tazza.observers.recorder import profile_net
from tazza.observers.trace import write_trace
from tazza.operator import Spec, find_argument
from tazza.proto import NetDef
from tazza.runtime.files import kind_of, shown, status_of
from tazza.tensor import DataType, TensorSpec
from tazza.workspace import Workspace

SEED = 1
"""Of the numbers that inputs are filled with."""
SLOW = "bold yellow"
"""Style of rows that take much of the time."""
STORED = "as stored"
"""Of a shape that the model says itself."""
LEAST_WORTH = ("sd", "lanes", "GB/s", "copied MB", "min", "waits µs", "late µs", "total ms", "GFLOP/s", "runs")
"""Columns that narrow terminals leave out, those first."""
TIMELINE_RUNS = 1
"""Runs of which the timeline is printed: the last ones."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to run. `type` None: as `predict` would run it; `workers` 0: as many as the process has threads."""

    model: str
    init_net: Path | None = None
    shapes: Sequence[str] = ()
    batch: int | None = None
    type: str | None = None
    workers: int = 0
    loading: Loading = field(default_factory=Loading)


def profile(request: Request, *, runs: int, top: int, trace: Path | None, picture: Path | None) -> None:
    """Run a net and print what its operators, types and lanes took, and what profiling cost.

    Raises:
        TazzaError: a file is missing or broken, shapes are unknown or do not fit, or the net fails.
    """
    for path in (trace, picture):
        check_target(path, request)
    if picture is not None:
        check_drawing()  # before minutes are spent on runs
    console = make_console()
    with made(request) as running:
        found = profile_net(running.net, runs=runs)
        for line in running.notes():
            print_text(console, line)
    print_text(console, found.headline())
    slowest = sorted(found.by_operator(), key=lambda row: -row.total_s)
    _print(console, found, slowest[:top], f"operator ({min(top, len(slowest))} of {len(slowest)})")
    _print(console, found, found.by_type()[:top], "type")
    _print(console, found, found.by_lane(), "lane")
    last = replace(found, occurrences=tuple(one for one in found.occurrences if one.run >= runs - TIMELINE_RUNS))
    print_text(console, f"\nthe last run:\n{last.timeline().text(min(console.width, 120))}")
    timeline = found.timeline()
    if trace is not None:
        write_trace(trace, timeline, process=f"tazza {found.net}")
        print_text(console, f"trace: {trace} (open it in https://ui.perfetto.dev)")
    if picture is not None:
        last.timeline().draw(picture, title=found.headline())
        print_text(console, f"picture: {picture}")


def check_target(path: Path | None, request: Request) -> None:
    """Refuse to write over the files of the model itself."""
    files = [file for file in (Path(request.model), request.init_net) if file is not None and kind_of(file) is not None]
    if path is None or kind_of(path) is None:
        return
    if any(os.path.samestat(status_of(path), status_of(file)) for file in files):
        raise ArgumentError(f"'{path}' is a file of the model that is profiled", hint="name another file to write")


def _print(console: Console, found: Profile, rows: Sequence[Summary], what: str) -> None:
    made = narrowed(found.table(rows, what=what), console.width)
    columns = [Column(title, number=not made.is_text(place)) for place, title in enumerate(made.titles)]
    slow = [what != "lane" and found.is_slow(row) for row in rows]
    console.print()
    print_table(
        console, columns, [Row(cells, SLOW if marked else "") for cells, marked in zip(made.rows, slow, strict=True)]
    )


def narrowed(made: Table, width: int) -> Table:
    """Return a table without the columns that matter least, as many as do not fit into a width.

    >>> print(narrowed(Table(("type", "runs", "sd", "min", "lanes"), (("Conv", "10", "0.1", "0.2", "a"),), 1), 17))
    type  runs  min
    Conv    10  0.2
    """
    for title in LEAST_WORTH:
        if made.width <= width:
            break
        made = made.without(title)
    return made


# -- what runs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fed:
    """An input, what it was filled with, and who says so."""

    name: str
    spec: TensorSpec
    origin: str

    def __str__(self) -> str:
        return f"{self.name} {self.spec.dtype.label}{list(self.spec.shape)} {self.origin}"


@dataclass(frozen=True, slots=True)
class Running:
    """A net, the inputs that it was fed, and the batch that its files say, where nobody asked for another."""

    net: NetBase
    inputs: tuple[Fed, ...]
    batch: int | None

    def notes(self) -> list[str]:
        """Return what runs, in lines: which inputs, which batch, and what does not run because it is known."""
        lines = [f"inputs: {', '.join(map(str, self.inputs)) if self.inputs else 'none'}"]
        if self.batch is not None:
            lines.append(f"runs batch {self.batch} {STORED}; --batch N runs another")
        beforehand = self.net.explain().beforehand
        if beforehand:
            lines.append(f"operators on constants alone, which ran beforehand and not in what follows: {beforehand}")
        return lines


@contextmanager
def made(request: Request) -> Generator[Running]:
    """Make the net, fill its inputs, and end everything afterwards."""
    path = Path(request.model)
    if kind_of(path) is None and request.model in CLASSIFIERS:
        predictor, declared = _from_zoo(request)
    elif kind_of(path) is None:
        raise FileError(
            f"{shown(path)} does not exist, and no model is called so",
            hint=f"name a net, a predictor file, a folder with both nets, or one of {', '.join(CLASSIFIERS)}",
        )
    else:
        files = find_model(path, request.init_net, request.loading)
        if files.is_net and files.init is None and not files.inputs:
            named = tuple(name for name, _ in map(read_shape, request.shapes))
            files = replace(files, loading=replace(files.loading, inputs=named))
        declared = describe(files).inputs
        predictor = files.load()
    with predictor:
        fed = _fill(predictor, declared, dict(map(read_shape, request.shapes)), request.batch)
        stored = [one.spec.shape[0] for one in fed if one.origin == STORED and one.spec.shape]
        net = create_net(_definition(predictor, request, fed), predictor.workspace)
        try:
            _check_runs(net, fed, request.batch)
            yield Running(net, fed, stored[0] if stored and request.batch is None else None)
        finally:
            net.close()


def _check_runs(net: NetBase, fed: Sequence[Fed], batch: int | None) -> None:
    """Refuse to time a net of which nothing changes from run to run, so that what it computes is known beforehand."""
    if batch is not None and not fed:
        raise ArgumentError(f"net {net.name!r} has no input, and --batch {batch} no effect", hint="leave it out")
    beforehand = net.explain().beforehand
    if beforehand and not fed:
        raise ArgumentError(
            f"net {net.name!r} has no input: {beforehand} of its operators depend on constants alone and would not run",
            hint=f"name one with --shape NAME=EXTENT,EXTENT...; it reads {', '.join(net.definition.external_input)}",
        )


def _from_zoo(request: Request) -> tuple[Predictor, Mapping[str, Spec]]:
    chosen = CLASSIFIERS[request.model]
    model = chosen.inference()
    predictor = Predictor(model.net.export(), _with_parameters(model.init_net.export()))
    shape = chosen.input_shape(1 if request.batch is None else request.batch)
    return predictor, {predictor.inputs[0]: TensorSpec(shape, DataType.FLOAT)}


def _with_parameters(init: NetDef) -> Workspace:
    workspace = Workspace()
    workspace.run_net_once(init)
    return workspace


def _fill(
    predictor: Predictor, declared: Mapping[str, Spec], given: Mapping[str, Spec], batch: int | None
) -> tuple[Fed, ...]:
    """Feed each input with numbers from 0 to 1, or with zeros where it holds integers: those may be classes.

    What is given by shape may also be a blob that the init net makes.
    """
    strange = [name for name in given if name not in (*predictor.inputs, *predictor.definition.external_input)]
    if strange:
        raise ArgumentError(
            f"net {predictor.name!r} has no input {strange[0]!r}", hint=f"inputs: {', '.join(predictor.inputs)}"
        )
    random = np.random.default_rng(SEED)
    fed: list[Fed] = []
    for name in dict.fromkeys((*predictor.inputs, *given)):
        spec = given.get(name, declared.get(name))
        if not isinstance(spec, TensorSpec) or not spec.shape_known or (name not in given and spec.size == 0):
            raise ArgumentError(
                f"the shape of input {name!r} is not known", hint=f"give it with --shape {name}=1,3,224,224"
            )
        shape = spec.shape if batch is None or not spec.shape else (batch, *spec.shape[1:])
        real = np.issubdtype(spec.dtype.numpy, np.floating)
        values = random.random(shape) if real else np.zeros(shape)
        predictor.workspace.feed(name, values.astype(spec.dtype.numpy))
        fed.append(Fed(name, TensorSpec(shape, spec.dtype), "as given" if name in given else STORED))
    return tuple(fed)


def _definition(predictor: Predictor, request: Request, fed: Sequence[Fed]) -> NetDef:
    made = NetDef()
    made.CopyFrom(predictor.definition)
    if request.type is not None:
        made.type = request.type
    made.num_workers = request.workers
    if made.type == PLAN:
        inputs = find_argument(made, "inputs")
        if inputs is None:
            inputs = made.arg.add(name="inputs")
        listed = set(inputs.strings)
        inputs.strings.extend(name for name in (one.name.encode() for one in fed) if name not in listed)
    return made
