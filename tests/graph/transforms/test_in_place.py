"""Results over inputs that die."""

from __future__ import annotations

import pytest

from tests.rewriting import Rewrite, check_rewrite

X = {"x": (2, 3)}

CASES = [
    Rewrite(
        "a chain takes one name",
        "in: x\nout: z\na = Softmax(x)\nb = Relu(a)\nc = Relu(b)\nz = Softmax(c)",
        "in: x\nout: z\na = Softmax(x)\na = Relu(a)\na = Relu(a)\nz = Softmax(a)",
        X,
    ),
    Rewrite(
        "the shapes are unknown, but the schema says that they are one",
        "in: x\nout: z\na = Softmax(x)\nb = Relu(a)\nz = Softmax(b)",
        "in: x\nout: z\na = Softmax(x)\na = Relu(a)\nz = Softmax(a)",
        X,
        blind=True,
    ),
    Rewrite(
        "FusedConv over its operand",
        "in: x, w\nout: q\ns = Relu(x)\nt = Relu(x)\n"
        'z = FusedConv(t, w, s; operands=1, epilogue="y + s0", kernel=1)\nq = Softmax(z)',
        "in: x, w\nout: q\ns = Relu(x)\nt = Relu(x)\n"
        's = FusedConv(t, w, s; operands=1, epilogue="y + s0", kernel=1)\nq = Softmax(s)',
        {"x": (2, 3, 4, 5), "w": (3, 3, 1, 1)},
    ),
    Rewrite(
        "FusedConv over its operand, whose shape is unknown, and is that of Y by the schema",
        "in: x, w\nout: q\ns = Relu(x)\nt = Relu(x)\n"
        'z = FusedConv(t, w, s; operands=1, epilogue="y + s0", kernel=1)\nq = Softmax(z)',
        "in: x, w\nout: q\ns = Relu(x)\nt = Relu(x)\n"
        's = FusedConv(t, w, s; operands=1, epilogue="y + s0", kernel=1)\nq = Softmax(s)',
        {"x": (2, 3, 4, 5), "w": (3, 3, 1, 1)},
        blind=True,
    ),
    Rewrite(
        "the convolution reads the operand as X too",
        "in: x, w\nout: q\ns = Relu(x)\n"
        'z = FusedConv(s, w, s; operands=1, epilogue="y + s0", kernel=1)\nq = Softmax(z)',
        None,
        {"x": (2, 3, 4, 5), "w": (3, 3, 1, 1)},
    ),
    Rewrite("an external input", "in: x\nout: z\na = Relu(x)\nz = Softmax(a)", None, X),
    Rewrite("an output has its own name", "in: x\nout: z\na = Softmax(x)\nz = Relu(a)", None, X),
    Rewrite("read later", "in: x\nout: z\na = Softmax(x)\nb = Relu(a)\nc = Softmax(b)\nz = Sum(c, a)", None, X),
    Rewrite(
        "a gradient operator still needs it",
        "in: x\nout: z\na = Softmax(x)\nb = Relu(a)\nc = Softmax(b)\nz = ReluGradient(a, c)",
        None,
        X,
    ),
    Rewrite("kept", "in: x\nout: z\na = Softmax(x)\nb = Relu(a)\nz = Softmax(b)", None, X, keep="a"),
    Rewrite("the schema does not allow it", "in: x\nout: z\na = Relu(x)\nb = Copy(a)\nz = Softmax(b)", None, X),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_in_place(case: Rewrite) -> None:
    check_rewrite("in_place", case)


def test_where_it_went_is_told() -> None:
    made = check_rewrite("in_place", CASES[1])
    assert made.gone["b"] == "written in place of 'a'"
