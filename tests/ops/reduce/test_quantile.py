"""Quantile: by counting elements one after the other, and what the search gives in genuine Caffe2; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, GradientError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
X = np.array([1, -5, 3, 2, -4, 0.5], "f")
MANY = np.random.default_rng(0).standard_normal((2, 3, 50)).astype("f")


def quantile(share: float, **arguments: Any) -> dict[str, Any]:
    """Return arguments."""
    return {"quantile": share, **arguments}


CASES = [
    Case("Quantile", [X], np.array([2.75]), quantile(0.5), id="a middle"),
    Case("Quantile", [X], np.array([1.625]), quantile(0.2), id="the second middle"),
    Case("Quantile", [X], np.array([0.5]), quantile(0.0), id="the smallest"),
    Case("Quantile", [X], np.array([5.0]), quantile(1.0), id="the largest"),
    Case("Quantile", [X], np.array([-1.0]), quantile(0.3, abs=0), id="with signs"),
    Case("Quantile", [X], np.array([5.0]), quantile(0.5, tol=1.0), id="no search"),
    Case("Quantile", [X[:0], X.astype("f").reshape(2, 3)], np.array([2.75]), quantile(0.5), id="several"),
    Case("Quantile", [X.astype("d")], np.array([2.75]), quantile(0.5), id="float64"),
    Case("Quantile", [np.array([1, 2, 2, 2, 5], "f")], np.array([2.0]), quantile(0.3, tol=1e-6), id="ties"),
    Case("Quantile", [np.arange(110, dtype="f")], np.array([10.21875]), quantile(0.1), id="a tenth of 110 is 11"),
    Case("Quantile", [np.array([0.0, 0.0], "f")], np.array([0.0]), quantile(0.7), id="zeros"),
    Case("Quantile", [np.array([-1, 1, 0], "f")], np.array([0.0]), quantile(0.5, abs=0), id="0 is a middle"),
]


@on_all_engines(CASES)
def test_quantile(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("share", [0.1, 0.37, 0.5, 0.9])
def test_so_many_do_not_exceed_it(share: float) -> None:
    """The law that makes it a quantile: within the tolerance, a little less is exceeded by more."""
    (y,) = run_op("Quantile", MANY, MANY[0], quantile=share)
    elements = np.abs([*MANY.ravel(), *MANY[0].ravel()])
    wanted = share * len(elements)
    assert sum(one <= y for one in elements.tolist()) >= wanted
    assert sum(one <= y * (1 - 3e-3) for one in elements.tolist()) <= wanted + 1


def test_around_zero_the_search_ends() -> None:
    """Caffe2 refuses: the interval does not get short beside its bounds."""
    (y,) = run_op("Quantile", np.array([-0.1, -0.1, 0.1, 0.1], "d"), quantile=0.3, abs=0, tol=1e-5)
    assert -0.1 <= y < 0.1


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X], {}, ArgumentError, r"quantile = -1, it must be in \[0, 1\]"),
    ([X], quantile(1.5), ArgumentError, "quantile = 1.5"),
    ([X], quantile(0.5, tol=0.0), ArgumentError, "tol = 0, it must be above 0"),
    ([X[:0]], quantile(0.5), ShapeError, "no element in all of X"),
    ([X, X.astype("d")], quantile(0.5), DTypeError, "X1 is float64, X0 is float32"),
    ([X.astype("i")], quantile(0.5), DTypeError, "X is int32"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Quantile", *inputs, **args)


def test_it_has_no_gradient() -> None:
    op = find_schema("Quantile").view(operator_def("Quantile", ["x"], ["y"], quantile=0.5))
    with pytest.raises(GradientError, match="it counts elements"):
        gradient_for_op(op, ["dy"])
