"""Every operator with every argument at the edges of its type: what follows is a result or a typed error, at once.

No memory of the outputs is asked for, nothing runs: this is what `tazza show`, plans and kernels ask first.
"""

from __future__ import annotations

import itertools
import resource
import warnings
from collections.abc import Generator, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest

from tazza.errors import TazzaError
from tazza.operator import SCHEMAS, ArgSpec, OpSchema, Spec, find_schema, make_argument
from tazza.proto import OperatorDef
from tazza.tensor import DataType, Int8Tensor, TensorSpec
from tazza.testing.value import Value
from tazza.testing.value import spec_of as int8_spec
from tests import golden
from tests.fuzz import extremes, feeds
from tests.fuzz.guard import limit_memory
from tests.fuzz.nets import drawn_operator

DRAWN = 1
"""Problems that are drawn of each operator, beside those that are recorded."""
RECORDED, MORE = 1, 1
"""Those that are recorded, and how many more there are with `--soak`."""
EXTENTS = (0, 1, 2, 2**31, 2**40, None)

Problem = tuple[OperatorDef, list[Spec | None]]


def problems(type: str, recorded: int = RECORDED + MORE) -> Iterator[Problem]:
    """Yield operators with inputs: so many recorded ones, and some that the schema lets draw."""
    found = itertools.islice(golden.recordings(type), recorded) if type in golden.operators() else ()
    for recording in found:
        yield recording.definition, [_spec(value) for value in recording.inputs]
    for seed in range(DRAWN):
        ops, fed = drawn_operator(Random(f"{type} {seed}"), find_schema(type))
        yield ops[0], [spec_of(fed[name]) for name in ops[0].input]


def _spec(value: Value) -> Spec | None:
    return int8_spec(value) if isinstance(value, Int8Tensor) else spec_of(feeds.of_array(value))


def spec_of(feed: feeds.Feed) -> Spec | None:
    """Return the spec of what is fed; None for what is no tensor."""
    if feed.dtype == "text":
        return None
    return TensorSpec(feed.dims, next(each for each in DataType if each.label == feed.dtype))


def values(spec: ArgSpec) -> Iterator[Any]:
    """Yield values at the edges of an argument's type."""
    label = str(spec.type)
    several = "list" in label or "Sequence" in label
    for words, edges in (
        (("int", "bool"), extremes.INTS),
        (("float",), extremes.FLOATS),
        (("str", "bytes"), extremes.TEXTS),
    ):
        if any(word in label for word in words):
            yield from ([*[edge] * count] for edge in edges for count in (1, 3)) if several else edges
    if several:
        yield []
        if "int" in label:
            yield from ([0, 1, 2, 3, 4], [-1, 0], [2**62] * 4, [2**62] * 400, [1] * 40)


def follow(op: OperatorDef, inputs: list[Spec | None]) -> None:
    """Ask all that is asked of an operator before it runs."""
    schema: OpSchema = find_schema(op.type)
    view = schema.view(op)
    schema.batched_inputs(view)
    specs = schema.infer_specs(view, inputs).specs
    schema.infer_specs(view, [None] * len(inputs))
    known = [spec for spec in specs if spec is not None and (not isinstance(spec, TensorSpec) or spec.shape_known)]
    if len(known) == len(specs) and None not in inputs:
        cost = schema.infer_cost(view, inputs, known)
        assert min(cost.flops, cost.bytes_read, cost.bytes_written) >= 0


def wrong(op: OperatorDef, inputs: list[Spec | None]) -> str | None:
    """Return what is wrong with what follows, None when it is a result or a typed error."""
    try:
        follow(op, inputs)
    except TazzaError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def all_wrong(ops: Iterator[tuple[str, OperatorDef, list[Spec | None]]]) -> dict[str, str]:
    """Return what is wrong with what follows for some operators, by what was changed in them."""
    found: dict[str, str] = {}
    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("error")
        for changed, op, inputs in ops:
            told = wrong(op, inputs)
            if told is not None:
                found.setdefault(f"{changed}: {told[:40]}", f"{op} {inputs} {told}"[:1000])
    return found


def with_arguments(type: str, recorded: int) -> Iterator[tuple[str, OperatorDef, list[Spec | None]]]:
    """Yield operators of a type, each with one argument at an edge."""
    for definition, inputs in problems(type, recorded):
        for spec in find_schema(type).args.values():
            op = OperatorDef()
            op.CopyFrom(definition)
            del op.arg[:]
            op.arg.extend(argument for argument in definition.arg if argument.name != spec.name)
            for value in values(spec):
                with suppress(ValueError, OverflowError):  # nobody can store it
                    made = OperatorDef()
                    made.CopyFrom(op)
                    made.arg.append(make_argument(spec.name, value))
                    yield spec.name, made, inputs


def with_extents(type: str, recorded: int) -> Iterator[tuple[str, OperatorDef, list[Spec | None]]]:
    """Yield operators of a type with inputs of which one extent, or the rank, is at an edge; or unknown."""
    for definition, inputs in problems(type, recorded):
        for position, spec in enumerate(inputs):
            if not isinstance(spec, TensorSpec) or spec.dims is None:
                continue
            dims = tuple(spec.dims)
            changed = [(*dims[:axis], extent, *dims[axis + 1 :]) for axis in range(len(dims)) for extent in EXTENTS]
            for extents in (*changed, (), (0,), dims[1:], (*dims, 1), (1,) * 9, None):
                made = list(inputs)
                made[position] = TensorSpec(extents, spec.dtype)
                yield f"extents of input {position}", definition, made


@pytest.fixture(autouse=True)
def bounded() -> Generator[None]:
    """Let what asks for the memory of a list of 2**31 fail instead of taking it."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit_memory(4 * 2**30)
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.slow
@pytest.mark.parametrize("type", sorted(SCHEMAS.keys()))
def test_every_argument_at_its_edges(type: str, soak: int) -> None:
    assert all_wrong(with_arguments(type, RECORDED + MORE * (soak > 1))) == {}


@pytest.mark.slow
@pytest.mark.parametrize("type", sorted(SCHEMAS.keys()))
def test_every_extent_at_its_edges(type: str, soak: int) -> None:
    assert all_wrong(with_extents(type, RECORDED + MORE * (soak > 1))) == {}
