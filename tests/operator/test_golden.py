"""Every operator that tazza has gives what the genuine Caffe2 gave: outputs, and the gradient operators it emits."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.errors import GradientError
from tazza.operator import SCHEMAS, LocalBlobs, Operator, find_schema, gradient_for_op, operator_def
from tazza.operator.gradient import NoGradient
from tazza.ops.sparse.feature import merge_gradients, merges
from tazza.proto import OperatorDef
from tazza.tensor import Int8Tensor
from tazza.testing.value import Value, assert_near, data_of, fresh, tensor_of
from tests.check import TOLERANCE, check_engine, engines_of
from tests.golden import FOLDER, Recording, forget_statistics, operators, recorded_in_company, recordings

ALL_RUNS = Path(os.environ.get("TAZZA_SHARED", Path(__file__).parents[3] / "shared")) / "reference" / "golden"
LIMIT = (1e-4, 1e-5)
"""(relative, absolute) that the recordings themselves allow; no slack goes beyond."""

SLACK = {
    "Conv3DGradient-case00": 2.0,
    "Conv3DGradient-case50": 4.0,
    "SpatialBNGradient-case01": 4.0,
    "SpatialBNGradient-case02": 5.0,
    "GenerateProposals-case03": 2.0,
    "BBoxTransform-case00": 4.0,
}
"""Factor on the tolerance of `tests.check`: sums over some hundred elements that nearly cancel, in another order.

Of proposals, a corner near 0 is the difference of a center of 16 and half a width of 16, which an exp has gone into. A
turned box with its center near 0 comes from one that lies 200 pixels away."""

OWN_GRADIENT = {"Sqr"}
"""Operators whose gradient is right where that of Caffe2 is not; the difference stands in docs/differences.md."""

OWN_GRADIENT_OF_ALL = {"MatMul-case01", "MatMul-case03", "MatMul-case04", "PRelu-case00"}
"""The same of the runs that are not kept here: the axis of a product, and an operator that overwrites its X."""

REFUSED = {
    **dict.fromkeys([f"Cast-case{number:02}" for number in (0, 1, 3, 4)], "'from_type'"),
    **dict.fromkeys(["AddPadding-case00", "AddPadding-case04"], "second output"),
    "RoIPool-case51": "argmaxes",
}
"""Recordings whose gradient Caffe2 refuses, with what is missing: a Cast does not know from what to cast back, padding
whose lengths nobody named is not taken off again, and nobody knows which element was the largest."""


@contextmanager
def naming(recording: Recording) -> Generator[None]:
    """Say of which recording a failure is: a test goes through all of an operator."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in recording {recording.name}")
        raise


def run_recording(recording: Recording, engine: str, slack: float | None = None) -> None:
    """Run a recording on an engine and compare every output, with that factor on the tolerance or its own."""
    forget_statistics()
    blobs = LocalBlobs()
    letters = find_schema(recording.definition.type).view(recording.definition).input_letters
    for name, letter, value in zip(recording.definition.input, letters, recording.inputs, strict=True):
        feed(blobs, name, find_schema(recording.definition.type).inputs_by_letter[letter].type_name, value)
    definition = OperatorDef()
    definition.CopyFrom(recording.definition)
    definition.engine = ",".join(
        filter(None, (engine, definition.engine))
    )  # a recorded one may say how numbers are found
    operator = Operator(definition, blobs)
    with np.errstate(all="ignore"):
        operator.run()
    check_engine(operator, engine)
    drawn = recording.definition.device_option.HasField("random_seed")
    for blob, wanted in zip(operator.outputs, recording.outputs, strict=True):
        factor = SLACK.get(recording.name, 1.0) if slack is None else slack
        assert_equal(blob.tensor().fetched(), wanted, factor, bits=drawn)
    operator.close()


def feed(blobs: LocalBlobs, name: str, type_name: str | None, value: Value) -> None:
    """Put a recorded input into a blob; of one that is no tensor the recording has the text that names its type."""
    if type_name in (None, "*") or isinstance(value, Int8Tensor):
        blobs.create_blob(name).set(tensor_of(fresh(value)))
        return
    assert type_name is not None
    assert type_name in value.item().decode()
    Operator(operator_def("CreateMutex", [], [name]), blobs).run()
    assert blobs.blobs[name].type_name == type_name


