"""Every offer has an estimate beside it in `explain()`: its kernel's, or what the operator's cost needs at the least."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from tazza.errors import TazzaError
from tazza.nets.explanation import Row, operator_row
from tazza.operator import SCHEMAS, Cost, LocalBlobs, Operator, find_schema
from tazza.operator.choice import Choice
from tazza.operator.estimate import estimated, least_ns
from tazza.testing.value import tensor_of
from tests.check import Case, engines_of
from tests.operator.test_batch_invariance import cases_of
from tests.operator.test_kinds import family_of
from tests.sampled import sampled


def rows_of(case: Case) -> Iterator[Row]:
    """Yield what each engine that computes a case says of it."""
    for engine in engines_of(case.type):
        blobs, definition = LocalBlobs(), case.definition(engine)
        for name, value in zip(definition.input, case.arrays(), strict=True):
            if name not in blobs.blobs:
                blobs.create_blob(name).set(tensor_of(value))
        operator = Operator(definition, blobs)
        try:
            with np.errstate(all="ignore"):
                operator.run()
            yield operator_row(operator)
        finally:
            operator.close()


def has_cases(type: str) -> bool:
    """Whether the tests of an operator's family have cases of it."""
    return bool(find_schema(type).module) and family_of(SCHEMAS[type]) != ""


@pytest.mark.slow
@pytest.mark.parametrize("type", sampled(filter(has_cases, sorted(SCHEMAS.keys())), 16))
def test_every_offer_has_an_estimate(type: str) -> None:
    for case in (case for case in cases_of(type) if case.type == type):
        try:
            rows = list(rows_of(case))
        except TazzaError:
            continue  # a case of an error that is declared
        for row in rows:
            offers = [choice for choice in row.choices if choice.offered]
            assert offers[-1].engine == row.engine
            for choice in offers:
                found = choice.least_ns if choice.estimate_ns is None else choice.estimate_ns
                assert found is not None, f"{type} {case.id}: {choice}"
                assert 0 <= found < math.inf
                assert str(choice).endswith(" us")


def test_a_floor_stands_beside_offers_that_say_nothing_alone() -> None:
    given = (
        Choice("a", False, "it cannot"),
        Choice("b", False, "could, about 2 us", 2000.0, could=True),
        Choice("c", False, "slower", None, 900.0, could=True),
        Choice("d", False, None),
    )
    cost = Cost(flops=3, bytes_read=1 << 30)
    lowest = least_ns(cost)
    told = estimated(given, cost, on_host=True)
    assert [one.least_ns for one in told] == [None, None, lowest, lowest]
    text = f"at least {lowest / 1000:.3g} us"
    assert list(map(str, told[1:])) == ["b: could, about 2 us", f"c: slower, {text}, timed 0.9 us", f"d: taken, {text}"]
    assert estimated(given, cost, on_host=False) == estimated(given, None, on_host=True) == given


def test_more_takes_longer() -> None:
    less, more = Cost(flops=10**6, bytes_read=10**6), Cost(flops=10**9, bytes_read=10**8)
    assert 0 == least_ns(Cost()) < least_ns(less) < least_ns(more)
