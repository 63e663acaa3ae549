"""Every operator that tazza has gives what the genuine Caffe2 gave: outputs, and the gradient operators it emits."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from tazza.errors import GradientError
from tazza.operator import SCHEMAS, LocalBlobs, Operator, find_schema, gradient_for_op
from tazza.operator.gradient import GradientRule
from tazza.proto import OperatorDef
from tazza.tensor import Tensor
from tests.check import engines_of
from tests.golden import FOLDER, Recording, operators, recordings

ALL = [recording for type in operators() for recording in recordings(type)]


def run_recording(recording: Recording, engine: str) -> None:
    """Run a recording on an engine and compare every output."""
    blobs = LocalBlobs()
    for name, value in zip(recording.definition.input, recording.inputs, strict=True):
        blobs.create_blob(name).set(Tensor.from_numpy(value))
    definition = OperatorDef()
    definition.CopyFrom(recording.definition)
    definition.engine = engine
    operator = Operator(definition, blobs)
    with np.errstate(all="ignore"):
        operator.run()
    if operator.choices:
        assert operator.choices[-1].engine == engine
    for blob, wanted in zip(operator.outputs, recording.outputs, strict=True):
        got = blob.tensor().plain()
        assert got.shape == wanted.shape
        assert got.dtype == wanted.dtype
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(got, wanted)
    operator.close()


@pytest.mark.parametrize(
    ("recording", "engine"),
    [pytest.param(r, e, id=f"{r.name}-{e}") for r in ALL for e in engines_of(r.definition.type)],
)
def test_outputs(recording: Recording, engine: str) -> None:
    run_recording(recording, engine)


WITH_GRADIENT = [r for r in ALL if r.gradient or isinstance(find_schema(r.definition.type).gradient_rule, GradientRule)]


@pytest.mark.parametrize("recording", WITH_GRADIENT, ids=lambda r: r.name)
def test_gradient_definitions(recording: Recording) -> None:
    op = find_schema(recording.definition.type).view(recording.definition)
    given = [f"{name}_grad" for name in recording.definition.output]
    if recording.gradient:
        assert gradient_for_op(op, given)[0] == recording.gradient
        return
    # Nothing was recorded: Caffe2 emits nothing, or refuses (a Cast whose from_type is not said).
    with contextlib.suppress(GradientError):
        assert gradient_for_op(op, given)[0] == []


def test_every_operator_with_recordings_is_here() -> None:
    assert {path.stem for path in FOLDER.glob("*.npz")} <= set(SCHEMAS.keys())
