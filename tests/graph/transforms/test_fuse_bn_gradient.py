"""Gradients of epilogues of SpatialBN."""

from __future__ import annotations

import pytest

from tests.rewriting import Rewrite, check_rewrite

DIMS = {"x": (4, 3, 2), "s": (3,), "i": (3,), "m": (3,), "v": (3,), "dy": (4, 3, 2)}
IN = "in: x, s, i, m, v, dy\nout: dx, ds, di"


def forward(epilogue: str, more: str = "") -> str:
    """Return the line of the normalization."""
    count = more.count(",")
    inputs = f"x, s, i, m, v{more}"
    return (
        f'y, m, v, sm, si = FusedSpatialBN({inputs}; is_test=0, epsilon=0.5, operands={count}, epilogue="{epilogue}")'
    )


def gradient(dz: str = "dt", x: str = "x", mean: str = "sm") -> str:
    """Return the line of its gradient."""
    return f"dx, ds, di = SpatialBNGradient({x}, s, {dz}, {mean}, si; is_test=0, epsilon=0.5)"


def fused(prologue: str) -> str:
    """Return the line of the gradient with a prologue."""
    return f'dx, ds, di = FusedSpatialBNGradient(x, s, i, dy, sm, si; prologue="{prologue}", is_test=0, epsilon=0.5)'


RELU, RELU_GRADIENT = forward("relu(y)"), "dt = ReluGradient(y, dy)"
MASKED = "where(relu(y) > 0.0, dy, 0.0)"

CASES = [
    Rewrite("Relu", f"{IN}\n{RELU}\n{RELU_GRADIENT}\n{gradient()}", f"{IN}\n{RELU}\n{fused(MASKED)}", DIMS),
    Rewrite(
        "Relu, shapes unknown",
        f"{IN}\n{RELU}\n{RELU_GRADIENT}\n{gradient()}",
        f"{IN}\n{RELU}\n{fused(MASKED)}",
        DIMS,
        blind=True,
    ),
    Rewrite(
        "Sigmoid",
        f"{IN}\n{forward('sigmoid(y)')}\ndt = SigmoidGradient(y, dy)\n{gradient()}",
        f"{IN}\n{forward('sigmoid(y)')}\n{fused('dy * sigmoid(y) * (1.0 - sigmoid(y))')}",
        DIMS,
    ),
    Rewrite(
        "the masked gradient is read elsewhere",
        f"{IN}, q\n{RELU}\n{RELU_GRADIENT}\n{gradient()}\nq = Relu(dt)",
        None,
        DIMS,
    ),
    Rewrite("the masked gradient is an output", f"{IN}, dt\n{RELU}\n{RELU_GRADIENT}\n{gradient()}", None, DIMS),
    Rewrite(
        "an epilogue with an operand",
        f"in: x, s, i, m, v, dy, z\nout: dx, ds, di\n{forward('relu(y + s0)', ', z')}\n{RELU_GRADIENT}\n{gradient()}",
        None,
        {**DIMS, "z": (4, 3, 2)},
    ),
    Rewrite(
        "the gradient of another normalization",
        f"in: x, s, i, m, v, dy, z\nout: dx, ds, di\n{RELU}\n{RELU_GRADIENT}\n{gradient(x='z')}",
        None,
        {**DIMS, "z": (4, 3, 2)},
    ),
    Rewrite(
        "with another mean",
        f"in: x, s, i, m, v, dy, z\nout: dx, ds, di\n{RELU}\n{RELU_GRADIENT}\n{gradient(mean='z')}",
        None,
        {**DIMS, "z": (3,)},
    ),
    Rewrite("it comes in as another input", f"{IN}\n{RELU}\ndt = ReluGradient(y, x)\n{gradient('dy')}", None, DIMS),
    Rewrite(
        "the mask is not normalized", f"{IN}\n{RELU}\nt = Relu(dy)\ndt = ReluGradient(t, dy)\n{gradient()}", None, DIMS
    ),
    Rewrite(
        "the bias was updated before",
        f"in: x, s, i, m, v, dy\nout: dx, ds, di, i\n{RELU}\n{RELU_GRADIENT}\ni = Relu(i)\n{gradient()}",
        None,
        DIMS,
    ),
    Rewrite(
        "a gate per channel that is broadcast",
        f"in: x, s, i, m, v, dy, w\nout: dx, ds, di\n{RELU}\ndt = Mul(y, w; broadcast=1, axis=1)\n{gradient()}",
        None,
        {**DIMS, "w": (3,)},
    ),
    Rewrite(
        "a gate per channel that is broadcast, shapes unknown",
        f"in: x, s, i, m, v, dy, w\nout: dx, ds, di\n{RELU}\ndt = Mul(y, w; broadcast=1, axis=1)\n{gradient()}",
        None,
        {**DIMS, "w": (3,)},
        blind=True,
    ),
    Rewrite(
        "the gradient of the bias goes where the bias is",
        f"in: x, s, i, m, v, dy\nout: dx, ds, i\n{RELU}\n{RELU_GRADIENT}\n{gradient().replace(' di ', ' i ')}",
        None,
        DIMS,
    ),
    Rewrite("other devices", f"{IN}\n{RELU}\n{RELU_GRADIENT} @cuda:0\n{gradient()} @cuda:1"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fuse_bn_gradient(case: Rewrite) -> None:
    check_rewrite("fuse_bn_gradient", case)
