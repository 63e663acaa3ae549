"""Every operator writes every element of every output, on every engine: what memory held before shows nowhere.

All memory that allocators give (outputs, scratch, the arenas of plans) is filled with a pattern first. Runs under
different patterns must give the same bits.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tazza.device import CPUContext
from tazza.errors import TazzaError
from tazza.operator import (
    KERNELS,
    SCHEMAS,
    LocalBlobs,
    Operator,
    blob,
    ends,
    gradient_for_op,
    kernel,
    operator_def,
    schema,
)
from tazza.operator.gradient import GradientRule
from tazza.proto import Argument, NetDef, OperatorDef
from tazza.tensor import Allocation
from tazza.tensor.allocation import Allocator
from tazza.testing.value import data_of, tensor_of
from tazza.workspace import Workspace
from tests.check import engines_of
from tests.judge.draw import CannotDraw, Problem, compute, draw, drawable, gradients, in_bfloat16
from tests.judge.hand import Array
from tests.sampled import sampled

PATTERNS = (0xFF, 0x5A, 0x00)
"""Bytes that memory is filled with: NaN and -1, large numbers, zeros."""


@contextmanager
def poisoned(pattern: int) -> Generator[list[int]]:
    """Fill all memory that is allocated with a byte; yields a list of how many bytes each allocation had."""
    allocate, sizes = Allocator.allocate, list[int]()

    def fill(self: Allocator, nbytes: int, holder: str = "") -> Allocation:
        found = allocate(self, nbytes, holder)
        if found.nbytes > 0:
            found.buffer[:] = pattern
            sizes.append(found.nbytes)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Allocator, "allocate", fill)
        yield sizes


def run(problem: Problem, engine: str, pattern: int) -> dict[str, Array] | None:
    """Return the outputs of one run in poisoned memory; None where the engine leaves the problem to another one."""
    definition = seeded(problem, engine)
    blobs = LocalBlobs()
    for name in problem.inputs:
        blobs.create_blob(name).set(tensor_of(problem.value(name)))
    with poisoned(pattern) as sizes, np.errstate(all="ignore"):
        operator = Operator(definition, blobs, strict=True)
        try:
            operator.run(CPUContext())
            taken = next(choice.engine for choice in operator.choices if choice.reason is None)
            results = {name: np.array(blobs.blobs[name].tensor().plain()) for name in definition.output}
        finally:
            operator.close()
    fresh = set(definition.output) - set(definition.input)
    assert sizes or all(results[name].nbytes == 0 for name in fresh if results[name].dtype != object)
    return results if taken == engine else None


def seeded(problem: Problem, engine: str) -> OperatorDef:
    """Return the definition of a problem for an engine, which draws the same numbers in every run."""
    definition = OperatorDef.FromString(problem.definition.SerializeToString())
    definition.engine = engine
    definition.device_option.random_seed = 3
    return definition


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays are equal, NaN included."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()


def check_written(problem: Problem, engine: str) -> bool:
    """Check one problem on one engine; False where that leaves it to another one."""
    first = run(problem, engine, PATTERNS[0])
    if first is None:
        return False
    for pattern in PATTERNS[1:]:
        again = run(problem, engine, pattern)
        assert again is not None
        for name, value in first.items():
            assert same_bits(value, again[name]), (
                f"{problem} on {engine}: {name} is {value} in memory of 0xFF, {again[name]} in {pattern:#x}"
            )
    return True


def check_written_by_plans(problem: Problem) -> None:
    """Check one problem in a plan, whose memory is an arena."""
    net = NetDef(
        name="n",
        type="plan",
        op=[seeded(problem, "")],
        external_input=list(problem.inputs),
        external_output=list(dict.fromkeys(problem.definition.output)),
    )
    net.arg.append(Argument(name="inputs", strings=[name.encode() for name in problem.inputs]))
    found: list[dict[str, Array]] = []
    for pattern in PATTERNS[:2]:
        workspace = Workspace()
        for name in problem.inputs:
            workspace.feed(name, problem.value(name))
        with poisoned(pattern), np.errstate(all="ignore"):
            workspace.run_net_once(net)
            found.append({name: np.array(data_of(workspace.fetch(name))) for name in net.external_output})
    for name, value in found[0].items():
        assert same_bits(value, found[1][name]), f"{problem} in a plan: {name} is {value}, {found[1][name]}"


def problems(type: str, seed: int) -> Iterator[Problem]:
    """Yield a problem of an operator, and those of its gradient."""
    found = draw(type, seed)
    yield found
    try:
        yield from gradients(found, compute(found))
    except (TazzaError, CannotDraw):
        return  # its gradient is not for such a problem


@pytest.mark.parametrize("type", sampled(drawable()))
def test_outputs_are_written(type: str) -> None:
    assert check_written(draw(type, 0), "reference")


@pytest.mark.slow
@pytest.mark.parametrize("type", drawable())
def test_outputs_are_written_on_every_engine(type: str) -> None:
    """The reference takes every problem, and where there are gradient operators some of them are theirs."""
    backward = 0
    for seed in range(1, 8):
        for number, problem in enumerate(problems(type, seed)):
            ran = {engine: check_written(problem, engine) for engine in engines_of(problem.type)}
            assert ran["reference"]
            backward += number > 0
        if backward or not emits(type):
            break
    assert backward or not emits(type) or in_bfloat16(type)
    check_written_by_plans(draw(type, 1))


def emits(type: str) -> bool:
    """Whether an operator has a gradient of other operators: some pass on what they get."""
    if not isinstance(SCHEMAS[type].gradient_rule, GradientRule):
        return False
    view = SCHEMAS[type].view(draw(type, 1).definition)
    try:
        return bool(gradient_for_op(view, [f"{name}_grad" for name in view.definition.output])[0])
    except TazzaError:
        return True


def test_an_output_that_is_not_written_is_found() -> None:
    """The law itself: a kernel that leaves out its last element fails it."""
    made = schema("TestForgets", "Y = X.", inputs=[blob("X")], outputs=[blob("Y", like="X")], no_gradient=ends(""))

    def forget(X: Any, Y: Any) -> None:
        Y[:-1] = X[:-1]

    kernel(made)(forget)
    try:
        problem = Problem(operator_def("TestForgets", ["X"], ["Y"]), {"X": np.ones(5, np.float32)})
        with pytest.raises(AssertionError, match=r"Y is .* in memory of 0xFF"):
            check_written(problem, "reference")
        with pytest.raises(AssertionError, match="in a plan: Y is"):
            check_written_by_plans(problem)
    finally:
        SCHEMAS.unregister("TestForgets")
        KERNELS.unregister(("TestForgets", "cpu", "reference"))
