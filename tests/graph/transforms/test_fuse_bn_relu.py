"""SpatialBN and Relu in training."""

from __future__ import annotations

import pytest

from tests.rewriting import Rewrite, check_rewrite

DIMS = {"x": (4, 3, 2), "s": (3,), "i": (3,), "m": (3,), "v": (3,), "dy": (4, 3, 2)}
IN = "in: x, s, i, m, v, dy"
BN = "y, m, v, sm, si = SpatialBN(x, s, i, m, v; is_test=0, epsilon=0.5)"
FUSED = "m, v, sm, si = SpatialBNRelu(x, s, i, m, v; is_test=0, epsilon=0.5)"
GRADIENT = "dx, ds, di = SpatialBNGradient(x, s, dt, sm, si; is_test=0, epsilon=0.5)"

CASES = [
    Rewrite("forward", f"{IN}\nout: z\n{BN}\nz = Relu(y)", f"{IN}\nout: z\nz, {FUSED}", DIMS),
    Rewrite("in place", f"{IN}\nout: y\n{BN}\ny = Relu(y)", f"{IN}\nout: y\ny, {FUSED}", DIMS),
    Rewrite(
        "with the gradients",
        f"{IN}\nout: dx, ds, di\n{BN}\ny = Relu(y)\ndt = ReluGradient(y, dy)\n{GRADIENT}",
        f"{IN}\nout: dx, ds, di\ny, {FUSED}\n"
        "dx, ds, di = SpatialBNReluGradient(x, s, dy, sm, si, y; is_test=0, epsilon=0.5)",
        DIMS,
    ),
    Rewrite(
        "the masked gradient is read elsewhere",
        f"{IN}\nout: dx, ds, di, q\n{BN}\ny = Relu(y)\ndt = ReluGradient(y, dy)\n{GRADIENT}\nq = Relu(dt)",
        f"{IN}\nout: dx, ds, di, q\ny, {FUSED}\ndt = ReluGradient(y, dy)\n{GRADIENT}\nq = Relu(dt)",
        DIMS,
    ),
    Rewrite(
        "a gradient operator that needs what is between",
        f"{IN}\nout: z, q\n{BN}\nz = Relu(y)\nq = ReluGradient(y, dy)",
        None,
        DIMS,
    ),
    Rewrite("what is between is an output", f"{IN}\nout: y, z\n{BN}\nz = Relu(y)", None, DIMS),
    Rewrite("it does not train", f"{IN}\nout: z\ny = SpatialBN(x, s, i, m, v; is_test=1)\nz = Relu(y)", None, DIMS),
    Rewrite("other devices", f"{IN}\nout: z\n{BN} @cuda:0\nz = Relu(y) @cuda:1"),
    Rewrite(
        "the gradient of another Relu",
        f"{IN}\nout: dx, ds, di\n{BN}\nt = ReluGradient(dy, y)\ndt = ReluGradient(t, dy)\n{GRADIENT}",
        None,
        DIMS,
    ),
    Rewrite(
        "the running mean is read before the Relu",
        f"{IN}\nout: z, q\n{BN}\nq = Relu(m)\nz = Relu(y)",
        None,
        DIMS,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fuse_bn_relu(case: Rewrite) -> None:
    check_rewrite("fuse_bn_relu", case)
