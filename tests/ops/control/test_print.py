"""Print and Summarize: texts as recorded from Caffe2, files, and every_n."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError, FileError, ShapeError
from tazza.operator import operator_def, run_op
from tazza.proto import NetDef
from tazza.tensor import Blob, Tensor
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

FLOATS = np.array([1e-8, 1e10, 123456789, 1 / 3, np.nan, np.inf, -np.inf, -0.0, 1e38, 0.1, 100000.5], np.float32)
TEXTS: list[tuple[Any, str]] = [
    (np.arange(6, dtype=np.float32).reshape(2, 3), "Tensor x of type float. Dims: (2,3,): 0,1,2,3,4,5"),
    (np.array(1.5, np.float32), "Tensor x of type float. Dims: (): 1.5"),
    (np.zeros((0, 3), np.float32), "Tensor x of type float. Dims: (0,3,): "),
    (FLOATS, "Tensor x of type float. Dims: (11,): 1e-08,1e+10,1.23457e+08,0.333333,nan,inf,-inf,-0,1e+38,0.1,100000"),
    (np.array([1 / 7]), "Tensor x of type double. Dims: (1,): 0.142857"),
    (np.arange(2), "Tensor x of type long int. Dims: (2,): 0,1"),
    (np.array([-3], np.int32), "Tensor x of type int. Dims: (1,): -3"),
    (np.array([200], np.uint8), "Tensor x of type unsigned char. Dims: (1,): 200"),
    (np.array([0.5], np.float16), "Tensor x of type c10::Half. Dims: (1,): 0.5"),
    (np.array([True, False]), "Tensor x of type bool. Dims: (2,): 1,0"),
    (np.array(["a", "b c"]), "Tensor x of type std::basic_string<char>. Dims: (2,): a,b c"),
    ("text", "Blob of type: std::string"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS)
def test_texts(value: Any, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    ws = Workspace()
    ws.feed("x", value)
    ws.run_operator(operator_def("Print", ["x"]))
    assert capsys.readouterr().out == f"{text}\n"


SHOWN = "Tensor x of type float. Dims: (2,): 1,2\n"
CASES = [
    Sequence(
        "shown and summed up",
        (
            Step(operator_def("Print", ["x"]), feeds={"x": np.array([1, 2], np.float32)}, prints=SHOWN),
            Step(operator_def("Summarize", ["x"], ["y"]), {"y": np.array([1, 2, 1.5, np.sqrt(0.5)], np.float32)}),
        ),
        stored=True,
    )
]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


def test_an_empty_blob_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    ws = Workspace()
    ws.create_blob("x")
    ws.run_operator(operator_def("Print", ["x"]))
    assert capsys.readouterr().out == "Blob of type: nullptr (uninitialized)\n"


@pytest.mark.parametrize(("limit", "shown"), [(None, 1000), (0, 1000), (1500, 1500), (3000, 2000)])
def test_limit(limit: int | None, shown: int, capsys: pytest.CaptureFixture[str]) -> None:
    run_op("Print", np.zeros(2000, np.int32), limit=limit)
    assert capsys.readouterr().out.count("0,") == shown  # of which one is that of the dims


def test_files_begin_anew_with_each_operator_and_every_n_counts_its_runs(tmp_path: Path) -> None:
    ws = Workspace(root=tmp_path)
    ws.feed("a/x", np.arange(3, dtype=np.float32))
    shows = operator_def("Print", ["a/x"], to_file=1, every_n=2, limit=2)
    ws.run_operator(shows)
    ws.create_net(NetDef(name="n", op=[shows]))
    ws.run_net("n", 5)
    line = "Tensor a/x of type float. Dims: (3,): 0,1\n"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a#x.log": line * 3}
    ws.delete_net("n")


def test_arguments_and_files_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="'every_n' = 0 is below its minimum 1"):
        run_op("Print", [1.0], every_n=0)
    with pytest.raises(ArgumentError, match="'limit' = -1 is below its minimum 0"):
        run_op("Print", [1.0], limit=-1)
    ws = Workspace(root=tmp_path / "missing")
    ws.feed("x", np.zeros(1))
    with pytest.raises(FileError, match=r"Print cannot write '.*x.log': No such file or directory"):
        ws.run_operator(operator_def("Print", ["x"], to_file=1))


X = np.array([[1, 2, 4], [8, 16, -3.5]], np.float32)


def test_summary_and_its_file(tmp_path: Path) -> None:
    ws = Workspace(root=tmp_path)
    ws.feed("x", X)
    ws.create_net(NetDef(name="n", op=[operator_def("Summarize", ["x"], ["y"], to_file=1)]))
    ws.run_net("n", 2)
    np.testing.assert_allclose(ws.fetch("y"), [-3.5, 16.0, 4.583333492279053, 6.741043567657471], rtol=1e-6)
    assert (tmp_path / "x.summary").read_text() == "-3.5 16 4.58333 6.74104\n" * 2
    ws.delete_net("n")


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        (np.float32(3), [3, 3, 3, 0]),
        (np.array([1, np.nan, 3], np.float32), [1, 3, np.nan, np.nan]),
        (np.array([1, np.inf], np.float32), [1, np.inf, np.inf, np.nan]),
    ],
)
def test_summaries_of_few_and_of_no_numbers(x: Any, wanted: list[float]) -> None:
    np.testing.assert_array_equal(run_op("Summarize", x, outputs=1), np.array(wanted, np.float32))


def test_a_summary_that_nobody_asked_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tazza"):
        run_op("Summarize", X, outputs=0)
    assert "-3.5 16 4.58333 6.74104" in caplog.text


def test_summaries_that_are_refused() -> None:
    with pytest.raises(ShapeError, match="X has no elements"):
        run_op("Summarize", np.zeros((0, 2), np.float32), outputs=1)
    with pytest.raises(DTypeError, match="X is float64, it must be float32"):
        run_op("Summarize", np.zeros(2), outputs=1)


def test_printing_leaves_a_tensor_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    tensor = Tensor.from_numpy(X)
    version = tensor.storage.version
    run_op("Print", tensor)
    assert capsys.readouterr().out
    assert tensor.storage.version == version
    assert Blob("x", tensor).is_tensor
