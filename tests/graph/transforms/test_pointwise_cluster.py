"""Clusters of pointwise operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError, TazzaError
from tazza.graph.text import parse_net
from tazza.workspace import Workspace
from tests.rewriting import Rewrite, check_rewrite

DIMS = {"x": (2, 3), "d": (2, 3)}
IN = "in: x, d"

CASES = [
    Rewrite(
        "a chain",
        f"{IN}\nout: z\ny = Sum(x, d)\nz = Relu(y)",
        f'{IN}\nout: z\nz = Pointwise(x, d; expressions=["relu(x0 + x1)"])',
        DIMS,
    ),
    Rewrite(
        "two results",
        f"{IN}\nout: z, y\ny = Sum(x, d)\nz = Relu(y)",
        f'{IN}\nout: z, y\ny, z = Pointwise(x, d; expressions=["x0 + x1", "relu(x0 + x1)"])',
        DIMS,
    ),
    Rewrite(
        "a diamond",
        f"{IN}\nout: z\na = Relu(x)\nb = ReluGradient(a, d)\nz = Sum(a, b)",
        f'{IN}\nout: z\nz = Pointwise(x, d; expressions=["relu(x0) + where(relu(x0) > 0.0, x1, 0.0)"])',
        DIMS,
    ),
    Rewrite(
        "training: gradients that meet",
        f"{IN}, y\nout: z\ns = Sum(x, d)\nz = ReluGradient(y, s)",
        f'{IN}, y\nout: z\nz = Pointwise(x, d, y; expressions=["where(x2 > 0.0, x0 + x1, 0.0)"])',
        {**DIMS, "y": (2, 3)},
    ),
    Rewrite(
        "shapes unknown, but nothing is broadcast",
        f"{IN}\nout: z\ny = Sum(x, d)\nz = Relu(y)",
        f'{IN}\nout: z\nz = Pointwise(x, d; expressions=["relu(x0 + x1)"], alike=1)',
        DIMS,
        blind=True,
    ),
    Rewrite("shapes unknown", f"{IN}\nout: z\ny = Mul(x, d)\nz = Relu(y)", None, DIMS, blind=True),
    Rewrite("types unknown", f"{IN}\nout: z\ny = Sum(x, d)\nz = Sum(y, d)", None, DIMS, blind=True),
    Rewrite("one alone", f"{IN}\nout: z\nz = Relu(x)", None, DIMS),
    Rewrite("other devices", f"{IN}\nout: z\ny = Sum(x, d) @cuda:0\nz = Relu(y) @cuda:1"),
    Rewrite(
        "a path that leaves and comes back",
        f"{IN}\nout: z\ny = Relu(x)\np = Softmax(y)\nz = Sum(y, p)",
        None,
        DIMS,
    ),
    Rewrite(
        "an input is overwritten in between",
        f"{IN}\nout: z\ny = Relu(x)\nx = Softmax(d)\nz = Sum(y, d)",
        None,
        DIMS,
    ),
    Rewrite(
        "a parameter is updated",
        f"{IN}\nz = Relu(d)\nx = Sum(x, z)",
        None,
        DIMS,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_pointwise_cluster(case: Rewrite) -> None:
    check_rewrite("pointwise_cluster", case)


@pytest.mark.parametrize(
    ("x", "d", "error", "said"),
    [
        (np.ones((2, 3), "f"), np.ones(3, "f"), ShapeError, r"x1 has the shape \(3\), x0 has \(2, 3\)"),
        (np.ones((2, 3), "f"), np.ones((1, 3), "f"), ShapeError, "nothing is broadcast"),
        (np.ones(3), np.ones(3), DTypeError, "x0 is float64, not float32"),
        (np.ones(3, "f"), np.ones(3), DTypeError, "x1 is float64, not float32"),
        (np.ones(3, "i"), np.ones(3, "i"), DTypeError, "int32"),
    ],
)
def test_a_plan_refuses_what_the_operators_refuse(
    x: NDArray[Any], d: NDArray[Any], error: type[TazzaError], said: str
) -> None:
    """Rewriting does not know shapes and types; what it makes of a net that has run before looks at them."""
    workspace = Workspace()
    for net_type in ("simple", "plan"):
        net = parse_net(f"net: {net_type}\nin: x, d\nout: z\ny = Sum(x, d)\nz = Relu(y)")
        net.type = net_type
        workspace.feed("x", np.ones((2, 3), "f"))
        workspace.feed("d", np.ones((2, 3), "f"))
        made = workspace.create_net(net)
        made.run()
        np.testing.assert_array_equal(workspace.fetch("z"), np.full((2, 3), 2, "f"))
        workspace.feed("x", x)
        workspace.feed("d", d)
        with pytest.raises(error, match=said if net_type == "plan" else None):
            made.run()
