"""The old names give what the genuine Caffe2 gave: recorded runs through `workspace`, gradients through `core`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from caffe2.python import core, workspace
from tazza.operator import SCHEMAS
from tazza.operator.gradient import NoGradient
from tests.golden import Recording, operators, recordings
from tests.int8 import fresh
from tests.operator.test_golden import OWN_GRADIENT, REFUSED, SLACK, assert_equal, naming
from tests.sampled import sampled


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


def feed(recording: Recording) -> None:
    """Feed what a recording read; of a blob that is no tensor, which is a mutex, the recording has a text."""
    for name, value in zip(recording.definition.input, recording.inputs, strict=True):
        if hasattr(value, "dtype") and value.dtype == object and b"native class" in value.item(0):  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            workspace.RunOperatorOnce(core.CreateOperator("CreateMutex", [], [core.BlobReference(name)]))
        else:
            workspace.FeedBlob(name, fresh(value))


def fetch(name: str) -> object:
    """Fetch a blob; one of whole numbers with a scale by the call for these."""
    try:
        return workspace.FetchBlob(name)
    except TypeError:
        return workspace.FetchInt8Blob(name)


@pytest.mark.parametrize("type", sampled(operators(), 40))
def test_outputs(type: str) -> None:
    for recording in recordings(type):
        with naming(recording):
            workspace.ResetWorkspace()
            feed(recording)
            assert workspace.RunOperatorOnce(recording.definition)
            drawn = recording.definition.device_option.HasField("random_seed")
            for name, wanted in zip(recording.definition.output, recording.outputs, strict=True):
                assert_equal(fetch(name), wanted, SLACK.get(recording.name, 1.0), bits=drawn)


@pytest.mark.parametrize("type", sampled(operators(), 10))
def test_gradients(type: str) -> None:
    for recording in recordings(type):
        with naming(recording):
            rule = SCHEMAS[type].gradient_rule
            given = [f"{name}_grad" for name in recording.definition.output]
            if recording.name in REFUSED or (isinstance(rule, NoGradient) and not rule.quiet):
                assert recording.gradient == []
                with pytest.raises(Exception, match="Exception when creating gradient for"):
                    core.GradientRegistry.GetGradientForOp(recording.definition, given)
                continue
            ops, inputs = core.GradientRegistry.GetGradientForOp(recording.definition, given)
            assert (ops == recording.gradient) == (type not in OWN_GRADIENT)
            assert len(inputs) == len(recording.definition.input)