def assert_equal(got: Any, wanted: Value, slack: float, *, bits: bool) -> None:
    """Assert equal shape, dtype and values: all bits of what was drawn at random, other floats to rounding.

    Integers with a scale may be a step apart.
    """
    if isinstance(wanted, Int8Tensor):
        assert_near(got, wanted)
        return
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind == "f" and not bits:
        rtol, atol = (min(base * slack, limit) for base, limit in zip(TOLERANCE[got.dtype.name], LIMIT, strict=True))
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)
    elif wanted.dtype == np.float32:
        np.testing.assert_array_equal(np.ascontiguousarray(got).view(np.uint32), wanted.view(np.uint32))
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("type", "engine"),
    [
        # The definitions at every check; other engines are checked there by the cases of tests/ops, and here in full.
        pytest.param(type, engine, id=f"{type}-{engine}", marks=[] if engine == "reference" else [pytest.mark.slow])
        for type in operators()
        for engine in engines_of(type)
    ],
)
def test_outputs(type: str, engine: str) -> None:
    for recording in recordings(type):
        with naming(recording):
            run_recording(recording, engine)


@pytest.mark.slow
def test_whatever_ran_there_runs_here() -> None:
    """All runs that were ever recorded of what is registered, those that are not kept here included."""
    if not ALL_RUNS.is_dir():
        pytest.skip(f"there is no folder '{ALL_RUNS}'; TAZZA_SHARED can name the one that holds reference/golden")
    types = [path.stem for path in sorted(ALL_RUNS.glob("*.npz")) if path.stem in SCHEMAS]
    assert len(types) > 150
    for type in types:
        for recording in recordings(type, ALL_RUNS) if type not in {*WITHOUT_TENSORS, "CreateMutex"} else ():
            with naming(recording):
                run_recording(recording, "reference", slack=10)
                if recording.name in OWN_GRADIENT_OF_ALL:
                    with pytest.raises((AssertionError, GradientError)):
                        check_gradient_definitions(recording)
                else:
                    check_gradient_definitions(recording)


@pytest.mark.parametrize("type", operators())
def test_gradient_definitions(type: str) -> None:
    """The recorded ones exactly; none where nothing was recorded, except where Caffe2 and tazza refuse."""
    for recording in recordings(type):
        with naming(recording):
            check_gradient_definitions(recording)


def check_gradient_definitions(recording: Recording) -> None:
    """Assert that the gradient operators are the recorded ones, or that asking for them is refused."""
    op = find_schema(recording.definition.type).view(recording.definition)
    given = [f"{name}_grad" for name in recording.definition.output]
    rule = op.schema.gradient_rule
    refused = REFUSED.get(recording.name)
    if isinstance(rule, NoGradient) and not rule.quiet:
        refused = op.type
    if refused is None:
        assert (gradient_for_op(op, given)[0] == recording.gradient) == (op.type not in OWN_GRADIENT)
        return
    assert recording.gradient == []
    with pytest.raises(GradientError, match=refused):
        gradient_for_op(op, given)


def test_exceptions_are_recordings() -> None:
    excepted = {*SLACK, *REFUSED}
    types = {name.split("-")[0] for name in excepted}
    assert types | OWN_GRADIENT <= set(operators())
    assert excepted <= {recording.name for type in types for recording in recordings(type)}


def test_every_operator_with_recordings_is_here() -> None:
    assert {path.stem for path in FOLDER.glob("*.npz")} <= set(SCHEMAS.keys())


ONE_NUMBER = {"AtomicIter", "Iter", "LearningRate"}
"""Operators whose blobs hold one number each."""


LISTS = {
    *("BooleanMaskGradient", "BooleanMaskLengths", "BooleanUnmask", "FindDuplicateElements", "LengthsRangeFill"),
    *("LengthsSplit", "LengthsToOffsets", "LengthsToSegmentIds", "LengthsToShape", "LengthsToWeights", "Range"),
    *("LambdaRankNdcg", "LambdaRankNdcgGradient", "MergeIdLists", "PairWiseLoss", "PairWiseLossGradient"),
    *("Perplexity", "SparseDropoutWithReplacement", "SparseLengthsSumSparseLookup", "Unique"),
    *merges,
    *merge_gradients,
}
"""Operators whose blobs have one axis each."""


