"""QuantDecode, its gradient and ByteWeightDequant: against one code after the other; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, SchemaError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
BOOK = np.array([0.5, -1.0, 2.0, 7.0], "f")
CODES = [np.array([[0, 1, 3], [3, 2, 3]], "B"), np.array([1, 1], "H"), np.array(2, "i")]
SLOPES = [np.arange(6, dtype="f").reshape(2, 3) + 1, np.array([10, 20], "f"), np.array(100, "f")]
BYTES = np.arange(0, 252, 21, dtype="B")


def looked_up(codebook: Array, *codes: Array) -> Any:
    """Return what each code stands for."""
    entries = codebook.ravel().tolist()
    found = [np.array([entries[code] for code in one.ravel().tolist()]).reshape(one.shape) for one in codes]
    return tuple(found) if len(found) > 1 else found[0]


def gathered(codebook: Array, *given: Array) -> Array:
    """Return the sum of what belongs to each entry."""
    total, n = [0.0] * codebook.size, len(given) // 2
    for codes, slopes in zip(given[:n], given[n:], strict=True):
        for code, slope in zip(codes.ravel().tolist(), slopes.ravel().tolist(), strict=True):
            total[code] += slope
    return np.array(total).reshape(codebook.shape)


CASES = [
    Case("QuantDecode", [BOOK, *CODES], looked_up, outputs=3),
    Case("QuantDecode", [BOOK.reshape(2, 2), CODES[0]], looked_up, outputs=1, id="a codebook of two axes"),
    Case("QuantDecode", [BOOK, CODES[0][:0]], looked_up, outputs=1, id="no codes"),
    Case("QuantDecodeGradient", [BOOK, *CODES, *SLOPES], gathered),
    Case("QuantDecodeGradient", [BOOK.reshape(2, 2), CODES[0], SLOPES[0].ravel()], gathered, id="flat gradients"),
    Case("ByteWeightDequant", [BYTES], -3 + BYTES.reshape(3, 4) * 6.0 / 255, {"shape": [3, 4]}),
    Case(
        "ByteWeightDequant",
        [BYTES.reshape(3, 4)],
        1 - BYTES[:10].reshape(2, 5) * 1.5 / 255,
        {"shape": [2, 5], "min": 1.0, "max": -0.5},
        id="bounds, a part",
    ),
    Case("ByteWeightDequant", [BYTES], np.array(-3.0), id="one number"),
]


@on_all_engines(CASES)
def test_code(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_emitted() -> None:
    """All codes, then all gradients."""
    op = find_schema("QuantDecode").view(operator_def("QuantDecode", ["book", "c", "d"], ["x", "y"]))
    (emitted,), gradients = gradient_for_op(op, ["dx", "dy"])
    assert (emitted.type, list(emitted.input)) == ("QuantDecodeGradient", ["book", "c", "d", "dx", "dy"])
    assert gradients == ["book_grad", None, None]


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    # Caffe2 reads or writes foreign memory.
    ("QuantDecode", [BOOK[:3], CODES[0]], {"outputs": 1}, NumericError, r"C0\[0, 2\] is 3, not in \[0, 3\)"),
    ("QuantDecode", [BOOK, -CODES[2]], {"outputs": 1}, NumericError, r"C0 is -2, not in \[0, 4\)"),
    ("QuantDecodeGradient", [BOOK[:3], CODES[0], SLOPES[0]], {}, NumericError, r"C0\[0, 2\] is 3, not in \[0, 3\)"),
    ("ByteWeightDequant", [BYTES], {"shape": [13]}, ShapeError, r"X has 12 elements, shape = \[13\] asks for 13"),
    ("QuantDecode", [BOOK, CODES[0].astype("q")], {"outputs": 1}, DTypeError, "C is int64"),
    ("QuantDecode", [BOOK, CODES[0]], {"outputs": 2}, SchemaError, "2 outputs"),
    (
        "QuantDecodeGradient",
        [BOOK, CODES[0], SLOPES[1]],
        {},
        ShapeError,
        r"dY0 has the shape \(2\), C0 \(2, 3\)",
    ),
    ("QuantDecodeGradient", [BOOK, SLOPES[0], SLOPES[0]], {}, DTypeError, "C is float32"),
    ("QuantDecodeGradient", [BOOK, CODES[0]], {}, SchemaError, "2 inputs"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
