"""What nobody needs."""

from __future__ import annotations

import pytest

from tests.rewriting import Rewrite, check_rewrite

CONV = {"x": (2, 3, 5, 7), "w": (4, 3, 2, 3), "b": (4,), "dy": (2, 4, 4, 5)}
ARGS = "kernels=[2, 3]"

CASES = [
    Rewrite(
        "a chain",
        "in: x\nout: z\na = Relu(x)\nb = Relu(a)\nc = Relu(b)\nz = Scale(a; scale=2.0)",
        "in: x\nout: z\na = Relu(x)\nz = Scale(a; scale=2.0)",
        {"x": (2, 3)},
    ),
    Rewrite("kept", "in: x\nout: z\nb = Relu(x)\nz = Scale(x; scale=2.0)", None, {"x": (2, 3)}, keep="b"),
    Rewrite("without outputs the leaves are outputs", "in: x\nb = Relu(x)\nz = Scale(x; scale=2.0)"),
    Rewrite(
        "a value that is overwritten before anybody reads it",
        "in: x\nout: z\nz = Relu(x)\nz = Scale(x; scale=2.0)",
        "in: x\nout: z\nz = Scale(x; scale=2.0)",
        {"x": (2, 3)},
    ),
    Rewrite("a parameter is updated", "in: w, g\nw = Sum(w, g)", None, {"w": (2, 3), "g": (2, 3)}),
    Rewrite(
        "dX of the first convolution",
        f"in: x, w, dy\nout: dw, db\ndw, db, dx = ConvGradient(x, w, dy; {ARGS})",
        f"in: x, w, dy\nout: dw, db\ndw, db = ConvGradient(x, w, dy; {ARGS})",
        CONV,
    ),
    Rewrite(
        "dX of FC",
        "in: x, w, dy\nout: dw, db\ndw, db, dx = FCGradient(x, w, dy)",
        "in: x, w, dy\nout: dw, db\ndw, db = FCGradient(x, w, dy)",
        {"x": (2, 3), "w": (5, 3), "dy": (2, 5)},
    ),
    Rewrite(
        "db cannot be left out alone",
        f"in: x, w, dy\nout: dw\ndw, db, dx = ConvGradient(x, w, dy; {ARGS})",
        f"in: x, w, dy\nout: dw\ndw, db = ConvGradient(x, w, dy; {ARGS})",
        CONV,
    ),
    Rewrite(
        "outputs that come all or none",
        "in: x, s, i, m, v\nout: y\ny, m, v, sm, si = SpatialBN(x, s, i, m, v; is_test=0)",
        None,
        {"x": (4, 3, 2), "s": (3,), "i": (3,), "m": (3,), "v": (3,)},
    ),
    Rewrite("a counter counts", "in: x, n\nout: z\nn = Iter(n)\nz = Relu(x)"),
    Rewrite("what prints", "in: x\nout: z\nz = Relu(x)\ny = Relu(x)\nPrint(y)"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_dead_code(case: Rewrite) -> None:
    check_rewrite("dead_code", case)


def test_what_is_gone_is_told() -> None:
    made = check_rewrite("dead_code", CASES[0])
    assert made.gone == {"b": "removed: nothing reads it", "c": "removed: nothing reads it"}
