"""What a GPU has a unit for: powers of two in float32, to 2 ulp, of which the exponential is made.

Source: NVIDIA, PTX ISA, `ex2`.
"""

from __future__ import annotations

import math

from tazza.codegen.term import Term

POWER = "llvm.nvvm.ex2.approx.f"
"""2^x; denormal results included."""
ROUND = 1.5 * 2.0**23
"""Added to a number, this leaves its nearest integer in the low bits."""
LARGEST = 126
"""Powers of two from minus this to this are normal numbers."""
LOG2_E = 1.4426950216293335
"""log2(e) as a float32; what it lacks is added apart."""


def fits(x: Term) -> bool:
    """Whether it is a number of a kernel for GPUs, one for each thread."""
    return x.lines.grid and x.bits == 32 and x.count == 1


def exp(x: Term) -> Term:
    """2^n 2^f with whole n, between bounds that f makes good; nothing of it has to be looked for apart.

    f is x log2(e) - n in two steps. NaN comes back by f: the bounds take it for one of themselves.
    """
    share = x.fma(math.log2(math.e) / (2 * LARGEST), 0.5)
    share = share.intrinsic("maxnum", 0.0).intrinsic("minnum", 1.0)
    shifted = share.intrinsic("fma", 2.0 * LARGEST, ROUND + 127 - LARGEST)
    n = shifted - (ROUND + 127)
    f = x.intrinsic("fma", math.log2(math.e) - LOG2_E, x.intrinsic("fma", LOG2_E, -n))
    scale = (shifted.as_bits() << 23).as_floats()
    return x.lines.call("float", POWER, f.lane(0)).splat(1) * scale
