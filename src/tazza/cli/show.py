"""`tazza show`: the operators of a net as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from tazza.cli.console import make_console, print_text
from tazza.cli.model_files import Described, Loading, describe, find_model
from tazza.cli.table import Column, Row, print_table
from tazza.cli.zoo_nets import describe_zoo, is_of_zoo
from tazza.errors import ArgumentError, DTypeError
from tazza.graph.inference import OperatorSpecs, infer_net
from tazza.interop.chosen_inputs import check_inputs
from tazza.nets.explanation import INDENT
from tazza.operator import SCHEMAS, Spec, touched_by
from tazza.operator.nested import all_operators, nested_nets
from tazza.proto import OperatorDef
from tazza.runtime.units import operations
from tazza.tensor import DataType, TensorSpec

UNKNOWN = "(unknown)"
COLUMNS = (
    Column("", number=True),
    Column("operator"),
    Column("reads"),
    Column("makes"),
    Column("shape"),
    Column("parameters", number=True),
    Column("operations", number=True),
)


def show_net(
    path: Path,
    *,
    init_net: Path | None,
    shapes: Sequence[str],
    inputs: Sequence[str] = (),
    picture: Path | None = None,
) -> None:
    """Print a line for each operator: what it reads and makes, shapes, parameters (elements), and operations.

    With `picture` the net is drawn into that SVG file instead.

    Operators of nets within, whose shapes follow from a run alone, are listed indented under the one that has them. No
    operator is made: all follows from schemas. A net of the zoo goes by its name, where no file has it.

    Raises:
        TazzaError: a file is missing or broken, a shape cannot be read, or shapes do not fit the net.
    """
    zoo = is_of_zoo(str(path))
    described = describe_zoo(str(path)) if zoo else describe(find_model(path, init_net, Loading(inputs)))
    given = dict(map(read_shape, shapes))
    check_inputs(described.net, list(given))
    if picture is not None:
        draw_net(described, given, path, picture)
        return
    rows = infer_net(described.net, {**described.parameters, **described.inputs, **given}, only_declared=True)
    console = make_console()
    _print(console, described, rows)
    _notes(console, described, rows)


def draw_net(described: Described, given: Mapping[str, Spec], net: Path, picture: Path) -> None:
    """Draw the operators of a net as it is written into an SVG file, and print where it is.

    Raises:
        ArgumentError: the file would replace the net, or its name does not end in `.svg`.
        FileError: it cannot be written.
    """
    from tazza.observers.view import Subject, document_of, write_picture

    if picture.suffix.lower() != ".svg":
        raise ArgumentError(f"'{picture}' does not end in .svg", hint="--picture net.svg; `tazza view` writes a page")
    specs = {**described.parameters, **described.inputs, **given}
    document = document_of(Subject(described.net, specs, dict(described.parameters)), passes=False)
    write_picture(picture, document)
    for note in document["notes"]:
        print_text(make_console(), note)
    print_text(make_console(), f"picture: {picture}")


def read_shape(text: str) -> tuple[str, Spec]:
    """Read `name=1,28,28` or `name:uint8=1,28,28`."""
    blob, _, extents = text.partition("=")
    name, _, label = blob.partition(":")
    try:
        dims = tuple(int(extent) for extent in extents.split(",") if extent.strip())
        return name, TensorSpec(dims, DataType.of(label if label else DataType.FLOAT))
    except (ValueError, DTypeError) as error:
        known = ", ".join(dtype.label for dtype in DataType)
        raise ArgumentError(
            f"--shape {text!r} is not NAME=EXTENT,EXTENT... or NAME:TYPE=...", hint=f"types: {known}"
        ) from error


def _print(console: Console, described: Described, rows: Sequence[OperatorSpecs]) -> None:
    seen: set[str] = set()
    cells: list[Row] = []
    parameters = flops = 0
    for position, row in enumerate(rows):
        new = [name for name in row.definition.input if name in described.parameters and name not in seen]
        seen.update(new)
        own = sum(_size(described.parameters[name]) for name in new)
        parameters += own
        flops += 0 if row.cost is None else row.cost.flops
        cells.append(
            Row(
                (
                    str(position),
                    _type(row),
                    ", ".join(name for name in row.definition.input if name not in described.parameters),
                    ", ".join(row.definition.output),
                    "; ".join(_text(spec) for spec in row.outputs),
                    f"{own:,}" if own else "",
                    "?" if row.cost is None else operations(row.cost.flops),
                )
            )
        )
        cells.extend(map(Row, _within(row.definition)))
    foot = Row(("", "", "", "", "", f"{parameters:,}", operations(flops)), "bold")
    print_table(console, COLUMNS, cells, title=described.net.name, foot=foot)


def _within(definition: OperatorDef, indent: str = INDENT) -> Iterator[tuple[str, ...]]:
    """Yield the cells of operators in the nets of an operator, and in those that these hold in turn."""
    for op in (op for net in nested_nets(definition) for op in net.op):
        known = SCHEMAS.get(op.type) is not None
        yield (
            "",
            indent + (op.type if known else f"{op.type} {UNKNOWN}"),
            ", ".join(op.input),
            ", ".join(op.output),
            "",
            "",
            "",
        )
        yield from _within(op, indent + INDENT)


def _notes(console: Console, described: Described, rows: Sequence[OperatorSpecs]) -> None:
    strange = dict.fromkeys(op.type for op, _ in all_operators(described.net) if SCHEMAS.get(op.type) is None)
    if strange:
        print_text(console, f"{UNKNOWN} : nobody declares {', '.join(strange)}, so the net cannot run")
    if all(row.cost is not None for row in rows):
        return
    made = touched_by(described.net).writes
    open_inputs = dict.fromkeys(
        name
        for row in rows
        for name, spec in zip(row.definition.input, row.inputs, strict=True)
        if spec is None and name not in made
    )
    if open_inputs:
        print_text(
            console,
            f"? : not known without the shapes of {', '.join(open_inputs)}; give them with --shape NAME=EXTENT,EXTENT"
            " or --init-net",
        )


def _type(row: OperatorSpecs) -> str:
    return row.definition.type if row.declared else f"{row.definition.type} {UNKNOWN}"


def _size(spec: Spec) -> int:
    return spec.size if isinstance(spec, TensorSpec) and spec.shape_known else 0


def _text(spec: Spec | None) -> str:
    return "?" if spec is None else str(spec)
