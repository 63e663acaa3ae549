"""Epilogues: which become post-ops, and that those compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.engines.onednn.epilogue import overwritten_operand, translate_epilogue
from tazza.engines.onednn.library import Unimplemented, unavailable
from tazza.operator import Expression, LocalBlobs, Operator, operator_def
from tazza.tensor import Tensor
from tests.check import assert_close, assert_ran, run
from tests.engines.onednn.layouts import Relaid, numbers, row_major

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


TAKEN = {
    "y": [],
    "relu(y)": ["eltwise_relu"],
    "max(0, y)": ["eltwise_relu"],
    "where(y >= 0, y, 0.1 * y)": ["eltwise_relu"],
    "where(y > 0, y, 2 * (exp(y) - 1))": ["eltwise_elu"],
    "where(y > 0, y, expm1(y))": ["eltwise_elu"],
    "min(max(y, -1), 6)": ["eltwise_clip"],
    "max(y, 0.5)": ["eltwise_clip"],
    "y * sigmoid(1.5 * y)": ["eltwise_swish"],
    "tanh(y / 2 + 1)": ["eltwise_linear", "eltwise_linear", "eltwise_tanh"],
    "3 - sigmoid(-y)": ["eltwise_linear", "eltwise_logistic", "eltwise_linear"],
    "abs(y - 0.5)": ["eltwise_linear", "eltwise_abs"],
    "relu(y + s0)": ["binary_add", "eltwise_relu"],
    "s1 * (s0 - y)": ["eltwise_linear", "binary_add", "binary_mul"],
}
REFUSED = ["s0", "y * y", "2 / y", "y + s0 * s1", "where(y > 1, y, 0)", "sin(y)", "s0 / y", "square(y) + tanh(y)"]


@pytest.mark.parametrize("text", TAKEN)
def test_steps(text: str) -> None:
    steps = translate_epilogue(Expression.parse(text))
    assert [step.algorithm for step in steps] == TAKEN[text]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_chain_is_refused(text: str) -> None:
    with pytest.raises(Unimplemented, match="no post-ops for"):
        translate_epilogue(Expression.parse(text))


def inputs(operands: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    shapes = [(2, 8, 9, 11), (6, 8, 3, 3), (6,), *[(2, 6, 9, 11)] * operands]
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("text", TAKEN)
def test_values(text: str) -> None:
    operands = len([name for name in Expression.parse(text).names if name != "y"])
    letters = ["X", "W", "b", *(f"s{i}" for i in range(operands))]
    definition = operator_def("FusedConv", letters, ["Y"], kernel=3, pad=1, operands=operands, epilogue=text)
    got, _ = run(definition, inputs(operands), "onednn")
    wanted, _ = run(definition, inputs(operands), "reference")
    assert_close(got[0], wanted[0], 20)


def test_output_over_operand_adds_to_what_is_there() -> None:
    """The operand lies channels-last, as it comes from another convolution."""
    X, W, b, S = inputs(1)
    blobs = LocalBlobs()
    for name, value in (("X", X), ("W", W), ("b", b), ("zero", np.zeros_like(W))):
        blobs.create_blob(name).set(Tensor.from_numpy(value))
    before = operator_def("Conv", ["X", "zero", "b"], ["S"], kernel=3, pad=1, engine="onednn")
    args: dict[str, Any] = {"kernel": 3, "pad": 1, "operands": 1, "epilogue": "relu(y + s0)"}
    fused = operator_def("FusedConv", ["X", "W", "b", "S"], ["S"], engine="onednn", **args)
    Operator(before, blobs).run()
    operand = blobs.create_blob("S").tensor()
    kept = operand.layout
    operand.array[...] = S
    operator = Operator(fused, blobs)
    operator.run()
    assert_ran(operator, "onednn")
    assert blobs.create_blob("S").tensor().layout == kept
    definition = operator_def(
        "FusedConv", ["X", "W", "b", "S"], ["Y"], kernel=3, pad=1, operands=1, epilogue="relu(y + s0)"
    )
    (wanted,), _ = run(definition, [X, W, b, S], "reference")
    assert_close(np.array(operand.plain()), wanted, 20)


@pytest.mark.parametrize("text", ["y * s0", "max(y + s0, s0)", "s0 - y"])
def test_output_over_operand_in_other_uses(text: str) -> None:
    letters = ["X", "W", "b", "S"]
    definition = operator_def("FusedConv", letters, ["S"], kernel=3, pad=1, operands=1, epilogue=text)
    got, _ = run(definition, inputs(1), "onednn")
    definition.output[0] = "Y"
    wanted, _ = run(definition, inputs(1), "reference")
    assert_close(got[0], wanted[0], 20)


def test_overwritten_operand_goes_by_names() -> None:
    assert overwritten_operand(("x", "w", "s"), "s", 1) == 0
    assert overwritten_operand(("x", "w", "s"), "y", 1) is None
    assert overwritten_operand(("x", "w"), "x", 0) is None


@pytest.mark.parametrize("epilogue", ["y * s0", "relu(y + s0) * s0", "y + s0"])
def test_a_layer_reads_what_it_overwrites_first(epilogue: str) -> None:
    """What is not just added is kept: the destination may be written before the post-ops read it."""
    X, W, b, S = numbers(9, 20), numbers(7, 20), numbers(7), numbers(9, 7)
    case = Relaid("FusedFC", [X, W, b, S], {"epilogue": epilogue, "operands": 1}, in_place={0: 3})
    (expected,), _ = case.run("reference", row_major)
    (got,), _ = case.run("onednn", row_major)
    assert_close(got, expected, slack=10)
