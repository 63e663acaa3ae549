"""Element types of 16 bits on a CUDA device: what is computed in float32 is rounded once, forward and backward.

The judge is the reference kernel on the host, which is given the same numbers in float32.
"""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tazza.device import device_option
from tazza.errors import DTypeError, UnsupportedError
from tazza.operator import HALVES, SCHEMAS, OpSchema, OpView, Spec, find_schema, gradient_for_op
from tazza.operator.gradient import GradientRule
from tazza.proto import DeviceOption, OperatorDef
from tazza.tensor import CUDAPlace, DataType, TensorSpec
from tazza.testing import Case
from tazza.testing.running import engine_that_ran, run
from tazza.testing.value import TOLERANCE, Array
from tests.device.cuda_cases import cases_in, sampled
from tests.engines.cuda.models import ENGINES, engines_of

DEVICE = CUDAPlace(0)
NARROW = sorted(HALVES, key=lambda dtype: dtype.label)
HALF_STEP = {DataType.FLOAT16: 2.0**-11, DataType.BFLOAT16: 2.0**-8}
"""Relative: as far as the nearest number of a type is from any number."""
LEAST_STEP = {DataType.FLOAT16: 2.0**-25, DataType.BFLOAT16: 2.0**-134}
"""The same near 0."""


SEED, GRADIENT_SLACK, ENOUGH = 5, 4, 2
TWICE = frozenset({"ConvTranspose"})
"""What rounds twice: the library adds a bias to what is rounded already, as Caffe2 let it."""


def narrow_letters(schema: OpSchema) -> set[str]:
    """Return the inputs that may be of 16 bits on a device: those that say so, and what has their type."""
    found = {spec.name for spec in schema.inputs if spec.elsewhere}
    return found | {spec.name for spec in schema.inputs if spec.dtypes in found}


def free_letters(schema: OpSchema) -> set[str]:
    """Return the inputs whose type a rule checks, if anybody."""
    return {spec.name for spec in schema.inputs if spec.dtypes is None}


@functools.cache
def narrow_types() -> list[str]:
    """Return the operator types that take 16 bits, and have a kernel for CUDA devices."""
    found = [type for type in SCHEMAS if any(spec.elsewhere for spec in find_schema(type).inputs)]
    return [type for type in found if set(engines_of(type)) & {*ENGINES}]


def cases() -> Iterator[Case]:
    """Yield the cases of the families of these types."""
    types = {*narrow_types()}
    modules = sorted({find_schema(type).module.replace("tazza.ops", "tests.ops") for type in types})
    for name in modules:
        package, _, family = name.rpartition(".")
        for case in cases_in(importlib.import_module(f"{package}.test_{family}")):
            if case.type in types:
                yield case


def narrowed(op: OpView, inputs: Sequence[Array], dtype: DataType) -> list[Array]:
    """Return inputs, those that may be so in 16 bits."""

    def of(letters: set[str]) -> list[Array]:
        pairs = zip(op.input_letters, inputs, strict=True)
        with np.errstate(over="ignore"):
            return [x.astype(dtype.numpy) if at in letters and x.dtype == np.float32 else x for at, x in pairs]

    own, there = narrow_letters(op.schema), op.schema.view(placed(op.definition, on_device=True))
    everything = of(own | free_letters(op.schema))
    try:
        inferred(there, everything)
    except DTypeError:
        return of(own)
    return everything


def widened(x: Array) -> Array:
    """Return numbers of 16 bits in float32, all others as they are."""
    return x.astype(np.float32) if DataType.of(x) in HALVES else x


def placed(definition: OperatorDef, *, on_device: bool) -> OperatorDef:
    """Return an operator on the device, or on the host; what is drawn is the same."""
    made = OperatorDef()
    made.CopyFrom(definition)
    made.device_option.CopyFrom(device_option(DEVICE) if on_device else DeviceOption())
    made.device_option.random_seed = SEED
    return made


def inferred(op: OpView, inputs: Sequence[Array]) -> Sequence[Spec | None]:
    """Return what is inferred of the outputs."""
    specs = [TensorSpec(x.shape, DataType.of(x)) for x in inputs]
    return op.schema.infer_specs(op, specs, lambda letter: inputs[op.input_letters.index(letter)]).specs


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
        read = [(blobs | given)[name] for name in step.input]
        made = check_there(step, read, engines_of(step.type)[0], GRADIENT_SLACK * case.slack)
        if made is None:
            return ran
        ran.add(step.type)
        blobs.update(zip(step.output, made, strict=True))
    return ran


CASES = list(cases())


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("case", sampled(CASES, 5), ids=lambda case: f"{case.type} {case.id}")
def test_what_is_computed_in_float32_is_rounded_once(case: Case, dtype: DataType) -> None:
    for engine in engines_of(case.type):
        check(case, engine, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_type_that_says_so_takes_16_bits(dtype: DataType) -> None:
    """Forward or as part of a gradient; a few cases of each will do."""
    ran, tried = set[str](), Counter[str]()
    for case in CASES:
        if tried[case.type] < ENOUGH:
            found = {type for engine in engines_of(case.type) for type in check(case, engine, dtype)}
            tried[case.type] += bool(found)
            ran |= found
    assert ran == {*narrow_types()}
