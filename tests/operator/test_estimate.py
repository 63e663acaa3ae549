"""Every offer has an estimate in `explain()`: its kernel's, or what the operator's cost needs at the least."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

from tazza.device import current_context
from tazza.errors import TazzaError
from tazza.nets.explanation import Row, operator_row
from tazza.operator import Cost, LaidOut, LocalBlobs, Operator, OpView, find_schema, operator_def, rank_engines
from tazza.operator.choice import Choice, ask_engines
from tazza.operator.estimate import estimated, least_ns
from tazza.proto import OperatorDef
from tazza.tensor import CPUPlace, DataType, Layout, Opaque, TensorSpec
from tazza.tensor.offer import answered
from tazza.tensor.residue import comes_back, residue_bytes
from tazza.testing.value import tensor_of
from tests.check import engines_of
from tests.judge.draw import Problem, draw, drawable
from tests.sampled import sampled


def rows_of(problem: Problem) -> Iterator[Row]:
    """Yield what an operator says of itself behind a run on each engine that has a kernel of it."""
    for engine in engines_of(problem.type):
        blobs, definition = LocalBlobs(), OperatorDef()
        definition.CopyFrom(problem.definition)
        definition.engine = engine
        for name in problem.inputs:
            blobs.create_blob(name).set(tensor_of(problem.value(name)))
        operator = Operator(definition, blobs)
        with np.errstate(all="ignore"):
            operator.run()
        yield operator_row(operator)
        operator.close()


@pytest.mark.parametrize("type", sampled(drawable(), 16))
def test_every_offer_has_an_estimate(type: str) -> None:
    for row in rows_of(draw(type, 5)):
        offers = [choice for choice in row.choices if choice.offered]
        assert offers[-1].engine == row.engine
        for choice in offers:
            found = choice.least_ns if choice.estimate_ns is None else choice.estimate_ns
            assert found is not None, str(choice)
            assert 0 <= found < math.inf
            assert " us" in str(choice)


def held_bytes(op: OpView, inputs: Sequence[TensorSpec]) -> Iterator[tuple[str, int, int]]:
    """Yield for each offer that is compared with others who made it, and what it holds.

    That is, as it says, and the bytes of copies that do not come back, with what they are copies of.
    """
    try:
        inferred = op.schema.infer_specs(op, inputs).specs
    except TazzaError:  # they follow from what is in the inputs
        return
    outputs = [spec for spec in inferred if isinstance(spec, TensorSpec) and spec.shape_known]
    if len(outputs) < len(inferred):
        return
    asking = ask_engines(op, rank_engines(op.type, "cpu", ""), current_context(CPUPlace()), inputs, outputs)
    while (found := asking.best()) is not None:
        if found[1].estimate_ns is None:
            continue
        answer = answered(found[1].run)
        layouts: Mapping[str, Layout] = answer.layouts if isinstance(answer, LaidOut) else {}
        held = 0
        for letter, spec in zip(op.input_letters, inputs, strict=True):
            layout = layouts.get(letter)
            if isinstance(layout, Opaque) and layout.derived:
                held += layout.nbytes
                held += residue_bytes(spec.size) - spec.nbytes if comes_back(layout) else 0
        yield found[0].engine, found[1].nbytes, held


@pytest.mark.parametrize("type", sampled(drawable(), 16))
def test_offers_say_what_they_hold(type: str) -> None:
    """Weights in a form that rounds lie there, with a residue beside, or twice, which has its price."""
    problem = draw(type, 5)
    inputs = [tensor_of(problem.value(name)).spec for name in problem.definition.input]
    for engine, said, held in held_bytes(problem.schema.view(problem.definition), inputs):
        assert said == held, engine


@pytest.mark.parametrize("rows", [1, 16, 64, 200])
@pytest.mark.parametrize("K", [704, 700])
def test_offers_for_large_weights_say_what_they_hold(rows: int, K: int) -> None:
    """None are drawn that are large enough for panels, or for pieces of bfloat16."""
    op = find_schema("FC").view(operator_def("FC", ["X", "W", "b"], ["Y"]))
    for engine, said, held in held_bytes(
        op, [TensorSpec(dims, DataType.FLOAT) for dims in ((rows, K), (800, K), (800,))]
    ):
        assert said == held, engine


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
