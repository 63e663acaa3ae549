"""Operators that hand on their input."""

from __future__ import annotations

import pytest

from tests.rewriting import Rewrite, check_rewrite

X = {"x": (2, 3)}

CASES = [
    Rewrite("copy", "in: x\nout: z\ny = Copy(x)\nz = Relu(y)", "in: x\nout: z\nz = Relu(x)", X),
    Rewrite(
        "a chain",
        "in: x\nout: z\ny = Copy(x)\ny = StopGradient(y)\ns = Sum(y)\nz = Relu(s)",
        "in: x\nout: z\nz = Relu(x)",
        X,
    ),
    Rewrite(
        "the copy is an output: the one before is made under its name",
        "in: x\nout: y\nt = Relu(x)\ny = Copy(t)",
        "in: x\nout: y\ny = Relu(x)",
        X,
    ),
    Rewrite("a copy of an input, which is an output", "in: x\nout: y\ny = Copy(x)", None, X),
    Rewrite("both are outputs", "in: x\nout: t, y\nt = Relu(x)\ny = Copy(t)", None, X),
    Rewrite("both are kept", "in: x\nout: y\nt = Relu(x)\ny = Copy(t)", None, X, keep="t"),
    Rewrite(
        "the copy preserves a parameter from its update",
        "in: w, g\nout: z\nold = Copy(w)\nw = Sum(w, g)\nz = Sum(w, old)",
        None,
        {"w": (2, 3), "g": (2, 3)},
    ),
    Rewrite(
        "another write of a name that may change is no hazard",
        "in: x\nout: z\nt = Relu(x)\nc = Copy(t)\nt = Scale(x; scale=2.0)\nz = Sum(c, t)",
        "in: x\nout: z\nt = Relu(x)\nt_v1 = Scale(x; scale=2.0)\nz = Sum(t, t_v1)",
        X,
    ),
    Rewrite(
        "another reader writes the copy in place: it gets a name of its own",
        "in: x\nout: z\nt = Relu(x)\nc = Copy(t)\nc = Scale(c; scale=2.0)\nz = Sum(c, t)",
        "in: x\nout: z\nt = Relu(x)\nc = Scale(t; scale=2.0)\nz = Sum(c, t)",
        X,
    ),
    Rewrite(
        "an output whose older value is read in between",
        "in: x\nout: y\ny = Relu(x)\nt = Scale(x; scale=3.0)\nu = Scale(y; scale=2.0)\ny = Copy(t)\nz = Sum(u, y)",
        "in: x\nout: y\ny_v0 = Relu(x)\ny = Scale(x; scale=3.0)\nu = Scale(y_v0; scale=2.0)\nz = Sum(u, y)",
        X,
        keep="z",
    ),
    Rewrite(
        "the copy is updated in place, and what it was made of is read afterwards",
        "in: x, v, i, g, w\nout: z\nt = Relu(x)\ny = Copy(t)\ny = ScatterWeightedSum(y, v, i, g, w)\nz = Sum(t, y)",
        None,
    ),
    Rewrite("other devices", "in: x\nout: z\nt = Relu(x) @cuda:0\ny = Copy(t) @cuda:1\nz = Relu(y) @cuda:1"),
    Rewrite(
        "Dropout in a test",
        "in: x\nout: z\ny = Dropout(x; is_test=1)\nz = Relu(y)",
        "in: x\nout: z\nz = Relu(x)",
        X,
    ),
    Rewrite("Dropout in training", "in: x\nout: z\ny, m = Dropout(x; is_test=0)\nz = Relu(y)"),
    Rewrite("a scale that scales", "in: x\nout: z\ny = Scale(x; scale=2.0)\nz = Relu(y)", None, X),
    Rewrite("Sum of two", "in: x\nout: z\ny = Sum(x, x)\nz = Relu(y)", None, X),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_canonicalise(case: Rewrite) -> None:
    check_rewrite("canonicalise", case)


def test_what_is_gone_is_told() -> None:
    made = check_rewrite("canonicalise", CASES[0])
    assert made.gone == {"y": "the same as 'x'"}
