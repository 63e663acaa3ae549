"""Assert, EnforceFinite, NanCheck: recorded, and what their errors say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import DTypeError, NumericError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import check_op
from tests.sequences import Sequence, on_sequences, recorded

CASES = [recorded("checks", stored=True)]


@on_sequences(CASES)
def test_checks(case: Sequence) -> None:
    check_op(case)


ZEROS = np.array([[2, 0, 1], [0, 0, 0], [0, 0, 3]])
INFINITE = np.array([1, np.nan, 3, -np.inf], np.float32)
REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("Assert", [ZEROS], {}, NumericError, r"Assert: element 1, 3, 4, 5, 6 \.\.\. of 'in0' with 9 elements is 0\n"),
    ("Assert", [ZEROS > 0], {"error_msg": "too few"}, NumericError, r"(?s)is 0.*hint: too few"),
    ("Assert", [INFINITE], {}, DTypeError, "X is float32"),
    ("EnforceFinite", [INFINITE], {}, NumericError, "element 1, 3 of 'in0' with 4 elements is not finite: nan"),
    ("EnforceFinite", [INFINITE.astype("e")], {}, DTypeError, "X is float16"),
    ("NanCheck", [INFINITE], {}, NumericError, "NanCheck: element 1, 3 of 'in0' with 4 elements is not finite: nan\n"),
    ("NanCheck", [INFINITE, ZEROS, "x"], {}, NumericError, r"(?s)not finite.*hint: look at 'in1', 'in2'"),
    ("NanCheck", [INFINITE.astype("d")], {}, DTypeError, "X is float64"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


def test_gradients_are_checked_too() -> None:
    view = find_schema("NanCheck").view(operator_def("NanCheck", ["x", "z"], ["y"]))
    (made,), names = gradient_for_op(view, ["dy"])
    assert (made.type, list(made.input), list(made.output)) == ("NanCheck", ["dy"], ["x_grad"])
    assert names == ["x_grad", None]
