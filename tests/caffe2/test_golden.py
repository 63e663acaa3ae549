"""The old names give what the genuine Caffe2 gave: recorded runs through `workspace`, gradients through `core`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from caffe2.python import core, workspace
from tazza.operator import SCHEMAS
from tazza.operator.gradient import NoGradient
from tazza.runtime.fp_exceptions import THROW
from tazza.testing.value import fresh
from tests.golden import Recording, forget_statistics, operators, recordings
from tests.operator.test_golden import (
    ALL_RUNS,
    OWN_GRADIENT,
    OWN_GRADIENT_OF_ALL,
    REFUSED,
    SLACK,
    assert_equal,
    naming,
)
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


def run_recording(recording: Recording, slack: float) -> None:
    """Run a recording through `workspace`, and compare what it leaves with what was recorded."""
    workspace.ResetWorkspace()
    forget_statistics()
    feed(recording)
    with np.errstate(all="ignore"):
        assert workspace.RunOperatorOnce(recording.definition)
    drawn = recording.definition.device_option.HasField("random_seed")
    for name, wanted in zip(recording.definition.output, recording.outputs, strict=True):
        assert_equal(fetch(name), wanted, slack, bits=drawn)


@pytest.mark.parametrize("type", sampled(operators(), 40))
def test_a_flag_that_asks_for_exceptions_changes_no_number(type: str) -> None:
    """Nothing that is recorded divides by zero or is not defined."""
    for recording in recordings(type):
        with naming(recording), THROW.override(True):
            run_recording(recording, SLACK.get(recording.name, 1.0))


def check_gradient(recording: Recording) -> None:
    """Compare the gradient that `core` makes with the recorded one, or see that it is refused."""
    type = recording.definition.type
    rule = SCHEMAS[type].gradient_rule
    given = [f"{name}_grad" for name in recording.definition.output]
    if recording.name in REFUSED or (isinstance(rule, NoGradient) and not rule.quiet):
        assert recording.gradient == []
        with pytest.raises(Exception, match="Exception when creating gradient for"):
            core.GradientRegistry.GetGradientForOp(recording.definition, given)
        return
    ops, inputs = core.GradientRegistry.GetGradientForOp(recording.definition, given)
    assert (ops == recording.gradient) == (type not in OWN_GRADIENT)
    assert len(inputs) == len(recording.definition.input)


@pytest.mark.parametrize("type", sampled(operators(), 40))
def test_outputs(type: str) -> None:
    for recording in recordings(type):
        with naming(recording):
            run_recording(recording, SLACK.get(recording.name, 1.0))


@pytest.mark.parametrize("type", sampled(operators(), 10))
def test_gradients(type: str) -> None:
    for recording in recordings(type):
        with naming(recording):
            check_gradient(recording)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*arguments without effect")
def test_whatever_ran_there_runs_under_the_old_names() -> None:
    """All runs that were ever recorded of what is registered; `pytest -s` tells how many."""
    if not ALL_RUNS.is_dir():
        pytest.skip(f"there is no folder '{ALL_RUNS}'; TAZZA_SHARED can name the one that holds reference/golden")
    counts: Counter[str] = Counter()
    for path in sorted(ALL_RUNS.glob("*.npz")):
        for recording in recordings(path.stem, ALL_RUNS):
            counts["recorded"] += 1
            if path.stem not in SCHEMAS:
                counts["no operator"] += 1
                continue
            with naming(recording):
                run_recording(recording, slack=10)
                if recording.name in OWN_GRADIENT_OF_ALL:
                    with pytest.raises(Exception, match=r"assert|Exception when creating gradient for"):
                        check_gradient(recording)
                    counts["gradient of its own"] += 1
                else:
                    check_gradient(recording)
            counts["passed"] += 1
    assert counts["passed"] + counts["no operator"] == counts["recorded"]
    assert counts["passed"] > 600
    print(dict(counts))
