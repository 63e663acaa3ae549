"""Vectors that become biases."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.rewriting import Rewrite, check_rewrite

DIMS = {"x": (2, 3, 5, 7), "w": (4, 3, 2, 3), "b": (4,)}
IN = "in: x, w, b\nout: z"
CONV = "y = Conv(x, w; kernels=[2, 3])"
ADD = "z = Add(y, b; broadcast=1, axis=1)"

CASES = [
    Rewrite("Conv", f"{IN}\n{CONV}\n{ADD}", f"{IN}\nz = Conv(x, w, b; kernels=[2, 3])", DIMS),
    Rewrite(
        "channels last",
        f'{IN}\ny = Conv(x, w; kernels=[2, 3], order="NHWC")\nz = Add(y, b)',
        f'{IN}\nz = Conv(x, w, b; kernels=[2, 3], order="NHWC")',
        {"x": (2, 5, 7, 3), "w": (4, 2, 3, 3), "b": (4,)},
    ),
    Rewrite(
        "MatMul",
        f"{IN}\ny = MatMul(x, w; trans_b=1)\nz = Add(y, b)",
        f"{IN}\nz = FC(x, w, b; axis_w=1)",
        {"x": (2, 3), "w": (5, 3), "b": (5,)},
    ),
    Rewrite(
        "MatMul whose weights stand the other way",
        f"{IN}\ny = MatMul(x, w)\nz = Add(y, b)",
        None,
        {"x": (2, 3), "w": (3, 5), "b": (5,)},
    ),
    Rewrite(
        "MatMul with constant weights that stand the other way",
        f"{IN}\ny = MatMul(x, w)\nz = Add(y, b)",
        f"{IN}\nw_transposed = Transpose(w)\nz = FC(x, w_transposed, b; axis_w=1)",
        {"x": (2, 3), "w": (3, 5), "b": (5,)},
        constants="w b",
        planned=True,
    ),
    Rewrite(
        "a sum of matrices",
        f"{IN}\ny = MatMul(x, w; trans_b=1)\nz = Add(y, b)",
        None,
        {"x": (2, 3), "w": (5, 3), "b": (2, 5)},
        constants="w b",
        planned=True,
    ),
    Rewrite(
        "MatMul in another shape",
        "in: x, w, b, l\nout: z\ny = MatMul(x, w, l; trans_b=1)\nz = Add(y, b)",
        None,
        {"x": (6, 3), "w": (5, 3), "b": (5,), "l": (2, 3, 5)},
        constants="w b l",
        planned=True,
    ),
    Rewrite("along another axis", f"{IN}\n{CONV}\nz = Add(y, b)", None, {**DIMS, "b": (5,)}),
    Rewrite("no vector", f"{IN}\n{CONV}\nz = Add(y, b)", None, {**DIMS, "b": (4, 1, 1)}),
    Rewrite("shapes unknown", f"{IN}\n{CONV}\n{ADD}", None, DIMS, blind=True),
    Rewrite("an output", f"{IN}, y\n{CONV}\n{ADD}", None, DIMS),
    Rewrite("used elsewhere", f"{IN}, q\n{CONV}\n{ADD}\nq = Relu(y)", None, DIMS),
    Rewrite("other devices", f"{IN}\n{CONV} @cuda:0\n{ADD} @cuda:1"),
    Rewrite(
        "the input is overwritten in between",
        f"in: x, w, b, g\nout: z\n{CONV}\nx = Sum(x, g)\n{ADD}",
        None,
        {**DIMS, "g": DIMS["x"]},
    ),
]


LAST = {"x": (2, 5, 7, 3), "w": (4, 2, 3, 3), "b": (4,)}
CONV_LAST = 'Conv(x, w; kernels=[2, 3], order="NHWC")'
MADE_LAST = f'{IN}\nz = Conv(x, w, b; kernels=[2, 3], order="NHWC")'
MADE = f"{IN}\nz = Conv(x, w, b; kernels=[2, 3])"
SQUARE = {"x": (2, 3, 5, 6), "w": (4, 3, 2, 3), "b": (4,)}


def planned(
    id: str, before: str, after: str | None, dims: Mapping[str, tuple[int, ...]] = DIMS, constants: str = "w b"
) -> Rewrite:
    """Return a case in which only constants are known, as in a plan that has not run."""
    return Rewrite(id, before, after, dims, constants=constants, planned=True)


PLANNED = [
    planned("Conv", f"{IN}\n{CONV}\n{ADD}", MADE),
    planned("in place", f"{IN}\nz = Conv(x, w; kernels=[2, 3])\nz = Add(z, b; broadcast=1, axis=1)", MADE),
    planned("the axis by its letter", f'{IN}\n{CONV}\nz = Add(y, b; broadcast=1, axis_str="C")', MADE),
    planned(
        "one dimension",
        f"{IN}\ny = Conv(x, w; kernels=[3])\n{ADD}",
        f"{IN}\nz = Conv(x, w, b; kernels=[3])",
        {"x": (2, 3, 7), "w": (4, 3, 3), "b": (4,)},
    ),
    planned("channels last, axis 3", f"{IN}\ny = {CONV_LAST}\nz = Add(y, b; broadcast=1, axis=3)", MADE_LAST, LAST),
    planned("channels last, axis -1", f"{IN}\ny = {CONV_LAST}\nz = Add(y, b; broadcast=1, axis=-1)", MADE_LAST, LAST),
    planned("channels last, as in NumPy", f"{IN}\ny = {CONV_LAST}\nz = Add(y, b)", MADE_LAST, LAST),
    planned("the bias first", f"{IN}\ny = {CONV_LAST}\nz = Add(b, y)", MADE_LAST, LAST),
    planned(
        "ConvTranspose with groups",
        f"{IN}\ny = ConvTranspose(x, w; kernels=[2, 3], group=2)\n{ADD}",
        f"{IN}\nz = ConvTranspose(x, w, b; kernels=[2, 3], group=2)",
        {"x": (2, 6, 5, 7), "w": (6, 4, 2, 3), "b": (8,)},
    ),
    planned(
        "a constant that lies like a vector",
        f"{IN}\n{CONV}\nz = Add(y, b)",
        f"{IN}\nb_vector = FlattenToVec(b)\nz = Conv(x, w, b_vector; kernels=[2, 3])",
        {**DIMS, "b": (1, 4, 1, 1)},
    ),
    planned(
        "a constant that is computed",
        f"{IN}\nc = Relu(b)\n{CONV}\nz = Add(y, c; broadcast=1, axis=1)",
        f"{IN}\nc = Relu(b)\nz = Conv(x, w, c; kernels=[2, 3])",
    ),
    planned("computed from data", f"in: x, w, d\nout: z\nb = Relu(d)\n{CONV}\n{ADD}", None, {**DIMS, "d": (4,)}, "w"),
    planned("no constant", f"{IN}\n{CONV}\n{ADD}", None, constants="w"),
    planned("weights that change", f"{IN}\n{CONV}\n{ADD}", None, constants="b"),
    planned("one number", f"{IN}\n{CONV}\n{ADD}", None, {**DIMS, "b": (1,)}),
    planned("as high as there are channels", f"{IN}\n{CONV}\nz = Add(y, b; broadcast=1, axis=2)", None, SQUARE),
    planned("as wide as there are channels", f"{IN}\n{CONV}\nz = Add(y, b)", None, SQUARE),
    planned(
        "as many images as channels, channels last",
        f"{IN}\ny = {CONV_LAST}\nz = Add(y, b; broadcast=1, axis=0)",
        None,
        {**LAST, "x": (4, 5, 7, 3)},
    ),
    planned("twice the same", f"{IN}\n{CONV}\nz = Add(y, y)", None),
    planned("an output", f"{IN}, y\n{CONV}\n{ADD}", None),
    planned("used elsewhere", f"{IN}, q\n{CONV}\n{ADD}\nq = Relu(y)", None),
    planned(
        "a gradient reads it", f"{IN}, dy, db\n{CONV}\n{ADD}\ndy, db = AddGradient(z, y, b; broadcast=1, axis=1)", None
    ),
    planned(
        "the result overwrites the data",
        "in: x, w, b\nout: x\ny = Conv(x, w; kernels=[1, 1])\nx = Add(y, b; broadcast=1, axis=1)",
        None,
        {"x": (2, 4, 5, 7), "w": (4, 4, 1, 1), "b": (4,)},
    ),
]


@pytest.mark.parametrize("case", PLANNED, ids=lambda case: case.id)
def test_vectors_that_are_constant_are_enough(case: Rewrite) -> None:
    made = check_rewrite("fuse_bias", case)
    assert made.relied == (frozenset() if case.after is None else {"w", "b"})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fuse_bias(case: Rewrite) -> None:
    check_rewrite("fuse_bias", case)
