"""Rectifiers and sums of bytes that become part of the convolution before them."""

from __future__ import annotations

import pytest

from tests.rewriting import Rewrite, check_rewrite

FED = "in: x, f, c, g, d"
IN = f"{FED}\nout: z"
BYTES = """q = Int8Quantize(x; Y_scale=0.05, Y_zero_point=120)
w = Int8Quantize(f; Y_scale=0.02, Y_zero_point=128)
v = Int8Quantize(g; Y_scale=0.02, Y_zero_point=128)
b = Int8GivenIntTensorFill(; shape=[4], values=[1, -2, 300, 4])"""
ARGS = 'kernel=1, order="NHWC", Y_scale=0.25, Y_zero_point=110'
CONV = f"y = Int8Conv(q, w, b; {ARGS})"
OTHER = "s = Int8Quantize(c; Y_scale=0.1, Y_zero_point=9)"
SUM = "r = Int8AddRelu(y, s; Y_scale=0.2, Y_zero_point=7)"
BACK = "z = Int8Dequantize(r)"
DIMS = {"x": (2, 3, 5, 3), "f": (4, 1, 1, 3), "c": (2, 3, 5, 4), "g": (4, 1, 1, 3), "d": (2,)}
FUSED = 'Y_scale=0.2, Y_zero_point=7, kernel=1, order="NHWC"'


def lines(*texts: str) -> str:
    """Return a net whose first lines make bytes of what is fed."""
    return "\n".join((BYTES, *texts))


CASES = [
    Rewrite(
        "a rectifier",
        f"{IN}\n{lines(CONV, 'r = Int8Relu(y)', BACK)}",
        f"{IN}\n{lines(f'r = Int8ConvRelu(q, w, b; {ARGS})', BACK)}",
        DIMS,
    ),
    Rewrite(
        "a rectifier with the same scale",
        f"{IN}\n{lines(CONV, 'r = Int8Relu(y; Y_scale=0.25, Y_zero_point=110)', BACK)}",
        f"{IN}\n{lines(f'r = Int8ConvRelu(q, w, b; {ARGS})', BACK)}",
        DIMS,
    ),
    Rewrite("a rectifier with another", f"{IN}\n{lines(CONV, 'r = Int8Relu(y; Y_scale=0.5)', BACK)}", None, DIMS),
    # A sum is not rounded in between any more: numbers move by part of a step, which tests/interop judges.
    Rewrite(
        "a sum with a rectifier",
        f"{IN}\n{lines(OTHER, CONV, SUM, BACK)}",
        f"{IN}\n{lines(OTHER, f'r = Int8FusedConv(q, w, b, s; relu=1, {FUSED})', BACK)}",
    ),
    Rewrite(
        "a sum, the other way round",
        f"{IN}\n{lines(OTHER, CONV, 'r = Int8Sum(s, y; Y_scale=0.2, Y_zero_point=7)', BACK)}",
        f"{IN}\n{lines(OTHER, f'r = Int8FusedConv(q, w, b, s; relu=0, {FUSED})', BACK)}",
    ),
    Rewrite(
        "of two convolutions the later one takes it",
        f"{IN}\n{lines(CONV, f's = Int8Conv(q, v, b; {ARGS})', SUM, BACK)}",
        f"{IN}\n{lines(CONV, f'r = Int8FusedConv(q, v, b, y; relu=1, {FUSED})', BACK)}",
    ),
    Rewrite("what is between is read elsewhere", f"{IN}, t\n{lines(OTHER, CONV, SUM, BACK, 't = Int8Dequantize(y)')}"),
    Rewrite("what is between is an output", f"{IN}, y\n{lines(OTHER, CONV, SUM, BACK)}"),
    Rewrite("a sum with itself", f"{IN}\n{lines(CONV, 'r = Int8Add(y, y; Y_scale=0.2)', BACK)}", None, DIMS),
    Rewrite("behind a rectifier", f"{IN}\n{lines(OTHER, CONV.replace('Conv', 'ConvRelu'), SUM, BACK)}", None, DIMS),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fuse_int8(case: Rewrite) -> None:
    check_rewrite("fuse_int8", case)
