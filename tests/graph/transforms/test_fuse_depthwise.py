"""1x1 convolutions with the depthwise ones behind them."""

from __future__ import annotations

import pytest

from tazza.graph.text import parse_net, print_net
from tazza.graph.transform import TRANSFORMS, PassContext
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
    Rewrite("without pads", f"{IN}\nout: y\n{WIDER}\ny = Conv(h, v, c; group=4, kernel=3)", None, DIMS),
    Rewrite("dilated", f"{IN}\nout: y\n{WIDER}\ny = Conv(h, v, c; {AROUND}, dilation=2)", None, DIMS),
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


def test_it_is_left_where_no_engine_takes_it() -> None:
    net = parse_net(f"{IN}\nout: y\n{WIDER}\n{LOOKS}")
    specs = {name: TensorSpec(dims, DataType.FLOAT) for name, dims in DIMS.items()}
    context = PassContext(specs=specs, takes_epilogue=lambda type, epilogue: type != "FusedConvDepthwise")
    assert print_net(TRANSFORMS["fuse_depthwise"]().apply(net, context).net) == print_net(net)
