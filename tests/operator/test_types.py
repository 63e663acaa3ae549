"""Element types: what Caffe2 took, tazza takes, and gives what it gave; every gap has its reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import TazzaError
from tazza.operator import SCHEMAS, LocalBlobs, Operator
from tazza.tensor import DataType, Tensor
from tazza.testing.value import data_of
from tests.check import TOLERANCE, check_engine, engines_of
from tests.golden import operators
from tools.operator_types import GENERAL, REASONS, REFUSED, Entry, entries, recorded, results

OPERATORS = sorted(recorded())
ENGINES = sorted({engine for operator in OPERATORS for engine in engines_of(operator)} - {"reference"})


def test_every_operator_that_computes_tensors_is_in_the_table() -> None:
    assert set(OPERATORS) == set(operators()) & set(SCHEMAS.keys()), "run tools/record_types.py"


@pytest.mark.slow
def test_no_gap_is_without_its_reason() -> None:
    gaps = [one for operator in OPERATORS for one in entries(operator) if one.tazza != one.caffe2]
    unexplained = [f"{one.name}: Caffe2 {one.caffe2}, tazza {one.tazza}" for one in gaps if one.reason() is None]
    assert unexplained == []
    given = {one.reason() for one in gaps}
    assert given == {*GENERAL.values(), *REASONS.values()}, "a reason without a gap"
    assert set(REASONS) <= {(one.recording.definition.type, one.letters) for one in gaps}


@pytest.mark.slow
def test_values_are_those_of_caffe2() -> None:
    compared = 0
    for operator in OPERATORS:
        for one in taken(operator):
            compared += compare(one, "reference")
    assert compared > 900


@pytest.mark.slow
def test_what_the_schema_refuses_does_not_run(soak: int) -> None:
    """Every third of them, with `--soak` each."""
    for operator in OPERATORS:
        refused = [one for one in entries(operator) if one.tazza == REFUSED]
        for one in refused[:: 3 if soak == 1 else 1]:
            with pytest.raises(TazzaError):
                run(one, "reference")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_engines_give_the_same_or_refuse(engine: str) -> None:
    """An engine may leave a type to another one; what it takes must be right."""
    for operator in OPERATORS:
        if engine in engines_of(operator):
            for one in taken(operator):
                compare(one, engine)


def taken(operator: str) -> list[Entry]:
    """Return the questions that Caffe2 and tazza answer alike by results."""
    return [one for one in entries(operator) if REFUSED != one.caffe2 == one.tazza]


def run(entry: Entry, engine: str) -> list[NDArray[Any]]:
    """Run the operator on an engine, which may refuse; returns the outputs."""
    definition = entry.definition()
    definition.engine = engine
    blobs = LocalBlobs()
    for name, value in zip(definition.input, entry.inputs(), strict=True):
        blobs.create_blob(name).set(Tensor.from_numpy(value))
    operator = Operator(definition, blobs)
    with np.errstate(all="ignore"):
        operator.run()
    found = [np.array(data_of(blob.tensor().fetched())) for blob in operator.outputs]
    operator.close()
    check_engine(operator, engine, refusable=engine != "reference")
    return found


def compare(entry: Entry, engine: str) -> bool:
    """Compare the types of the outputs, and where they are recorded their values; returns whether they are."""
    found = run(entry, engine)
    assert ",".join(DataType.of(one).label for one in found) == entry.caffe2, entry.name
    raw = results().get(entry.name)
    if raw is None:
        return False
    for one in found:
        wanted, raw = split(raw, one)
        assert_alike(one, wanted, entry)
    assert raw == b"", f"{entry.name}: Caffe2 gave more"
    return True


def split(raw: bytes, like: NDArray[Any]) -> tuple[NDArray[Any], bytes]:
    """Cut what is recorded of one output off the front; behind each text stands a zero."""
    if DataType.of(like) is DataType.STRING:
        *texts, raw = raw.split(b"\0", like.size)
        return np.array(texts, object).reshape(like.shape), raw
    return np.frombuffer(raw[: like.nbytes], like.dtype).reshape(like.shape), raw[like.nbytes :]


def assert_alike(got: NDArray[Any], wanted: NDArray[Any], entry: Entry) -> None:
    """Assert equal values, floats to rounding."""
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted, err_msg=entry.name)
        return
    relative, absolute = TOLERANCE[got.dtype.name]
    np.testing.assert_allclose(got, wanted, rtol=10 * relative, atol=10 * absolute, err_msg=entry.name)
