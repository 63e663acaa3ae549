"""Gradients of sums of rows become part of the update of these rows; the zoo's DLRM compares the numbers."""

from __future__ import annotations

import pytest

from tests.rewriting import Rewrite, check_rewrite

VALUES = "in: w, m, q, dy, lr, i, n\nout: w, m, q"
GRADIENT = "dw = SparseLengthsIndicesIn{}Gradient(dy, n, i)"
ROW_WISE = "w, m = RowWiseSparseAdagrad(w, m, i, dw, lr; epsilon=0.5, weight_decay=0.25)"
ELEMENTS = "w, q = SparseAdagrad(w, q, i, dw, lr; epsilon=0.5)"


def fused(of: str, reducer: str, state: str, more: str) -> str:
    """Return the line of the fused operator."""
    type = f"{of}FusedWithSparseLengths{reducer}Gradient"
    return f"w, {state} = {type}(w, {state}, i, dy, lr, n; epsilon=0.5, weight_decay={more})"


CASES = [
    *(
        Rewrite(
            f"{reducer}, {of}",
            f"{VALUES}\n{GRADIENT.format(f'Gradient{reducer}')}\n{update}",
            f"{VALUES}\n{fused(of, reducer, state, more)}",
        )
        for reducer in ("Sum", "Mean")
        for of, state, update, more in (
            ("RowWiseSparseAdagrad", "m", ROW_WISE, "0.25"),
            ("SparseAdagrad", "q", ELEMENTS, "0.0"),
        )
    ),
    Rewrite(
        "the gradient is read elsewhere",
        f"{VALUES}, z\n{GRADIENT.format('GradientSum')}\n{ROW_WISE}\nz = Relu(dw)",
        None,
    ),
    Rewrite("the gradient is an output", f"{VALUES}, dw\n{GRADIENT.format('GradientSum')}\n{ROW_WISE}", None),
    Rewrite(
        "other rows",
        f"{VALUES.replace('i, n', 'i, n, j')}\n{GRADIENT.format('GradientSum')}\n{ROW_WISE.replace(' i,', ' j,')}",
        None,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rewrites(case: Rewrite) -> None:
    check_rewrite("fuse_row_update", case)
