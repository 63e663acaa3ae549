"""LRN and its gradient: a thread for each element, which adds up its window in float64.

Letters as in `ops.lrn`. Channels lie `step` elements apart; the window of channel c goes from `before` channels before
it to `behind` behind it. The gradient computes scale anew, into scratch memory, and sums over the channels that see i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tazza.codegen.block import Scratch, Word, float_word
from tazza.codegen.function import Emission
from tazza.codegen.loop import fold_loop
from tazza.codegen.term import Term
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.operator import FLOAT, HALVES, Expression, Launch, LaunchChain, OpView, Unsupported
from tazza.ops.nn.lrn import LRN, LRN_GRADIENT
from tazza.tensor import DataType, TensorSpec

TYPES = FLOAT | HALVES
REALS = ("weight", "bias", "beta")
"""Numbers of the block: alpha / size, what is added to the mean, the exponent."""


def _words(op: OpView, X: TensorSpec) -> dict[str, Word]:
    """Return extents and numbers."""
    last = op.order.upper() == "NHWC"
    step = 1 if last else math.prod(X.shape[2:])
    before, behind = (op.size - 1) // 2, op.size // 2
    reals = (op.alpha / op.size, op.bias, op.beta)
    words: dict[str, Word] = {"step": max(1, step), "channels": max(1, X.shape[-1 if last else 1])}
    words |= {"before": before, "behind": behind}
    return words | {name: float_word(float(value)) for name, value in zip(REALS, reals, strict=True)}


def _window(t: Threads, i: Term, ends: tuple[str, str], body: Callable[[Term], Term]) -> Term:
    """Return the sum in float64 of `body(place)` over the channels around that of element i."""
    c = i // t.w.step % t.w.channels
    begin = (c - t.w[ends[0]]).at_least(0)
    end = (c + t.w[ends[1]] + 1).at_most(t.w.channels)
    zero = t.wide.constant(0.0)
    return fold_loop(begin, end, zero, lambda k, total: total + body(i + (k - c) * t.w.step))


def _scale(t: Threads, i: Term, dtype: DataType) -> Term:
    """Return scale of element i, in float64."""

    def square(place: Term) -> Term:
        x = t.load_wide("X", place, dtype)
        return x * x

    return t.real("bias") + t.real("weight") * _window(t, i, ("before", "behind"), square)


def _check(specs: Mapping[str, TensorSpec]) -> None:
    """Refuse blobs that are not of one narrow type of floating point."""
    kinds = {spec.dtype for spec in specs.values()}
    if len(kinds) != 1 or not kinds <= TYPES:
        raise Unsupported(f"it computes in float32, not {', '.join(sorted(kind.label for kind in kinds))}")


def _power(t: Threads, scale: Term) -> Term:
    """Return scale^-beta."""
    return Emission(t.wide, {"s": scale, "beta": t.real("beta")}).write(Expression.parse("pow(s, -beta)"))


@translated(LRN)
def lrn(op: OpView, X: TensorSpec, specs: Mapping[str, TensorSpec]) -> Launch:
    """Compile LRN, with and without scale."""
    _check(specs)
    dtype = X.dtype
    made = [letter for letter in ("Y", "scale") if letter in op.output_letters]

    def write(t: Threads, i: Term) -> None:
        s = _scale(t, i, dtype)
        t.store_wide("Y", i, t.load_wide("X", i, dtype) * _power(t, s), dtype)
        if "scale" in made:
            t.store_wide("scale", i, s, dtype)

    words = {**_words(op, X), **addresses("X", *made)}
    return each_launch(f"lrn {dtype.label}", X.size, words, write)


@translated(LRN_GRADIENT)
def lrn_gradient(op: OpView, X: TensorSpec, specs: Mapping[str, TensorSpec]) -> Launch:
    """Compile scale, and then the gradient."""
    _check(specs)
    dtype = X.dtype

    def scales(t: Threads, i: Term) -> None:
        t.store_wide("scale", i, _scale(t, i, dtype), DataType.DOUBLE)

    def write(t: Threads, i: Term) -> None:

        def part(place: Term) -> Term:
            product = t.load_wide("dY", place, dtype) * t.load_wide("Y", place, dtype)
            return product / t.load_wide("scale", place, DataType.DOUBLE)

        seen = _window(t, i, ("behind", "before"), part)  # of even size it is not symmetric
        own = t.load_wide("dY", i, dtype) * _power(t, t.load("scale", i, DataType.DOUBLE))
        factor = 2.0 * t.real("weight") * t.real("beta")
        t.store_wide("dX", i, own - factor * t.load_wide("X", i, dtype) * seen, dtype)

    given: dict[str, Word] = {**_words(op, X), **addresses("X"), "scale": Scratch()}
    scratch = X.size * DataType.DOUBLE.itemsize
    first = each_launch(f"lrn scale {dtype.label}", X.size, given, scales, scratch_bytes=scratch)
    words = given | addresses("Y", "dY", "dX")
    return LaunchChain((first, each_launch(f"lrn gradient {dtype.label}", X.size, words, write, scratch_bytes=scratch)))
