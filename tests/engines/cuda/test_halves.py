"""Element types of 16 bits on a CUDA device: what is computed in float32 is rounded once, forward and backward.

The judge is the reference kernel on the host, which is given the same numbers in float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from tazza.errors import UnsupportedError
from tazza.operator import HALVES, OpView, find_schema, gradient_for_op
from tazza.operator.gradient import GradientRule
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec
from tazza.testing import Case
from tazza.testing.running import engine_that_ran, run
from tazza.testing.value import TOLERANCE, Array
from tests.device.cuda_cases import all_cases, every_case
from tests.engines.cuda.halves import NARROW, cases_of, inferred, narrow_types, narrowed, placed, widened
from tests.engines.cuda.models import engines_of

HALF_STEP = {DataType.FLOAT16: 2.0**-11, DataType.BFLOAT16: 2.0**-8}
"""Relative: as far as the nearest number of a type is from any number."""
LEAST_STEP = {DataType.FLOAT16: 2.0**-25, DataType.BFLOAT16: 2.0**-134}
"""The same near 0."""


GRADIENT_SLACK, ENOUGH = 4, 2
TWICE = frozenset({"ConvTranspose"})
"""What rounds twice: the library adds a bias to what is rounded already, as Caffe2 let it."""


def check_there(definition: OperatorDef, inputs: Sequence[Array], engine: str, slack: float) -> list[Array] | None:
    """Run an operator on the device and, in float32, on the host; None where the engine refuses it."""
    wanted, _ = run(placed(definition, on_device=False), [widened(x) for x in inputs], "reference")
    try:
        got, operator = run(placed(definition, on_device=True), inputs, engine)
    except UnsupportedError:
        return None
    if engine_that_ran(operator) != engine:
        return None
    specs = inferred(operator.op, inputs)
    for letter, one, other, spec in zip(operator.op.output_letters, got, wanted, specs, strict=True):
        assert isinstance(spec, TensorSpec)
        assert DataType.of(one) is spec.dtype, f"{letter} is inferred to be {spec}"
        what = f"{letter} of {definition.type} on {engine}"
        if definition.type in TWICE and DataType.of(one) in HALVES:
            step = HALF_STEP[DataType.of(one)]
            np.testing.assert_allclose(widened(one), other, 4 * step, 2 * step, err_msg=what)
        else:
            assert_rounded_once(one, other, slack, what)
    return got


def assert_rounded_once(got: Array, wanted: Array, slack: float, what: str) -> None:
    """Compare with what is computed in float32, to its tolerance and half a step of the narrow type."""
    dtype = DataType.of(got)
    if not dtype.is_float:
        np.testing.assert_array_equal(got, wanted, err_msg=what)
        return
    relative, absolute = (slack * one for one in TOLERANCE["float32"])
    if dtype in HALVES:
        with np.errstate(over="ignore"):  # what is beyond float16 is infinite
            wanted = np.where(
                np.isinf(wanted.astype(dtype.numpy).astype(np.float32)), wanted.astype(dtype.numpy), wanted
            )
        relative, absolute = relative + HALF_STEP[dtype], absolute + LEAST_STEP[dtype]
    np.testing.assert_allclose(widened(got), wanted.astype(np.float32), relative, absolute, err_msg=what)


def check(case: Case, engine: str, dtype: DataType) -> set[str]:
    """Check a case in 16 bits, and what its gradient emits, step by step; return the types of what ran."""
    definition = case.definition()
    op = find_schema(case.type).view(definition)
    inputs = narrowed(op, case.arrays(), dtype)
    if not any(DataType.of(x) is dtype for x in inputs):
        return set()
    outputs = check_there(definition, inputs, engine, case.slack)
    if outputs is None:
        return set()
    gradient = case.gradient and isinstance(op.schema.gradient_rule, GradientRule)
    return {case.type} | (check_gradient(case, op, inputs, outputs) if gradient else set())


def check_gradient(case: Case, op: OpView, inputs: Sequence[Array], outputs: Sequence[Array]) -> set[str]:
    """Check each operator of a gradient by itself, on the first engine that has it."""
    random, ran = np.random.default_rng(1), set[str]()
    blobs = dict(zip((*op.definition.input, *op.definition.output), (*inputs, *outputs), strict=True))
    given = {
        f"{name}_grad": random.standard_normal(y.shape).astype(y.dtype)
        for name, y in zip(op.definition.output, outputs, strict=True)
        if DataType.of(y).is_float
    }
    asked = [f"{name}_grad" if f"{name}_grad" in given else None for name in op.definition.output]
    emitted, _ = gradient_for_op(op, asked)
    for step in emitted:
        read, engines = [(blobs | given)[name] for name in step.input], engines_of(step.type)
        made = check_there(step, read, engines[0], GRADIENT_SLACK * case.slack) if engines else None
        if made is None:
            return ran
        ran.add(step.type)
        blobs.update(zip(step.output, made, strict=True))
    return ran


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("case", cases_of(all_cases), ids=lambda case: f"{case.type} {case.id}")
def test_what_is_computed_in_float32_is_rounded_once(case: Case, dtype: DataType) -> None:
    for engine in engines_of(case.type):
        check(case, engine, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_type_that_says_so_takes_16_bits(dtype: DataType) -> None:
    """Forward or as part of a gradient; a few cases of each will do."""
    ran, tried = set[str](), Counter[str]()
    for case in cases_of(every_case):
        if tried[case.type] < ENOUGH:
            found = {type for engine in engines_of(case.type) for type in check(case, engine, dtype)}
            tried[case.type] += bool(found)
            ran |= found
    assert ran == {*narrow_types()}
