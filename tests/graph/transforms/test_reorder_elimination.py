"""Reorders that undo each other."""

from __future__ import annotations

import pytest

from tests.rewriting import Rewrite, check_rewrite

X = {"x": (2, 3, 4, 5)}

CASES = [
    Rewrite(
        "to channels last and back",
        "in: x\nout: z\na = NCHW2NHWC(x)\nb = NHWC2NCHW(a)\nz = Relu(b)",
        "in: x\nout: z\nz = Relu(x)",
        X,
    ),
    Rewrite(
        "Transpose and back",
        "in: x\nout: z\na = Transpose(x; axes=[2, 0, 1, 3])\nb = Transpose(a; axes=[1, 2, 0, 3])\nz = Relu(b)",
        "in: x\nout: z\nz = Relu(x)",
        X,
    ),
    Rewrite(
        "in reverse, twice",
        "in: x\nout: z\na = Transpose(x)\nb = Transpose(a)\nz = Relu(b)",
        "in: x\nout: z\nz = Relu(x)",
        X,
    ),
    Rewrite(
        "the result is an output, what was before is not",
        "in: x\nout: b\nt = Relu(x)\na = NCHW2NHWC(t)\nb = NHWC2NCHW(a)",
        "in: x\nout: b\nb = Relu(x)",
        X,
    ),
    Rewrite(
        "what is between is used elsewhere: only the way back goes",
        "in: x\nout: z, q\na = NCHW2NHWC(x)\nb = NHWC2NCHW(a)\nz = Relu(b)\nq = Relu(a)",
        "in: x\nout: z, q\na = NCHW2NHWC(x)\nz = Relu(x)\nq = Relu(a)",
        X,
    ),
    Rewrite(
        "what is between is kept",
        "in: x\nout: z\na = NCHW2NHWC(x)\nb = NHWC2NCHW(a)\nz = Relu(b)",
        "in: x\nout: z\na = NCHW2NHWC(x)\nz = Relu(x)",
        X,
        keep="a",
    ),
    Rewrite(
        "axes that do not undo each other",
        "in: x\nout: z\na = Transpose(x; axes=[2, 0, 1, 3])\nb = Transpose(a; axes=[2, 0, 1, 3])\nz = Relu(b)",
        None,
        X,
    ),
    Rewrite("both ways the same", "in: x\nout: z\na = NCHW2NHWC(x)\nb = NCHW2NHWC(a)\nz = Relu(b)", None, X),
    Rewrite("input and output", "in: x\nout: b\na = NCHW2NHWC(x)\nb = NHWC2NCHW(a)", None, X),
    Rewrite(
        "the input is overwritten before the result is read",
        "in: x, g\nout: z\na = NCHW2NHWC(x)\nb = NHWC2NCHW(a)\nx = Sum(x, g)\nz = Relu(b)",
        None,
        {"x": (2, 3, 4, 5), "g": (2, 3, 4, 5)},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reorder_elimination(case: Rewrite) -> None:
    check_rewrite("reorder_elimination", case)
