"""Every operator has a case of the kind that its schema implies, so that `check_op` judges it from its first day.

What keeps something, or works on blobs that are no tensors or on the world outside, has a `Sequence`; what owns nets a
`Nested`; the others compute arrays from arrays and have a `Case`, or one of the operator whose gradient they are.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import cast

from tazza.operator import SCHEMAS, Effects, OpSchema
from tazza.operator.choice import find_kernel
from tazza.proto import NetDef
from tests.nested_case import Nested
from tests.sequences import Sequence

FAMILIES = Path(__file__).parents[1] / "ops"


def kind_of(schema: OpSchema) -> type | None:
    """Return the kind of cases that a schema implies, None: arrays, whose law is in `test_every_operator.py`."""
    if any(spec.takes(NetDef) for spec in schema.args.values()):
        return Nested
    others = any(spec.type_name is not None for spec in (*schema.inputs, *schema.outputs))
    keeps = not isinstance(schema.effects, Effects) or schema.effects >= Effects.STATE
    hosted = find_kernel(schema.type, "cpu", "reference").host is not None
    return Sequence if others or keeps or hosted else None


def cases_in(module: ModuleType) -> Iterator[Sequence | Nested]:
    """Yield the cases of these kinds that a module of tests keeps, alone or in a list."""
    for value in vars(module).values():
        several = cast("list[object]", value) if isinstance(value, list) else [value]
        for one in several:
            if isinstance(one, (Sequence, Nested)):
                yield one


@cache
def judged(family: str) -> frozenset[tuple[type, str]]:
    """Return the kinds and types of the cases in a family's tests; types in the company of others count."""
    found: Iterable[Sequence | Nested] = cases_in(importlib.import_module(family))
    return frozenset((type(case), name) for case in found for name in case.types())


def family_of(schema: OpSchema) -> str:
    """Return the name of the test file of the family."""
    *field, family = schema.module.removeprefix("tazza.ops.").split(".")
    return ".".join(["tests", "ops", *field, f"test_{family}"])


def test_each_has_a_case_of_its_kind() -> None:
    kinds = {type: kind_of(SCHEMAS[type]) for type in sorted(SCHEMAS.keys())}
    lacking = [
        f"{type} ({kind.__name__})"
        for type, kind in kinds.items()
        if kind is not None and (kind, type) not in judged(family_of(SCHEMAS[type]))
    ]
    assert lacking == [], "add a case to the table of the family's tests"
