"""Arguments and engines that Caffe2's builders put on operators: part of the format, so that nobody hears of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError
from tazza.nets import create_net
from tazza.operator import ENGINES, SCHEMAS, LocalBlobs, Operator, find_schema, make_argument, operator_def
from tazza.operator.argument import BUILDER_ARGUMENTS
from tazza.operator.engine import FORMAT_ENGINES, asked_engines
from tazza.proto import NetDef, OperatorDef
from tests.golden import Recording, operators, recordings
from tests.operator.test_golden import feed

BUILDERS: dict[str, Any] = {
    "order": "NCHW",
    "use_cudnn": 1,
    "cudnn_exhaustive_search": 0,
    "ws_nbytes_limit": 67108864,
    "enable_tensor_core": 1,
    "float16_compute": 0,
    "exhaustive_search": 1,
    "freeze_bias": 1,
    "use_grad_hack": 1,
}
ENGINES_OF_OLD = ["CUDNN", "NNPACK,MOBILE", "DEPTHWISE_3x3,NNPACK", "CHANNELWISE_3D", "MIOPEN, CUDNN"]
ROOT = Path(__file__).parents[2]


def test_arguments_of_builders_are_reported_for_no_operator() -> None:
    assert BUILDERS.keys() == BUILDER_ARGUMENTS
    for type in SCHEMAS.keys():
        op = OperatorDef(type=type, arg=[make_argument(name, value) for name, value in BUILDERS.items()])
        assert SCHEMAS[type].reported_arguments(op) == [], type
        op.arg.append(make_argument("nonsense", 1))
        assert SCHEMAS[type].reported_arguments(op) == [f"{type}.nonsense (unknown)"], type


def test_the_own_builder_still_refuses_them() -> None:
    with pytest.raises(ArgumentError, match="Relu has no argument 'use_cudnn'"):
        find_schema("Relu").view(operator_def("Relu", ["x"], ["y"], use_cudnn=1), strict=True)


def prepared(recording: Recording, words: str, **arguments: Any) -> tuple[NetDef, LocalBlobs]:
    """Return a net of a recorded operator three times, as a builder would have written it, and its inputs."""
    blobs = LocalBlobs()
    declared = find_schema(recording.definition.type)
    letters = declared.view(recording.definition).input_letters
    for name, letter, value in zip(recording.definition.input, letters, recording.inputs, strict=True):
        feed(blobs, name, declared.inputs_by_letter[letter].type_name, value)
    definition = OperatorDef()
    definition.CopyFrom(recording.definition)
    definition.engine = words
    own = {argument.name for argument in definition.arg}
    new = {name: value for name, value in (BUILDERS | arguments).items() if name not in own | declared.args.keys()}
    definition.arg.extend(make_argument(name, value) for name, value in new.items())
    unknown = [argument for argument in definition.arg if argument.name not in declared.unknown_arguments(definition)]
    known = [*unknown, *(a for a in definition.arg if a.name in new)]
    del definition.arg[:]
    definition.arg.extend({argument.name: argument for argument in known}.values())
    net = NetDef(name="n", op=[definition] * (1 if declared.must_in_place else 3))
    return net, blobs


def run(net: NetDef, blobs: LocalBlobs) -> None:
    """Make a net and run it."""
    made = create_net(net, blobs)
    with np.errstate(all="ignore"):
        made.run()
    made.close()


@pytest.mark.slow
def test_a_loaded_net_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """For one recorded run of each operator, with every engine of old in turn; what else is unknown is told once."""
    caplog.set_level("WARNING", logger="tazza")
    for number, type in enumerate(operators()):
        recording = next(recordings(type))
        words = ENGINES_OF_OLD[number % len(ENGINES_OF_OLD)]
        run(*prepared(recording, f"{words},reference"))
        assert caplog.messages == [], type
        if number % 9 == 0:
            run(*prepared(recording, f"{words},cudn,reference", nonsense=3))
            first, second = sorted(caplog.messages, key=lambda message: "'cudn'" in message)  # in either order
            assert f"{type}.nonsense" in first
            assert "'cudn'" in second
            caplog.clear()


@pytest.mark.parametrize("type", ["Conv", "Relu", "FC", "MaxPool", "SpatialBN"])
def test_plans_say_nothing(type: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", logger="tazza")
    net, blobs = prepared(next(recordings(type)), "CUDNN,NNPACK")
    net.type = "plan"
    run(net, blobs)
    assert caplog.messages == []


def test_explain_names_the_engine_of_old() -> None:
    blobs = LocalBlobs()
    feed(blobs, "x", None, np.ones(1, np.float32))
    operator = Operator(operator_def("Relu", ["x"], ["y"], engine="NNPACK,MOBILE"), blobs)
    operator.run()
    assert [(c.engine, c.reason) for c in operator.choices[:2]] == [(n, "no such engine") for n in ("NNPACK", "MOBILE")]


def test_every_engine_of_caffe2_is_known() -> None:
    found = {name for words in ENGINES_OF_OLD for name in asked_engines(words)}
    table = Path(os.environ.get("TAZZA_SHARED", ROOT.parent / "shared")) / "reference" / "ops.json"
    if table.is_file():
        found |= {
            name for op in json.loads(table.read_text())["operators"].values() for name in op.get("engines") or ()
        }
    assert found - FORMAT_ENGINES == set()
    assert FORMAT_ENGINES.isdisjoint(ENGINES)
