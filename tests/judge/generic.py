"""Sketches from the schema alone: letters, patterns, element types, arguments and their ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast, get_args

from tazza.operator import ArgSpec, BlobSpec, OpSchema
from tazza.tensor import DataType
from tests.judge.hand import Hand, Shape, Sketch, as_list

ANY = (
    *(DataType.FLOAT,) * 6,
    *(DataType.INT32, DataType.INT64, DataType.BOOL, DataType.UINT8, DataType.DOUBLE, DataType.FLOAT16),
)
"""What an input without declared types holds."""
OFTEN = 0.7
"""How often an input of several types is float32."""


def complete(hand: Hand, schema: OpSchema, sketch: Sketch) -> Sketch:
    """Return the sketch with shapes for all required inputs, and with arguments that nobody drew."""
    extents: dict[str, Shape] = {}
    shapes = dict(sketch.shapes)
    common: Shape | None = None
    for spec in schema.inputs:
        if spec.name in shapes or spec.name in sketch.values or (spec.optional and bool(sketch.shapes)):
            continue
        if spec.optional and not hand.chance(0.5):
            break
        count = hand.integer(1, 4) if spec.variadic else 1
        drawn = [_shape(hand, name, spec, extents, common) for name in blob_names(spec, count)]
        common = drawn[0] if common is None else common
        shapes[spec.name] = drawn if spec.variadic else drawn[0]
    return replace(sketch, shapes=shapes)


def _shape(hand: Hand, name: str, spec: BlobSpec, extents: dict[str, Shape], common: Shape | None) -> Shape:
    if spec.dims is None:
        if name in hand.given:
            return hand.given[name]
        return common if common is not None and hand.chance(0.9) else hand.dims()
    tokens = spec.dims.split()
    given = hand.given.get(name)
    if given is not None:
        _bind(tokens, given, extents)
    found: list[int] = []
    for token in tokens:
        if token.isdigit():
            found.append(int(token))
            continue
        if token not in extents:
            extents[token] = hand.dims() if token.startswith("*") else (_extent(hand, token),)
        found.extend(extents[token])
    return tuple(found)


def _extent(hand: Hand, letter: str) -> int:
    return hand.batch() if letter == "N" else hand.channels() if letter in "CDM" else hand.size()


def _bind(tokens: list[str], given: Shape, extents: dict[str, Shape]) -> None:
    run = len(given) - (len(tokens) - 1)
    position = 0
    for token in tokens:
        width = run if token.startswith("*") else 1
        extents.setdefault(token, given[position : position + width])
        position += width


def blob_names(spec: BlobSpec, count: int) -> list[str]:
    """Return the names of the blobs that stand for a letter."""
    return [f"{spec.name}_{i}" for i in range(count)] if spec.variadic else [spec.name]


def element_types(hand: Hand, schema: OpSchema) -> dict[str, DataType]:
    """Return an element type for each input letter, by what they say of each other."""
    found: dict[str, DataType] = {}
    for spec in schema.inputs:
        dtypes = spec.dtypes
        if isinstance(dtypes, str):
            continue
        if isinstance(dtypes, DataType):
            found[spec.name] = dtypes
            continue
        choices = ANY if dtypes is None else tuple(sorted(dtypes, key=lambda dtype: dtype.label))
        if hand.dtype is not None and hand.dtype in choices:
            found[spec.name] = hand.dtype
        else:
            often = DataType.FLOAT in choices and hand.chance(OFTEN)
            found[spec.name] = DataType.FLOAT if often else hand.pick(choices)
    for _ in schema.inputs:  # references may follow each other
        for spec in schema.inputs:
            if isinstance(spec.dtypes, str) and spec.dtypes in found:
                found[spec.name] = found[spec.dtypes]
    return found


def arguments(hand: Hand, schema: OpSchema, sketch: Sketch) -> dict[str, Any]:
    """Return values for arguments: all required ones, and some of the others; those of the sketch stay."""
    rank = max((len(shape) for shapes in sketch.shapes.values() for shape in as_list(shapes)), default=2)
    found: dict[str, Any] = {}
    for spec in schema.args.values():
        if spec.required or hand.chance(0.4):
            value = value_of(hand, spec, rank)
            if value is not None:
                found[spec.name] = value
    return found


def value_of(hand: Hand, spec: ArgSpec, rank: int) -> Any:
    """Return a legal value of an argument as far as its declaration tells; None leaves it out."""
    kind = spec.type if spec.type in _VALUES else next((m for m in get_args(spec.type) if m in _VALUES), None)
    if spec.choices is not None:
        choice = hand.pick(spec.choices)
        return [choice] if kind in (list[int], list[float]) else choice
    if kind is None:
        return None
    return _VALUES[kind](hand, spec, rank)


def _int(hand: Hand, spec: ArgSpec, rank: int) -> int:
    if "axis" in spec.name or "dim" in spec.name:
        return hand.integer(-rank if spec.minimum is None else int(spec.minimum), max(rank - 1, 0))
    least = 0 if spec.minimum is None else int(spec.minimum)
    return hand.integer(least, least + 4 if spec.maximum is None else min(int(spec.maximum), least + 4))


def _real(hand: Hand, spec: ArgSpec, rank: int) -> float:
    del rank
    default = spec.default if isinstance(spec.default, float) and abs(spec.default) < 1e6 else 1.0
    least = -2.0 if spec.minimum is None else spec.minimum
    most = 3.0 if spec.maximum is None else spec.maximum
    near = default * hand.real(0.25, 4.0)
    return min(max(near, least), most) if hand.chance(0.5) else hand.real(least, most)


def _ints(hand: Hand, spec: ArgSpec, rank: int) -> list[int]:
    least = 0 if spec.minimum is None else int(spec.minimum)
    count = hand.integer(0, rank)
    pool = list(range(max(least, 0), max(rank, least + 1)))
    return [int(n) for n in hand.rng.permutation(pool)[:count]]


_VALUES: dict[Any, Callable[[Hand, ArgSpec, int], Any]] = {
    int: _int,
    bool: lambda hand, spec, rank: hand.chance(0.5),
    float: _real,
    list[int]: _ints,
    list[float]: lambda hand, spec, rank: [_real(hand, spec, rank) for _ in range(hand.integer(1, 3))],
}
cast("Any", _VALUES)

EDGES: dict[Any, tuple[Any, ...]] = {
    int: (0, -1, 1, 2, 2**31 - 1, -(2**31), 2**62, -(2**62)),
    bool: (0, 1, 2, -1),
    float: (0.0, -0.0, -1.0, 1e-45, 3e38, float("inf"), float("-inf"), float("nan")),
    str: ("", "x", "NCHW", "\N{GREEK SMALL LETTER ALPHA}"),
    bytes: (b"", b"\xff"),
    list[int]: ([], [0], [-1], [2**31 - 1], [2**62, 2**62], [-(2**62)], [1] * 9),
    list[float]: ([], [float("inf")], [float("nan"), 0.0]),
    list[str]: ([], [""], ["x", "x"]),
    list[bytes]: ([], [b""]),
}


def extremes(hand: Hand, schema: OpSchema, present: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of which one to three stand at, or beyond, the edges of what is declared; all well typed."""
    found = dict(present)
    names = list(schema.args)
    for name in hand.rng.permutation(names)[: hand.integer(1, 3)] if names else ():
        spec = schema.args[str(name)]
        members = [member for member in (spec.type, *get_args(spec.type)) if member in EDGES]
        if not members:
            continue
        choices = list(EDGES[hand.pick(members)])
        for bound in (spec.minimum, spec.maximum):
            if bound is not None and spec.type is int:
                choices += [int(bound), int(bound) - 1, int(bound) + 1]
        found[str(name)] = hand.pick(choices)
    return found
