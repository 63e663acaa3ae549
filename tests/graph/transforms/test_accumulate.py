"""Sums gather in an operand that dies."""

from __future__ import annotations

import pytest

from tests.rewriting import Rewrite, check_rewrite

DIMS = {"x": (2, 3), "d": (2, 3)}

CASES = [
    Rewrite(
        "the second dies",
        "in: x, d\nout: z\na = Relu(x)\nz = Sum(d, a)",
        "in: x, d\nout: z\na = Relu(x)\nz = Sum(a, d)",
        DIMS,
    ),
    Rewrite("the first dies as well", "in: x, d\nout: z\nb = Relu(d)\na = Relu(x)\nz = Sum(b, a)", None, DIMS),
    Rewrite("neither dies", "in: x, d\nout: z\nz = Sum(d, x)", None, DIMS),
    Rewrite("the second is read later", "in: x, d\nout: z, q\na = Relu(x)\nz = Sum(d, a)\nq = Relu(a)", None, DIMS),
    Rewrite("the second is kept", "in: x, d\nout: z\na = Relu(x)\nz = Sum(d, a)", None, DIMS, keep="a"),
    Rewrite("a parameter is updated", "in: x, d\na = Relu(x)\nd = Sum(d, a)", None, DIMS),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_accumulate(case: Rewrite) -> None:
    check_rewrite("accumulate", case)
