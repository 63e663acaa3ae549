"""Running what was loaded: names, types, repeated use, and what loading must not do."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.errors import (
    ArgumentError,
    DTypeError,
    NetError,
    OutOfMemoryError,
    ShapeError,
    TazzaError,
    TrustError,
    UnknownOperatorError,
)
from tazza.interop import Predictor, load
from tazza.models.zoo import CLASSIFIERS
from tazza.proto import NetDef
from tazza.proto.message import parse_text
from tazza.workspace import Workspace

INIT = """
name: "init"
op { type: "GivenTensorFill" output: "w" arg { name: "shape" ints: 2 ints: 3 } arg { name: "values" floats: 1 floats: 2
  floats: 3 floats: 4 floats: 5 floats: 6 } }
op { type: "ConstantFill" output: "b" arg { name: "shape" ints: 2 } }
op { type: "GivenTensorFill" output: "data" arg { name: "shape" ints: 1 } arg { name: "values" floats: 0 } }
"""
PREDICT = """
name: "predict"
op { type: "FC" input: "data" input: "w" input: "b" output: "y" arg { name: "nonsense" i: 1 } }
op { type: "FC" input: "data" input: "w" input: "b" output: "z" arg { name: "nonsense" i: 1 } }
op { type: "Sum" input: "y" input: "offset/0" output: "out" }
external_input: "data" external_input: "w" external_input: "b" external_input: "offset/0"
"""
X = np.array([[1, 0, 0]], np.float32)
OFFSET = np.array([[10, 20]], np.float32)


def net(text: str) -> NetDef:
    """Return the net that a text describes."""
    return parse_text(NetDef, text, "a test")


@pytest.fixture
def predictor() -> Predictor:
    return load(net(INIT), net(PREDICT))


def test_inputs_and_outputs_are_found(predictor: Predictor) -> None:
    assert predictor.inputs == ("data", "offset/0")
    assert predictor.outputs == ("z", "out")  # none is declared: what is written and not read
    assert repr(predictor) == "Predictor('predict': data, offset/0 -> z, out)"


def test_outputs_are_fresh_at_every_run(predictor: Predictor) -> None:
    first = predictor.run({"offset/0": OFFSET}, data=X)
    np.testing.assert_array_equal(first["out"], [[11, 24]])
    second = predictor.run({"offset/0": OFFSET[:, ::-1]}, data=2 * X)
    np.testing.assert_array_equal(second["out"], [[22, 18]])
    np.testing.assert_array_equal(first["out"], [[11, 24]])


def test_batches_may_change(predictor: Predictor) -> None:
    for rows in (1, 4, 0, 2):
        got = predictor.run({"offset/0": np.zeros((rows, 2), np.float32)}, data=np.ones((rows, 3), np.float32))
        np.testing.assert_array_equal(got["z"], np.full((rows, 2), [6, 15]))


def test_threads_take_turns(predictor: Predictor) -> None:
    def call(factor: int) -> float:
        return float(predictor.run({"offset/0": OFFSET}, data=factor * X)["out"][0, 0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(call, range(50))) == [10.0 + factor for factor in range(50)]


WRONG: list[tuple[dict[str, Any], type[TazzaError], str]] = [
    ({}, ArgumentError, "lacks data, offset/0"),
    ({"data": X, "offset/0": OFFSET, "dta": X}, ArgumentError, "has no input dta"),
    (
        {"data": X.astype(np.float64), "offset/0": OFFSET},
        DTypeError,
        "'data' of predictor 'predict' is float64.*float32",
    ),
    ({"data": [[1.0, 0.0, 0.0]], "offset/0": OFFSET}, ArgumentError, "cannot feed a list"),
    ({"data": X[:, :2], "offset/0": OFFSET}, ShapeError, "FC"),
    ({"data": X, "offset/0": OFFSET[0, :1]}, ShapeError, "Sum"),
]


@pytest.mark.parametrize(("values", "kind", "text"), WRONG, ids=lambda value: str(value)[:20])
def test_wrong_inputs_are_refused(
    predictor: Predictor, values: dict[str, Any], kind: type[TazzaError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        predictor.run(values)
    np.testing.assert_array_equal(predictor.run({"data": X, "offset/0": OFFSET})["out"], [[11, 24]])


def test_an_input_is_given_once(predictor: Predictor) -> None:
    with pytest.raises(ArgumentError, match="'data' is given twice"):
        predictor.run({"data": X, "offset/0": OFFSET}, data=X)


def test_a_closed_predictor_says_so(predictor: Predictor) -> None:
    with predictor:
        pass
    predictor.close()
    with pytest.raises(ArgumentError, match="is closed"):
        predictor.run({"data": X, "offset/0": OFFSET})


def test_unknown_arguments_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        made = load(net(INIT), net(PREDICT))
        made.run({"offset/0": OFFSET}, data=X)
        made.run({"offset/0": OFFSET}, data=X)
    assert [record.getMessage().count("nonsense") for record in caplog.records] == [1]


def test_names_can_be_chosen() -> None:
    made = load(net(INIT), net(PREDICT), inputs=["offset/0", "data"], outputs=["y"])
    assert made.inputs == ("offset/0", "data")
    np.testing.assert_array_equal(made.run({"offset/0": OFFSET}, data=X)["y"], [[1, 4]])
    with pytest.raises(NetError, match="reads 'offset/0', which is no input"):
        load(net(INIT), net(PREDICT), inputs=["data"])
    with pytest.raises(NetError, match="does not make the output 'nobody'"):
        load(net(INIT), net(PREDICT), outputs=["nobody"])


def test_loading_runs_nothing_but_arithmetic(tmp_path: Path) -> None:
    target = tmp_path / "written"
    harmful = net('op { type: "CreateDB" output: "db" arg { name: "db" s: "/etc/passwd" } }')
    with pytest.raises(TrustError, match="operator 0 of net '' is CreateDB, which does more than compute tensors"):
        load(harmful, net(PREDICT))
    unknown = net(f'op {{ type: "Shell" output: "x" arg {{ name: "run" s: "touch {target}" }} }}')
    with pytest.raises(UnknownOperatorError, match="Shell"):
        load(unknown, net(PREDICT))
    reading = net('op { type: "Load" output: "w" arg { name: "db" s: "/etc/passwd" } }')
    with pytest.raises(TrustError, match="is Load, which does more"):
        load(reading, net(PREDICT))
    assert not target.exists()


def test_a_small_file_cannot_ask_for_more_memory_than_there_is() -> None:
    huge = net('op { type: "ConstantFill" output: "w" arg { name: "shape" ints: 1000000000000 ints: 3 } }')
    with pytest.raises(OutOfMemoryError, match="the init net: net '' makes 12000000000000 bytes"):
        load(huge, net(PREDICT))


def test_an_init_net_alone_is_no_model() -> None:
    with pytest.raises(ArgumentError, match="predicts nothing"):
        load(net(INIT))


@pytest.mark.slow
def test_many_threads_get_the_bits_that_one_gets() -> None:
    """Sixteen threads share one predictor; each call has memory of its own."""
    model = CLASSIFIERS["lenet"].inference()
    workspace = Workspace()
    workspace.run_net_once(model.init_net.proto)
    images = [np.random.default_rng(i).standard_normal((1 + i % 3, 1, 28, 28)).astype(np.float32) for i in range(16)]
    with Predictor(model.net.proto, workspace, inputs=["data"]) as predictor:
        alone = [predictor.run(data=image)["softmax"] for image in images]

        def call(i: int) -> Any:
            return predictor.run(data=images[i % 16])["softmax"]

        with ThreadPoolExecutor(16) as pool:
            together = list(pool.map(call, range(64)))
    for i, found in enumerate(together):
        np.testing.assert_array_equal(found, alone[i % 16])