@pytest.mark.slow
def test_recordings_tell_axes_apart() -> None:
    """Each type has one of a tensor with several axes, of which no two are equally long; squares hide swapped axes."""

    def told(recording: Recording) -> bool:
        values = map(data_of, (*recording.inputs, *recording.outputs))
        shapes = [[n for n in value.shape if n > 1] for value in values]
        return any(len(extents) > 1 and len(set(extents)) == len(extents) for extents in shapes)

    lacking = {type for type in operators() if not any(map(told, recordings(type)))}
    assert lacking == ONE_NUMBER | LISTS


WITHOUT_TENSORS = {
    *("Checkpoint", "CreateDB", "CreateTextFileReader", "DBExists", "Load", "Print", "Save", "Snapshot"),
    *("StatRegistryExport", "TextFileReaderRead"),
}
"""Operators that compute no tensor from tensors, but work on files, locks, the log or what the process counts."""

CUDA_ALONE = (
    *("CopyCPUToGPU", "CopyGPUToCPU", "DeformConv", "DeformConvGradient"),
    *("GroupSpatialSoftmax", "GroupSpatialSoftmaxGradient", "MaxPoolWithIndex", "MaxPoolWithIndexGradient"),
    *("PSRoIPool", "PSRoIPoolGradient", "RoIPoolF", "RoIPoolFGradient", "SampleAs", "SampleAsGradient"),
    *("SelectSmoothL1Loss", "SelectSmoothL1LossGradient", "SmoothL1Loss", "SmoothL1LossGradient"),
    *("SigmoidCrossEntropyLoss", "SigmoidCrossEntropyLossGradient", "SigmoidFocalLoss", "SigmoidFocalLossGradient"),
    *("SoftmaxFocalLoss", "SoftmaxFocalLossGradient", "SpatialNarrowAs", "SpatialNarrowAsGradient"),
    "UpsampleNearestGradient",
)

NO_RUN = {
    **dict.fromkeys(CUDA_ALONE, "on CUDA devices alone"),
    **dict.fromkeys(["Crash", "LogFatal", "ThrowChildThreadException"], "they end the process"),
    **dict.fromkeys(["ATen", "Caffe2ModuleTestDynamicDummy", "Onnxifi"], "work of other libraries, which runs nowhere"),
    **dict.fromkeys(["NCCLAllGather", "NCCLAllreduce", "NCCLBroadcast"], "on CUDA devices alone"),
    **dict.fromkeys(["NCCLReduce", "NCCLReduceScatter", "GetGPUMemoryUsage"], "on CUDA devices alone"),
    **dict.fromkeys(["Reduce", "SendTensor", "ReceiveTensor"], "by MPI alone, which it was built without"),
    **dict.fromkeys(["TimerGet", "TimerGetAndEnd", "WallClockTime"], "no time is the same in two runs"),
    "StoreAdd": "ends the process on the one kind of store that there is",
    **dict.fromkeys(["FP16MomentumSGDUpdate", "FP32MomentumSGDUpdate"], "on CUDA devices alone"),
    **dict.fromkeys(["RoIAlignRotatedGradient", "RoIPoolGradient"], "on CUDA devices alone"),
    "CTC": "its module is not in the last wheel",
    "HuffmanTreeHierarchy": "text that ends in zeros, which a recording drops: it stands in test_h_softmax.py",
    "TTLinearGradient": "fails on whatever it is given",
    "ImageInput": "no wheel of Caffe2 has it: its own tests, and a plain formula, judge in test_image_input.py",
    "VideoInput": "no wheel of Caffe2 has it: a plain formula judges in test_video_input.py",
    "Int8GenQuantParams": "a part of its Python that is not there makes the scheme: test_int8_quantization.py",
    "Int8QuantSchemeBlobFill": "it came after the version that is judged by",
    "Python": "functions of a process; what Caffe2's see and emit stands in test_python_function.py",
    "PythonDLPack": "as Python",
    "PythonDLPackGradient": "as Python",
    "PythonGradient": "as Python",
    "SparseLengthsMax": "on CUDA devices alone",
}
"""Operators of which Caffe2 cannot run here, or leaves nothing that can be stored: judged by another formula."""


def test_every_operator_that_computes_tensors_has_recordings() -> None:
    """By themselves or within nets; but for those that Caffe2 does not have; of those there can be none."""
    own = {type for type in SCHEMAS if SCHEMAS[type].source.startswith("tazza")}
    assert own.isdisjoint(operators())
    recorded = {*operators(), *recorded_in_company()}
    assert set(SCHEMAS.keys()) - recorded - own == WITHOUT_TENSORS | set(NO_RUN)
