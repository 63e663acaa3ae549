"""Int8QuantSchemeBlobFill and Int8GenQuantParams: what is found stands for every number to half a step; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError, NumericError, ShapeError
from tazza.operator import operator_def, run_op
from tazza.ops.quantized.int8_quantization import PARAMS, SCHEME, QuantParams, QuantScheme
from tazza.tensor import PerTensor
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

X = np.random.default_rng(1).standard_normal((3, 4, 5)).astype(np.float32)
FILL = operator_def("Int8QuantSchemeBlobFill", [], ["scheme"], preserve_sparsity=1)
CASES = [
    Sequence(
        "found",
        (
            Step(FILL, {"scheme": f"scheme, a C++ native class of type {SCHEME}.".encode()}),
            Step(
                operator_def("Int8GenQuantParams", ["x", "scheme"], ["found"]),
                {"found": f"found, a C++ native class of type {PARAMS}.".encode()},
                {"x": X},
            ),
            Step(FILL),
        ),
    )
]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


def found(x: Any, *, preserve_sparsity: bool = False) -> PerTensor:
    """Return what is found for numbers."""
    workspace = Workspace()
    workspace.feed("x", x)
    workspace.run_operator(operator_def("Int8QuantSchemeBlobFill", [], ["s"], preserve_sparsity=preserve_sparsity))
    assert workspace.blob("s").get(QuantScheme).preserve_sparsity == preserve_sparsity
    workspace.run_operator(operator_def("Int8GenQuantParams", ["x", "s"], ["p"]))
    return workspace.blob("p").get(QuantParams).meaning


@pytest.mark.parametrize("preserve_sparsity", [False, True])
@pytest.mark.parametrize(("low", "high"), [(-2, 3), (1, 4), (-5, -2), (-30, 1)])
def test_every_number_comes_back_to_half_a_step(low: float, high: float, preserve_sparsity: bool) -> None:
    """A law, of 0 too, which comes back unchanged; and no step is longer than it has to be."""
    x = np.append(np.linspace(low, high, 77, dtype=np.float32), np.float32(0))
    meaning = found(x, preserve_sparsity=preserve_sparsity)
    again = meaning.real(meaning.integers(x))
    assert np.abs(again - x).max() <= 0.501 * meaning.scale
    assert again[-1] == 0
    symmetric = preserve_sparsity and x.min() < 0 < x.max()
    reach = max(x.max() / 127, -x.min() / 128) if symmetric else (x.max() - x.min()) / 255
    np.testing.assert_allclose(meaning.scale, reach, rtol=1e-6)
    assert not symmetric or meaning.zero_point == 128


def test_whole_numbers_of_a_byte_stand_for_themselves() -> None:
    """As Caffe2's own tests draw them."""
    x = np.arange(256, dtype=np.float32)
    assert found(x, preserve_sparsity=True) == PerTensor(1.0, 0)
    assert found(x - 77) == PerTensor(1.0, 77)
    assert found(x[:1]) == PerTensor(0.1, 0)


def test_what_is_found_may_stand_beside_the_arguments() -> None:
    """Which count, as on Caffe2's CPU."""
    workspace = Workspace()
    workspace.feed("x", X)
    workspace.run_operator(FILL)
    workspace.run_operator(operator_def("Int8GenQuantParams", ["x", "scheme"], ["p"]))
    workspace.run_operator(operator_def("Int8Quantize", ["x", "p"], ["y"], Y_scale=0.05, Y_zero_point=128))
    np.testing.assert_array_equal(
        workspace.fetch("y").data, run_op("Int8Quantize", X, Y_scale=0.05, Y_zero_point=128).data
    )


def test_refused() -> None:
    with pytest.raises(ArgumentError, match="P99_QUANTIZATION"):
        run_op("Int8QuantSchemeBlobFill", quantization_kind="P99_QUANTIZATION")
    with pytest.raises(ShapeError, match="has no elements"):
        found(X[:0])
    with pytest.raises(NumericError, match="X reaches from"):
        found(X * np.float32(np.inf))
    workspace = Workspace()
    workspace.feed("x", X)
    with pytest.raises(DTypeError, match="not a std::unique_ptr<caffe2::Int8QuantSchemeBlob>"):
        workspace.run_operator(operator_def("Int8GenQuantParams", ["x", "x"], ["p"]))
