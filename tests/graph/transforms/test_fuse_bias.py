"""Vectors that become biases."""

from __future__ import annotations

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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fuse_bias(case: Rewrite) -> None:
    check_rewrite("fuse_bias", case)
