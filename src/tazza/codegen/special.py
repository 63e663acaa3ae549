"""What a GPU has a unit for: powers of two in float32, to 2 ulp, of which the exponential is made.

Source: NVIDIA, PTX ISA, `ex2`.
"""

from __future__ import annotations

import math

from tazza.codegen.emit import Vector

POWER = "llvm.nvvm.ex2.approx.f"
"""2^x; denormal results included."""
ROUND = 1.5 * 2.0**23
"""Added to a number, this leaves its nearest integer in the low bits."""
LARGEST = 126
"""Powers of two from minus this to this are normal numbers."""
LOG2_E = 1.4426950216293335
"""log2(e) as a float32; what it lacks is added apart."""


def fits(v: Vector) -> bool:
    """Whether these are numbers of a kernel for GPUs, one for each thread."""
    return v.lines.grid and v.bits == 32 and v.count == 1


def exp(v: Vector, x: str) -> str:
    """2^n 2^f with whole n, between bounds that f makes good; nothing of it has to be looked for apart.

    f is x log2(e) - n in two steps. NaN comes back by f: the bounds take it for one of themselves.
    """
    share = v.fma(x, v.constant(math.log2(math.e) / (2 * LARGEST)), v.constant(0.5))
    share = v.intrinsic("minnum", v.intrinsic("maxnum", share, v.constant(0.0)), v.constant(1.0))
    shifted = v.intrinsic("fma", share, v.constant(2.0 * LARGEST), v.constant(ROUND + 127 - LARGEST))
    n = v.sub(shifted, v.constant(ROUND + 127))
    f = v.intrinsic("fma", x, v.constant(LOG2_E), v.neg(n))
    f = v.intrinsic("fma", x, v.constant(math.log2(math.e) - LOG2_E), f)
    scale = v.of_bits(v.int_op("shl", v.bits_of(shifted), v.whole(23)))
    return v.mul(_power(v, f), scale)


def _power(v: Vector, x: str) -> str:
    v.lines.declare(f"float @{POWER}(float)")
    one = v.lines.let(f"extractelement {v.type} {x}, i32 0")
    return v.splat(v.lines.let(f"call float @{POWER}(float {one})"))
