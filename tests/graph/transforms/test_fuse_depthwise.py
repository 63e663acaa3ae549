"""1x1 convolutions with the depthwise ones behind them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tazza.graph.text import parse_net, print_net
from tazza.graph.transform import TRANSFORMS, PassContext
from tazza.operator import OpView, Spec
from tazza.tensor import DataType, TensorSpec
from tests.rewriting import Rewrite, check_rewrite

DIMS = {"x": (2, 3, 5, 7), "w": (4, 3, 1, 1), "b": (4,), "v": (4, 1, 3, 3), "c": (4,)}
IN = "in: x, w, b, v, c"
WIDER = "h = Conv(x, w, b; kernel=1)"
AROUND = "group=4, kernel=3, pad=1"
LAST = f"{AROUND}, order='NHWC'"
LOOKS = f"y = Conv(h, v, c; {AROUND})"


def fused(inner: str = "y", epilogue: str = "y", arguments: str = AROUND) -> str:
    """Return the line of the fused operator."""
    return f'y = FusedConvDepthwise(x, w, b, v, c; inner="{inner}", epilogue="{epilogue}", {arguments})'


CASES = [
    Rewrite("plain", f"{IN}\nout: y\n{WIDER}\n{LOOKS}", f"{IN}\nout: y\n{fused()}", DIMS),
    Rewrite(
        "with epilogues",
        f'{IN}\nout: y\nh = FusedConv(x, w, b; epilogue="relu(y)", kernel=1)\n'
        f'y = FusedConv(h, v, c; epilogue="min(y, 6)", {AROUND}, stride=2)',
        f"{IN}\nout: y\n{fused('relu(y)', 'min(y, 6)', f'{AROUND}, stride=2')}",
        DIMS,
    ),
    Rewrite(
        "NHWC",
        f"{IN}\nout: y\nh = Conv(x, w, b; kernel=1, order='NHWC')\ny = Conv(h, v, c; {LAST})",
        f"{IN}\nout: y\n{fused(arguments=LAST)}",
        {"x": (2, 5, 7, 3), "w": (4, 1, 1, 3), "b": (4,), "v": (4, 3, 3, 1), "c": (4,)},
    ),
    Rewrite("filters of unknown shape", f"{IN}\nout: y\n{WIDER}\n{LOOKS}", None, DIMS, blind=True),
    Rewrite("an output", f"{IN}\nout: y, h\n{WIDER}\n{LOOKS}", None, DIMS),
    Rewrite("kept", f"{IN}\nout: y\n{WIDER}\n{LOOKS}", None, DIMS, keep="h"),
    Rewrite("used elsewhere", f"{IN}\nout: y, q\n{WIDER}\n{LOOKS}\nq = Relu(h)", None, DIMS),
    Rewrite("no bias", f"{IN}\nout: y\nh = Conv(x, w; kernel=1)\n{LOOKS}", None, DIMS),
    Rewrite("not 1x1", f"{IN}\nout: y\nh = Conv(x, w, b; kernel=3)\n{LOOKS}", None, {**DIMS, "w": (4, 3, 3, 3)}),
    Rewrite("1x1 with steps", f"{IN}\nout: y\nh = Conv(x, w, b; kernel=1, stride=2)\n{LOOKS}", None, DIMS),
    Rewrite("padded before", f"{IN}\nout: y\nh = Conv(x, w, b; kernel=1, pad=1)\n{LOOKS}", None, DIMS),
    Rewrite(
        "other windows",
        f"{IN}\nout: y\n{WIDER}\ny = Conv2D(h, v, c; group=4, kernels=[3, 2], strides=[2, 3], dilation=2)",
        f"{IN}\nout: y\n{fused(arguments='group=4, kernels=[3, 2], strides=[2, 3], dilation=2')}",
        {**DIMS, "x": (2, 3, 11, 7), "v": (4, 1, 3, 2)},
    ),
    Rewrite(
        "one epilogue",
        f'{IN}\nout: y\nh = FusedConv(x, w, b; epilogue="relu(y)", kernel=1)\n{LOOKS}',
        f"{IN}\nout: y\n{fused('relu(y)')}",
        DIMS,
    ),
    Rewrite(
        "what the operator does not know",
        f"{IN}\nout: y\n{WIDER}\ny = Conv(h, v, c; {AROUND}, no_gradient_to_input=1)",
        f"{IN}\nout: y\n{fused()}",
        DIMS,
    ),
    Rewrite("an engine was asked for", f"{IN}\nout: y\n{WIDER} engine=gemm\n{LOOKS} engine=gemm", None, DIMS),
    Rewrite("an engine for the second", f"{IN}\nout: y\n{WIDER}\n{LOOKS} engine=gemm", None, DIMS),
    Rewrite(
        "other orders",
        f"{IN}\nout: y\nh = Conv(x, w, b; kernel=1, order='NHWC')\ny = Conv(h, v, c; group=4, kernel=1)",
        None,
        {"x": (2, 4, 7, 3), "w": (5, 1, 1, 3), "b": (5,), "v": (4, 1, 1, 1), "c": (4,)},
    ),
    Rewrite(
        "order in other letters",
        f"{IN}\nout: y\nh = Conv(x, w, b; kernel=1, order='nhwc')\ny = Conv(h, v, c; {LAST})",
        f"{IN}\nout: y\n{fused(arguments=LAST)}",
        {"x": (2, 5, 7, 3), "w": (4, 1, 1, 3), "b": (4,), "v": (4, 3, 3, 1), "c": (4,)},
    ),
    Rewrite(
        "the result has the name of the input",
        f"{IN}\nout: x\n{WIDER}\nx = Conv(h, v, c; group=3, kernel=3, pad=1)",
        None,
        {**DIMS, "w": (3, 3, 1, 1), "b": (3,), "v": (3, 1, 3, 3), "c": (3,)},
    ),
    Rewrite(
        "two channels to a group",
        f"{IN}\nout: y\n{WIDER}\ny = Conv(h, v, c; group=2, kernel=3, pad=1)",
        None,
        {**DIMS, "v": (4, 2, 3, 3)},
    ),
    Rewrite("other devices", f"{IN}\nout: y\n{WIDER} @cuda:0\n{LOOKS} @cuda:1"),
    Rewrite(
        "an operand",
        f'{IN}, s\nout: y\nh = FusedConv(x, w, b, s; epilogue="y + s0", kernel=1, operands=1)\n{LOOKS}',
        None,
        {**DIMS, "s": (2, 4, 5, 7)},
    ),
    Rewrite(
        "the input is overwritten before the second",
        f"{IN}, g\nout: y\n{WIDER}\nx = Sum(x, g)\n{LOOKS}",
        None,
        {**DIMS, "g": DIMS["x"]},
    ),
    Rewrite(
        "training: a gradient operator needs what is between",
        f"{IN}, dy\nout: dv, dc, dh, y\n{WIDER}\n{LOOKS}\ndv, dc, dh = ConvGradient(h, v, dy; {AROUND})",
        None,
        {**DIMS, "dy": (2, 4, 5, 7)},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fuse_depthwise(case: Rewrite) -> None:
    check_rewrite("fuse_depthwise", case)


def test_into_what_is_told() -> None:
    made = check_rewrite("fuse_depthwise", CASES[0])
    assert made.gone == {"h": "fused into FusedConvDepthwise 'y'"}
    assert made.origins == (("Conv 'h'", "Conv 'y'"),)


@pytest.mark.parametrize("unwanted", ["relu(y)", "min(y, 6)"])
def test_it_is_left_where_no_engine_takes_it(unwanted: str) -> None:
    """The judge sees the operator as it would be, and the specs that are known."""
    net = parse_net(CASES[1].before)
    specs = {name: TensorSpec(DIMS[name], DataType.FLOAT) for name in ("w", "v", "c")}
    seen: list[tuple[tuple[str, str, int], Sequence[Spec | None]]] = []

    def takes(op: OpView, inputs: Sequence[Spec | None], device: str) -> bool:
        assert device == "cpu"
        seen.append(((op.inner, op.epilogue, op.stride), inputs))
        return unwanted not in (op.inner, op.epilogue)

    made = TRANSFORMS["fuse_depthwise"]().apply(net, PassContext(specs=specs, takes_operator=takes))
    assert print_net(made.net) == print_net(net)
    assert seen == [(("relu(y)", "min(y, 6)", 2), [None, specs["w"], None, specs["v"], specs["c"]])]
