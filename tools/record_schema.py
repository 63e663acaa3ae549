"""Record what Caffe2's records of columns say of themselves; run by the Python that has the genuine Caffe2.

    PYTHON_OF_CAFFE2 tools/record_schema.py tests/data/schema.json

Records are drawn at random, always the same ones. Of each: names, types and metadata of its columns, where its parts
lie, its text, the nets that make its blobs, and what becomes of it beside the record before it.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import numpy as np

RECORDS = 24
TYPES: list[Any] = [np.int32, np.int64, np.float32, np.float64, np.bool_, np.uint8, str, None, (np.float32, (3, 2))]


def drawn(schema: Any, draw: random.Random, depth: int = 0) -> Any:
    """Return a record: scalars, lists, maps and structures, one in the other."""
    kind = draw.choice(["scalar", "scalar", "list", "evicted", "map", "struct", "struct"] if depth < 3 else ["scalar"])
    if depth == 0 or kind == "struct":
        names = draw.sample("abcdefg", draw.randrange(4) if depth else 3)
        return schema.Struct(*[(_nested(draw, name), drawn(schema, draw, depth + 1)) for name in names])
    if kind == "scalar":
        dtype = draw.choice(TYPES)
        known = dtype in (np.int32, np.int64) and draw.random() < 0.5
        return schema.Scalar(dtype, metadata=schema.Metadata(draw.randrange(1, 9)) if known else None)
    inner = drawn(schema, draw, depth + 1)
    if kind == "map":
        return schema.Map(np.int64, inner)
    return schema.List(inner) if kind == "list" else schema.ListWithEvicted(inner)


def _nested(draw: random.Random, name: str) -> str:
    return name + ":" + draw.choice("xyz") if draw.random() < 0.3 else name


def outcome(ask: Any) -> Any:
    """Return what a question gives, or the type of its error."""
    try:
        return ask()
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        return type(error).__name__


def columns(record: Any) -> list[Any]:
    """Return names, types and categories of the columns of a record."""
    types = [str(dtype) for dtype in record.field_types()]
    limits = [known and known.categorical_limit for known in record.field_metadata()]
    return [list(each) for each in zip(record.field_names(), types, limits)]  # noqa: B905


def operators(net: Any) -> list[list[Any]]:
    """Return what the operators of a net are given, and what they write."""
    return [[op.type, *op.output, *[[arg.name, arg.i, list(arg.ints)] for arg in op.arg]] for op in net.Proto().op]


def facts(schema: Any, core: Any, record: Any, before: Any) -> dict[str, Any]:
    """Return what is to be known of a record, alone and beside another one."""
    names = record.field_names()
    made, empty = core.Net("made"), core.Net("empty")
    blobs = schema.NewRecord(made, record)
    schema.InitEmptyRecord(empty, record)
    again = outcome(lambda: columns(schema.from_column_list(names, record.field_types())))
    rest = outcome(lambda: columns(record - before))
    return {
        "columns": columns(record),
        "text": str(blobs).splitlines(),
        "places": [[child.slice().start, child.slice().stop] for child in record.fields.values()],
        "blobs": [str(blob) for blob in blobs.field_blobs()],
        "empty": operators(empty),
        "again": again,
        "sum": outcome(lambda: columns(record + before)),
        "rest": rest,
        "subset": schema.is_schema_subset(before, record + before) if isinstance(rest, list) and not rest else None,
        "found": [name in record for name in names],
        "equal": [record == record.clone(), record == before, schema.equal_schemas(record, before, False, False)],
    }


def recorded() -> list[dict[str, Any]]:
    """Return the facts of all records."""
    from caffe2.python import core, schema

    draw = random.Random(5)
    records = [drawn(schema, draw) for _ in range(RECORDS)]
    return [facts(schema, core, *pair) for pair in zip(records, [records[-1], *records])]  # noqa: B905


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(recorded(), file, separators=(",", ":"))
        file.write("\n")
