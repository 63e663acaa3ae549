"""What is inferred while a shape is unknown never contradicts what is inferred once it is known."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from tazza.errors import TazzaError
from tazza.operator import SCHEMAS, Spec, find_schema
from tazza.tensor import TensorSpec
from tests.operator.test_extremes import problems
from tests.sampled import sampled


def unknown(specs: Sequence[Spec | None]) -> Iterator[list[Spec | None]]:
    """Yield the specs with each rank, then each extent, unknown in turn."""
    for place, spec in enumerate(specs):
        if isinstance(spec, TensorSpec) and spec.dims is not None:
            dims = tuple(spec.dims)
            fewer = [(*dims[:axis], None, *dims[axis + 1 :]) for axis in range(len(dims))]
            for changed in (None, *fewer):
                yield [*specs[:place], replace(spec, dims=changed), *specs[place + 1 :]]


def contradicts(told: Spec | None, whole: Spec | None) -> bool:
    """Whether two specs of one output cannot both be true."""
    if not isinstance(told, TensorSpec) or not isinstance(whole, TensorSpec):
        return False
    if told.dtype is not whole.dtype:
        return True
    if told.dims is None or whole.dims is None:
        return False
    pairs = itertools.zip_longest(told.dims, whole.dims, fillvalue=-1)
    return any(None not in pair and pair[0] != pair[1] for pair in pairs) or len(told.dims) != len(whole.dims)


@pytest.mark.parametrize("type", sampled(sorted(SCHEMAS.keys())))
def test_what_is_inferred_with_less_is_true(type: str) -> None:
    schema = find_schema(type)
    for definition, specs in problems(type):
        try:
            op = schema.view(definition)
            whole = schema.infer_specs(op, specs).specs
        except TazzaError:
            continue  # not legal, or shapes follow from values
        for fewer in unknown(specs):
            found = schema.infer_specs(op, fewer).specs
            wrong = [(told, known) for told, known in zip(found, whole, strict=True) if contradicts(told, known)]
            assert wrong == [], f"{definition} with {fewer}"
