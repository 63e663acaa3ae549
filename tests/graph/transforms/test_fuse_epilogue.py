"""Epilogues of convolutions and products."""

from __future__ import annotations

import pytest

from tazza.graph.text import parse_net, print_net
from tazza.graph.transform import TRANSFORMS, PassContext
from tests.rewriting import Rewrite, check_rewrite

DIMS = {"x": (2, 3, 5, 7), "w": (4, 3, 2, 3), "b": (4,), "s": (2, 4, 4, 5)}
IN = "in: x, w, b, s"
ARGS = "kernels=[2, 3]"
CONV = f"y = Conv(x, w, b; {ARGS})"


def fused(epilogue: str, operands: str = "", output: str = "z") -> str:
    """Return the line of the fused convolution."""
    count = operands.count(",")
    return f'{output} = FusedConv(x, w, b{operands}; operands={count}, epilogue="{epilogue}", {ARGS})'


BN_DIMS = {"x": (4, 3, 2), "s": (3,), "i": (3,), "m": (3,), "v": (3,), "dy": (4, 3, 2)}
BN_IN = "in: x, s, i, m, v, dy"
BN = "y, m, v, sm, si = SpatialBN(x, s, i, m, v; is_test=0, epsilon=0.5)"


def fused_bn(epilogue: str, operands: str = "", output: str = "z") -> str:
    """Return the line of the fused normalization."""
    arguments = f'operands={operands.count(",")}, epilogue="{epilogue}", is_test=0, epsilon=0.5'
    return f"{output}, m, v, sm, si = FusedSpatialBN(x, s, i, m, v{operands}; {arguments})"


