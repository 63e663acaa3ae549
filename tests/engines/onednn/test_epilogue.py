"""Epilogues as post-ops: each function computes what its formula says, behind a primitive that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.epilogue import KEPT, Epilogue, WithOperand, overwritten_operand, translate_epilogue
from tazza.engines.onednn.launch import PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import Unimplemented, unavailable
from tazza.engines.onednn.primitive import Accumulate, Attributes, Binary, Eltwise, describe, post_op
from tazza.operator import Expression
from tazza.tensor import DataType, Tensor
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
ROWS, DEPTH, COLUMNS = 3, 4, 5
TARGET = Descriptor.of((ROWS, COLUMNS))

FORMULAS: dict[str, Callable[[Array, list[Array]], Array]] = {
    "relu(y)": lambda y, s: np.maximum(y, 0),
    "sigmoid(y)": lambda y, s: 1 / (1 + np.exp(-y)),
    "tanh(y)": lambda y, s: np.tanh(y),
    "exp(y)": lambda y, s: np.exp(y),
    "log(abs(y))": lambda y, s: np.log(np.abs(y)),
    "sqrt(square(y))": lambda y, s: np.abs(y),
    "cube(y)": lambda y, s: y**3,
    "rsqrt(abs(y))": lambda y, s: np.abs(y) ** -0.5,
    "-y": lambda y, s: -y,
    "y + 1.5": lambda y, s: y + 1.5,
    "1.5 + y": lambda y, s: y + 1.5,
    "y - 1.5": lambda y, s: y - 1.5,
    "1.5 - y": lambda y, s: 1.5 - y,
    "y * -2": lambda y, s: -2 * y,
    "0.5 * y": lambda y, s: y / 2,
    "y / 4": lambda y, s: y / 4,
    "pow(y, 2)": lambda y, s: y**2,
    "max(y, 0)": lambda y, s: np.maximum(y, 0),
    "max(y, -0.5)": lambda y, s: np.maximum(y, -0.5),
    "min(y, 0.25)": lambda y, s: np.minimum(y, 0.25),
    "min(max(y, -0.5), 0.25)": lambda y, s: np.clip(y, -0.5, 0.25),
    "min(max(y, 0.5), 0.25)": lambda y, s: np.minimum(np.maximum(y, 0.5), 0.25),
    "y + s0": lambda y, s: y + s[0],
    "s0 * y": lambda y, s: y * s[0],
    "y - s0": lambda y, s: y - s[0],
    "s0 - y": lambda y, s: s[0] - y,
    "y / s1": lambda y, s: y / s[1],
    "max(s0, y)": lambda y, s: np.maximum(y, s[0]),
    "min(y, s1)": lambda y, s: np.minimum(y, s[1]),
    "where(y > 0, y, y * 0.1)": lambda y, s: np.where(y > 0, y, 0.1 * y),
    "where(y >= 0, y, 0.5 * expm1(y))": lambda y, s: np.where(y > 0, y, 0.5 * np.expm1(y)),
    "where(y > 0, y, exp(y) - 1)": lambda y, s: np.where(y > 0, y, np.expm1(y)),
    "where(y > 0, y, 0)": lambda y, s: np.maximum(y, 0),
    "y * sigmoid(y)": lambda y, s: y / (1 + np.exp(-y)),
    "sigmoid(1.5 * y) * y": lambda y, s: y / (1 + np.exp(-1.5 * y)),
    "relu(y * 0.5 + s1) - s0": lambda y, s: np.maximum(y * 0.5 + s[1], 0) - s[0],
}
REFUSED = {
    "y * y": "two parts with y",
    "s0 + s1 * y * y": "two parts with y, deeper",
    "s0 / y": "division by y",
    "1 / y": "division by y",
    "y / 0": "division by nothing",
    "pow(2, y)": "y as an exponent",
    "pow(y, s0)": "an exponent that varies",
    "where(y > 1, y, 0)": "a border that is not 0",
    "where(s0 > 0, y, 0)": "a condition on something else",
    "y + s0 * s1": "an operand that is computed",
    "y * sigmoid(s0 * y)": "a gate that varies",
    "s0": "no y",
}


def numbers(*dims: int) -> Array:
    return np.random.default_rng(sum(dims)).standard_normal(dims).astype(np.float32)


def followed(text: str, overwritten: int | None = None) -> Epilogue:
    return Epilogue(translate_epilogue(Expression.parse(text)), overwritten, 2)


def run(text: str, overwritten: int | None = None) -> tuple[Array, Array, list[Array]]:
    """Return what a product with the epilogue leaves, the product itself, and the operands s."""
    follow = followed(text, overwritten)
    a, b, s = numbers(ROWS, DEPTH), numbers(DEPTH, COLUMNS), [numbers(ROWS, COLUMNS), 1 + numbers(ROWS, COLUMNS) ** 2]
    sources = Descriptor.of(a.shape), Descriptor.of(b.shape)
    found = describe("matmul", *sources, None, TARGET, attributes=Attributes(follow.post_ops(TARGET)))
    launch = follow.launch(found, {"src": "A", "weights": "B", "dst": "Y"})
    operands = tuple(Tensor.from_numpy(one.copy()) for one in s)
    target = Tensor.from_numpy(np.full((ROWS, COLUMNS), np.nan, np.float32))
    Y = target if overwritten is None else operands[overwritten]
    tensors: dict[str, Any] = {"A": Tensor.from_numpy(a), "B": Tensor.from_numpy(b), "S": operands, "Y": Y}
    call_alone(launch, tensors)
    return Y.array, a @ b, s


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas(text: str) -> None:
    found, y, s = run(text)
    np.testing.assert_allclose(found, FORMULAS[text](y.astype(np.float64), s), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("text", REFUSED, ids=REFUSED.values())
def test_what_is_no_chain_is_refused(text: str) -> None:
    with pytest.raises(Unimplemented, match="oneDNN has no post-ops for"):
        translate_epilogue(Expression.parse(text))


def test_y_alone_is_nothing() -> None:
    assert translate_epilogue(Expression.parse("y")) == ()


LAYERS = st.sampled_from(["relu({})", "({}) * 0.5", "1.5 - ({})", "({}) + s0", "s1 - ({})", "tanh({})"])


@given(st.lists(LAYERS, max_size=4), LAYERS)
def test_layers_are_peeled_from_the_outside(layers: list[str], outermost: str) -> None:
    """One layer more gives the steps of before and those of the layer: it stands last."""
    text = "y"
    for layer in layers:
        text = layer.format(text)
    before = translate_epilogue(Expression.parse(text))
    after = translate_epilogue(Expression.parse(outermost.format(text)))
    assert after == (*before, *translate_epilogue(Expression.parse(outermost.format("y"))))


# -- operands that the destination overwrites --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["y + s0", "relu(s0 + y * 0.5)", "y * s0", "(y + s0) * s0", "max(y, s0) - s1", "y * s1 + s0"]
)
def test_operands_that_are_overwritten(text: str) -> None:
    """They are read before anything is written: added up where they lie, or from a copy."""
    expected, _, _ = run(text)
    found, _, s = run(text, overwritten=0)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert not np.array_equal(found, s[0])


def test_only_a_single_sum_needs_no_copy() -> None:
    once = followed("relu(y + s0) * s1", 0)
    assert once.post_ops(TARGET) == (Accumulate(), Eltwise("eltwise_relu"), Binary("binary_mul", TARGET))
    assert once.arguments == {post_op(2): ("S", 1)}
    assert followed("(y + s0) * s0", 0).arguments == {post_op(0): KEPT, post_op(1): KEPT}


def test_a_copy_is_a_step_of_its_own() -> None:
    for text, overwritten, kind in (("y * s0", 0, SequenceLaunch), ("y * s0", None, PrimitiveLaunch)):
        follow = followed(text, overwritten)
        sources = Descriptor.of((ROWS, DEPTH)), Descriptor.of((DEPTH, COLUMNS))
        found = describe("matmul", *sources, None, TARGET, attributes=Attributes(follow.post_ops(TARGET)))
        launch = follow.launch(found, {"src": "A", "weights": "B", "dst": "Y"})
        assert isinstance(launch, kind)


def test_which_operand_is_overwritten() -> None:
    assert overwritten_operand(("x", "w", "s", "t"), "t", 2) == 1
    assert overwritten_operand(("x", "w", "s", "t"), "w", 2) is None, "it is no operand of the epilogue"
    assert overwritten_operand(("x", "w"), "x", 0) is None


# -- results that must not be rounded ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("min(y, 6)", False),
        ("min(y, 0.1)", True),
        ("max(y, -0.3)", True),
        ("min(max(y, -0.5), 0.1)", True),
        ("min(y, 0.1) * 2", False),
        ("relu(y)", False),
        ("y + s0", False),
        ("y", False),
    ],
)
def test_bounds_that_are_no_narrow_numbers(text: str, whole: bool) -> None:
    assert followed(text).keeps_whole(DataType.BFLOAT16) is whole
    assert not followed(text).keeps_whole(DataType.FLOAT)


def test_an_operand_at_the_end_has_no_bounds() -> None:
    steps = (Eltwise("eltwise_clip", -0.3, 0.1), WithOperand("binary_add", 0))
    assert not Epilogue(steps).keeps_whole(DataType.BFLOAT16)
