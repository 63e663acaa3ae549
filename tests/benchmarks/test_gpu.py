"""The tables of single operators on a CUDA device, here on the fake one: rows of any shapes, and one that fails."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import gpu, gpu_rows
from benchmarks.gpu import Row, show_rows
from tests.device.cuda_cases import some_device


def test_rows_that_fail_say_so_and_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = np.ones(100, np.float32)
    rows = (
        Row("Relu 10", "Relu", ((10,),), lambda torch, x: torch.relu(*x), 80, calls=2),
        Row("MatMul 2", "MatMul", ((2, 3), (2, 3)), lambda torch, x: x[0] @ x[1], calls=2),
        Row("Softmax 3 x 5", "Softmax", ((3, 5),), lambda torch, x: torch.softmax(*x, 1), 120, calls=2),
    )
    with some_device():
        assert show_rows(rows, lambda shape: numbers[: math.prod(shape)].reshape(shape))
    _, head, relu, product, softmax = capsys.readouterr().out.splitlines()
    assert head.split() == ["tazza", "us", "host", "us", "GB/s", "TFLOP/s", "PyTorch", "us", "ratio"]
    assert relu.startswith("Relu 10  ")
    assert "failed: ShapeError" in product
    assert softmax.startswith("Softmax 3 x 5  ")


def test_names_are_no_wider_than_their_column() -> None:
    assert max(len(row.name) for row in (*gpu.ROWS, *gpu_rows.rows())) < 36