CASES = [
    Rewrite("Relu", f"{IN}\nout: z\n{CONV}\nz = Relu(y)", f"{IN}\nout: z\n{fused('relu(y)')}", DIMS),
    Rewrite("in place", f"{IN}\nout: y\n{CONV}\ny = Relu(y)", f"{IN}\nout: y\n{fused('relu(y)', output='y')}", DIMS),
    Rewrite(
        "Sum and Relu",
        f"{IN}\nout: z\n{CONV}\nt = Sum(y, s)\nz = Relu(t)",
        f"{IN}\nout: z\n{fused('relu(y + s0)', ', s')}",
        DIMS,
    ),
    Rewrite(
        "Sum with the operand first, shapes unknown",
        f"{IN}\nout: z\n{CONV}\nt = Sum(s, y)\nz = Relu(t)",
        f"{IN}\nout: z\n{fused('relu(s0 + y)', ', s')}",
        DIMS,
        blind=True,
    ),
    Rewrite(
        "the last of two that meet takes the Sum",
        f"{IN}\nout: z\ny = Conv(x, w; {ARGS})\nq = Conv(x, w, b; {ARGS})\nz = Sum(y, q)",
        f"{IN}\nout: z\ny = Conv(x, w; {ARGS})\n{fused('s0 + y', ', y')}",
        DIMS,
    ),
    Rewrite(
        "the last of two that meet is needed elsewhere: the first takes it",
        f"{IN}\nout: z, q\ny = Conv(x, w, b; {ARGS})\nq = Conv(x, w; {ARGS})\nz = Sum(y, q)",
        f"{IN}\nout: z, q\nq = Conv(x, w; {ARGS})\n{fused('y + s0', ', q')}",
        DIMS,
    ),
    Rewrite(
        "FC",
        "in: x, w, b\nout: z\ny = FC(x, w, b)\nz = Relu(y)",
        'in: x, w, b\nout: z\nz = FusedFC(x, w, b; operands=0, epilogue="relu(y)")',
        {"x": (2, 3), "w": (5, 3), "b": (5,)},
    ),
    Rewrite(
        "MatMul",
        "in: x, w\nout: z\ny = MatMul(x, w; trans_b=1)\nz = Relu(y)",
        'in: x, w\nout: z\nz = FusedMatMul(x, w; operands=0, epilogue="relu(y)", trans_b=1)',
        {"x": (2, 3), "w": (5, 3)},
    ),
    Rewrite(
        "training: the gradient of Relu reads its own result",
        "in: x, w, b, dz\nout: dy, z\ny = FC(x, w, b)\nz = Relu(y)\ndy = ReluGradient(z, dz)",
        'in: x, w, b, dz\nout: dy, z\nz = FusedFC(x, w, b; operands=0, epilogue="relu(y)")\ndy = ReluGradient(z, dz)',
        {"x": (2, 3), "w": (5, 3), "b": (5,), "dz": (2, 5)},
    ),
    Rewrite(
        "a gradient operator that needs what is between",
        "in: x, w, b, dz\nout: dy, z\ny = FC(x, w, b)\nz = Relu(y)\ndy = ReluGradient(y, dz)",
        None,
        {"x": (2, 3), "w": (5, 3), "b": (5,), "dz": (2, 5)},
    ),
    Rewrite(
        "device, engine and name are kept",
        f"{IN}\nout: z\n{CONV} @cuda:1 engine=CUDNN name=first\nz = Relu(y) @cuda:1",
        f"{IN}\nout: z\n{fused('relu(y)')} @cuda:1 engine=CUDNN name=first",
    ),
    Rewrite("other devices", f"{IN}\nout: z\n{CONV} @cuda:0\nz = Relu(y) @cuda:1"),
    Rewrite("an output", f"{IN}\nout: z, y\n{CONV}\nz = Relu(y)", None, DIMS),
    Rewrite("kept", f"{IN}\nout: z\n{CONV}\nz = Relu(y)", None, DIMS, keep="y"),
    Rewrite("used elsewhere", f"{IN}\nout: z, q\n{CONV}\nz = Relu(y)\nq = Scale(y; scale=2.0)", None, DIMS),
    Rewrite("no formula", f"{IN}\nout: z\n{CONV}\nz = Softmax(y)", None, DIMS),
    Rewrite(
        "the input is overwritten before the Relu",
        f"{IN}, g\nout: z\n{CONV}\nx = Sum(x, g)\nz = Relu(y)",
        None,
        {**DIMS, "g": DIMS["x"]},
    ),
    Rewrite(
        "the input is overwritten by a name that may change",
        f"{IN}\nout: z, q\nt = Relu(x)\ny = Conv(t, w, b; {ARGS})\nt = Scale(x; scale=2.0)\nz = Relu(y)\nq = Relu(t)",
        f"{IN}\nout: z, q\nt = Relu(x)\nt_v1 = Scale(x; scale=2.0)\n"
        f'z = FusedConv(t, w, b; operands=0, epilogue="relu(y)", {ARGS})\nq = Relu(t_v1)',
        DIMS,
    ),
    Rewrite(
        "a parameter that is updated before the Relu",
        f"{IN}, g\nout: z\n{CONV}\nw = Sum(w, g)\nz = Relu(y)",
        None,
        {**DIMS, "g": DIMS["w"]},
    ),
    Rewrite(
        "normalization and Relu",
        f"{BN_IN}\nout: z\n{BN}\nz = Relu(y)",
        f"{BN_IN}\nout: z\n{fused_bn('relu(y)')}",
        BN_DIMS,
    ),
    Rewrite(
        "normalization and Relu in place",
        f"{BN_IN}\nout: y\n{BN}\ny = Relu(y)",
        f"{BN_IN}\nout: y\n{fused_bn('relu(y)', output='y')}",
        BN_DIMS,
    ),
    Rewrite(
        "normalization, Sum and Relu",
        f"{BN_IN}\nout: z\n{BN}\nt = Sum(y, dy)\nz = Relu(t)",
        f"{BN_IN}\nout: z\n{fused_bn('relu(y + s0)', ', dy')}",
        BN_DIMS,
    ),
    Rewrite(
        "a gradient operator needs what was normalized",
        f"{BN_IN}\nout: z, q\n{BN}\nz = Relu(y)\nq = ReluGradient(y, dy)",
        None,
        BN_DIMS,
    ),
    Rewrite("what was normalized is an output", f"{BN_IN}\nout: y, z\n{BN}\nz = Relu(y)", None, BN_DIMS),
    Rewrite(
        "the normalization does not train",
        f"{BN_IN}\nout: z\ny = SpatialBN(x, s, i, m, v; is_test=1)\nz = Relu(y)",
        None,
        BN_DIMS,
    ),
    Rewrite(
        "the running mean is added",
        "in: x, s, i, m, v\nout: z\n" + BN + "\nz = Sum(y, m)",
        None,
        {"x": (1, 3), "s": (3,), "i": (3,), "m": (1, 3), "v": (3,)},
    ),
    Rewrite(
        "the engine that was asked for has no fused normalization",
        f"{BN_IN}\nout: z\n{BN} engine=onednn\nz = Relu(y)",
        None,
        BN_DIMS,
    ),
    Rewrite("normalization and Relu on other devices", f"{BN_IN}\nout: z\n{BN} @cuda:0\nz = Relu(y) @cuda:1"),
    Rewrite(
        "the running mean is read before the Relu",
        f"{BN_IN}\nout: z, q\n{BN}\nq = Relu(m)\nz = Relu(y)",
        None,
        BN_DIMS,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fuse_epilogue(case: Rewrite) -> None:
    check_rewrite("fuse_epilogue", case)


def test_into_what_is_told() -> None:
    made = check_rewrite("fuse_epilogue", CASES[2])
    assert made.gone == {"y": "fused into FusedConv 'z'", "t": "fused into FusedConv 'z'"}
    assert made.origins == (("Conv 'y'", "Sum 't'", "Relu 'z'"),)


def test_a_chain_ends_where_no_engine_takes_it() -> None:
    net = parse_net(f"{IN}\nout: z\n{CONV}\nt = Relu(y)\nu = Tanh(t)\nz = Relu(u)")
    context = PassContext(
        takes_epilogue=lambda type, epilogue, device: "tanh" not in epilogue.text() or type == "FusedFC"
    )
    made = TRANSFORMS["fuse_epilogue"]().apply(net, context)
    assert print_net(made.net).splitlines()[2:] == [
        fused("relu(y)", output="t").replace('"', "'"),
        "u = Tanh(t)",
        "z = Relu(u)",
    ]
