"""Which blobs are inputs: what nobody makes, and what init nets make only so that it exists, in their three forms."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError
from tazza.graph.text import parse_net
from tazza.interop import load
from tazza.interop.chosen_inputs import choose_inputs
from tazza.operator import SCHEMAS, Role, operator_def
from tazza.proto import NetDef
from tazza.proto.message import write_message
from tests.cli.conftest import Run, run

__all__ = ["run"]  # a fixture

WEIGHTS = (
    "w = GivenTensorFill(; shape=[2, 3], values=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])",
    "b = ConstantFill(; shape=[2])",
)
PREDICT = parse_net("net: predict", "in: data, w, b", "y = FC(data, w, b)", "p = Softmax(y)")
X = np.array([[1, 0, 0]], np.float32)

FORMS = {
    "an exporter's zero": "data = GivenTensorFill(; shape=[1, 1], values=[0.0])",
    "a translator's fill": "data = ConstantFill(; shape=[1])",
    "a translator's fill of one": "data = ConstantFill(; shape=[1], value=1.0)",
    "an example": "data = GivenTensorFill(; shape=[1, 3], values=[0.5, 0.25, 0.125])",
    "zeros of the right shape": "data = ConstantFill(; shape=[1, 3])",
    "nothing": "",
}


def init(form: str, *, last: bool = False) -> NetDef:
    """Return an init net that makes the input in some form, before or behind the parameters."""
    return parse_net("net: init", *((*WEIGHTS, FORMS[form]) if last else (FORMS[form], *WEIGHTS)))


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("form", FORMS)
def test_the_input_is_found_in_every_form(form: str, last: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tazza"), load(init(form, last=last), PREDICT) as predictor:
        assert predictor.inputs == ("data",)
        for values in ({"data": X}, [X], (X,)):
            np.testing.assert_allclose(predictor.run(values)["p"], [[0.0474, 0.9526]], atol=1e-4)
    told = [record for record in caplog.records if "data" in record.getMessage()]
    levels = {"nothing": [], "an example": [logging.WARNING], "zeros of the right shape": [logging.WARNING]}
    assert [record.levelno for record in told] == levels.get(form, [logging.INFO])


@pytest.mark.parametrize("form", FORMS)
def test_the_caller_may_say_otherwise(form: str, caplog: pytest.LogCaptureFixture) -> None:
    """What the init net made is replaced, also where it was meant for a parameter."""
    with caplog.at_level(logging.WARNING, "tazza"), load(init(form), PREDICT, inputs=["b", "data"]) as predictor:
        assert predictor.inputs == ("b", "data")
        both = predictor.run([np.array([8, 0], np.float32), X])["p"]
        np.testing.assert_allclose(both, [[1 / (1 + np.exp(-5)), 1 / (1 + np.exp(5))]], rtol=1e-4)
    assert caplog.records == []


@pytest.mark.slow
def test_commands_see_the_same_inputs(run: Run, tmp_path: Path) -> None:
    image = tmp_path / "x.npy"
    np.save(image, X.reshape(1, 1, 1, 3))
    net = parse_net("net: predict", "in: data, w, b", "y = FC(data, w, b)", "p = Softmax(y)")
    for number, form in enumerate(FORMS):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_message(folder / "init_net.pb", init(form))
        write_message(folder / "predict_net.pb", net)
        assert ": 1 (95" in run("predict", folder, image, "--top", 1).output
        shown = run("show", folder, "--shape", "data=5,3").output
        assert "float32[5, 2]" in shown
        assert "8" in shown.splitlines()[-1].split(), "w and b are the parameters, data is none"
        profiled = run("profile", folder, "--runs", 1, "--shape", "data=5,3")
        assert profiled.exit_code == 0, profiled.stderr
        assert run("profile", folder, "--runs", 1).exit_code == (
            0 if form in ("an example", "zeros of the right shape") else 1
        )
        both = run("show", folder, "--input", "b", "--input", "data", "--shape", "data=5,3", "--shape", "b=2")
        assert "6" in both.output.splitlines()[-1].split(), "only w is a parameter then"
        strange = run("show", folder, "--input", "nobody")
        assert (strange.exit_code, "has no input 'nobody'" in strange.stderr) == (1, True)
    two = run("predict", tmp_path / "0", image, "--input", "data", "--input", "b")
    assert "has 2 inputs: data, b" in two.stderr


def test_values_by_place() -> None:
    with load(init("nothing"), PREDICT) as predictor:
        with pytest.raises(ArgumentError, match="given 2 values, it has 1 inputs"):
            predictor.run([X, X])
        with pytest.raises(ArgumentError, match="lacks data"):
            predictor.run([])
        with pytest.raises(ArgumentError, match="'data' is given twice"):
            predictor.run([X], data=X)
        with pytest.raises(ArgumentError, match="takes inputs by name, not a ndarray"):
            predictor.run(X)  # pyright: ignore[reportArgumentType] -- what is tested


def parameter_uses() -> list[tuple[str, str]]:
    """Return type and letter of what stands beside images which go their own ways and is no data: the same for each."""
    return [
        (type, spec.name)
        for type in sorted(SCHEMAS.keys())
        if SCHEMAS[type].declares_batch and not type.endswith("Gradient")
        for spec in SCHEMAS[type].inputs
        if spec.name not in SCHEMAS[type]._batched[0] and spec.dtypes is not None  # pyright: ignore[reportPrivateUsage]
        if spec.role is not Role.DATA
    ]


def test_a_parameter_of_one_number_stays_a_parameter() -> None:
    """Also where `external_input` lists it first, for each operator that reads a parameter beside images."""
    found = [
        (type, letter)
        for type, letter in parameter_uses()
        for fill in ("GivenTensorFill", "ConstantFill")
        if "s" in choose_inputs(_single(fill), _reading(type, letter)).names
    ]
    assert found == []
    assert len(parameter_uses()) > 10


def _single(fill: str) -> NetDef:
    values: dict[str, Any] = {"values": [0.0]} if fill == "GivenTensorFill" else {}
    return NetDef(
        op=[operator_def(fill, [], ["s"], shape=[1], **values), operator_def("ConstantFill", [], ["t"], shape=[1])]
    )


def _reading(type: str, letter: str) -> NetDef:
    """Return a net with one operator, which reads `s` as a letter, images `x`, and others; `s` is listed first."""
    declared = SCHEMAS[type]
    names = ["s" if spec.name == letter else f"in{i}" for i, spec in enumerate(declared.inputs)]
    last = [spec.name for spec in declared.inputs].index(letter)
    names = names[: max(last + 1, sum(not spec.optional for spec in declared.inputs))]
    if declared.relations:
        names = [*names, *(f"in{i}" for i in range(len(names), len(declared.inputs)))]
    required: dict[str, Any] = {
        name: [1] if "list" in str(spec.type) else 1 for name, spec in declared.args.items() if spec.required
    }
    args: dict[str, Any] = {**required, **({"kernel": 1} if "kernel" in declared.args else {})}
    outputs = [f"out{i}" for i, spec in enumerate(declared.outputs) if not spec.optional]
    return NetDef(
        op=[operator_def(type, names, outputs, **args)], external_input=["s", *(n for n in names if n != "s")]
    )
