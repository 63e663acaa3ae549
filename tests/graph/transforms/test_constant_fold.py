"""What depends on constants only becomes the prelude."""

from __future__ import annotations

import pytest

from tests.rewriting import Rewrite, check_rewrite

DIMS = {"x": (2, 3), "w": (2, 3)}
FOLDED = "in: x, v\nout: y\ny = Sum(x, v)"

CASES = [
    Rewrite(
        "one", "in: x, w\nout: y\nv = Relu(w)\ny = Sum(x, v)", FOLDED, DIMS, "in: w\nout: v\nv = Relu(w)", constants="w"
    ),
    Rewrite(
        "a chain, and what has no input",
        "in: x, w\nout: y\nv = Relu(w)\nf = ConstantFill(; shape=[2, 3], value=2.0)\nv = Sum(v, f)\ny = Sum(x, v)",
        FOLDED,
        DIMS,
        "in: w\nout: v\nv = Relu(w)\nf = ConstantFill(; shape=[2, 3], value=2.0)\nv = Sum(v, f)",
        constants="w",
    ),
    Rewrite(
        "the net overwrites the name of the folded blob: it lasts all the same",
        "in: x, w\nout: y\nv = Relu(w)\nv = Sum(v, x)\ny = Sum(v, x)",
        "in: x, v\nout: y\nv_v1 = Sum(v, x)\ny = Sum(v_v1, x)",
        DIMS,
        "in: w\nout: v\nv = Relu(w)",
        constants="w",
    ),
    Rewrite("nothing is constant", "in: x, w\nout: y\nv = Relu(w)\ny = Sum(x, v)", None, DIMS),
    Rewrite("an output", "in: x, w\nout: y, v\nv = Relu(w)\ny = Sum(x, v)", None, DIMS, constants="w"),
    Rewrite(
        "the net writes it",
        "in: x, w\nout: y\nv = Relu(w)\ny = Sum(x, v)\nw = Sum(w, x)",
        None,
        DIMS,
        constants="w",
    ),
    Rewrite("random numbers", "in: x\nout: y\nr = GaussianFill(; shape=[2, 3])\ny = Sum(x, r)", constants="x2"),
    Rewrite("a counter", "in: n\nout: r\nn = Iter(n)\nr = LearningRate(n; base_lr=0.1, policy='fixed')", constants="n"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_constant_fold(case: Rewrite) -> None:
    check_rewrite("constant_fold", case)


def test_what_is_computed_once_is_there_all_the_same() -> None:
    made = check_rewrite("constant_fold", CASES[1])
    assert made.gone == {}
    assert made.prelude_origins == (("Relu 'v'",), ("ConstantFill 'f'",), ("Sum 'v'",))
