"""What is computed twice."""

from __future__ import annotations

import pytest

from tests.rewriting import Rewrite, check_rewrite

X = {"x": (2, 3)}

CASES = [
    Rewrite(
        "two alike",
        "in: x\nout: z\na = Relu(x)\nb = Relu(x)\nz = Sum(a, b)",
        "in: x\nout: z\na = Relu(x)\nz = Sum(a, a)",
        X,
    ),
    Rewrite(
        "what depends on two alike is alike",
        "in: x\nout: z\na = Relu(x)\nb = Relu(x)\nc = Scale(a; scale=2.0)\nd = Scale(b; scale=2.0)\nz = Sum(c, d)",
        "in: x\nout: z\na = Relu(x)\nc = Scale(a; scale=2.0)\nz = Sum(c, c)",
        X,
    ),
    Rewrite(
        "one is overwritten in place: it keeps its name, the other does not",
        "in: x\nout: z\na = Relu(x)\na = Scale(a; scale=2.0)\nb = Relu(x)\nz = Sum(a, b)",
        "in: x\nout: z\na = Relu(x)\na_v1 = Scale(a; scale=2.0)\nz = Sum(a_v1, a)",
        X,
    ),
    Rewrite("an output", "in: x\nout: b, z\na = Relu(x)\nb = Relu(x)\nz = Sum(a, b)", None, X),
    Rewrite(
        "other arguments",
        "in: x\nout: z\na = Scale(x; scale=2.0)\nb = Scale(x; scale=3.0)\nz = Sum(a, b)",
        None,
        X,
    ),
    Rewrite("other devices", "in: x\nout: a, z\na = Relu(x) @cuda:0\nb = Relu(x) @cuda:1\nz = Relu(b) @cuda:1"),
    Rewrite(
        "the input was written in between",
        "in: w, g\nout: z\na = Relu(w)\nw = Sum(w, g)\nb = Relu(w)\nz = Sum(a, b)",
        None,
        {"w": (2, 3), "g": (2, 3)},
    ),
    Rewrite(
        "random numbers",
        "out: z\na = GaussianFill(; shape=[2, 3])\nb = GaussianFill(; shape=[2, 3])\nz = Sum(a, b)",
    ),
    Rewrite(
        "counters",
        "in: n, m\nout: n, m\nn = Iter(n)\nm = Iter(m)",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_common_subexpression(case: Rewrite) -> None:
    check_rewrite("common_subexpression", case)
