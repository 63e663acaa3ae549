"""Pooling and its gradients: a thread for each element that is written, which goes over its window, or its windows.

A blob is looked at as (B, in..., K): K are the channels where they stand last, else B has them. A window p of a
dimension has the places from p s - head on, k of them, as far as the image has them; a place i lies in the windows from
ceil((i + head - k + 1) / s) to floor((i + head) / s), as far as there are such. Sums are made in float64, in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import cast

from tazza.codegen.block import Word
from tazza.codegen.function import Emission
from tazza.codegen.loop import fold_loop
from tazza.codegen.term import Term
from tazza.data_class import dataclass
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.operator import Expression, Launch, OpView, Unsupported
from tazza.ops.nn.pool import pool_gradients, pool_window, pools
from tazza.ops.nn.window import channels_first_dims
from tazza.tensor import DataType, TensorSpec

TYPES = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16})
AXIS = ("image", "out", "kernel", "stride", "head")
"""Words of the block for each dimension, with its number behind the name; `inner` is K."""


@dataclass(frozen=True, slots=True)
class Form:
    """What tells kernels apart: the type of elements, and what is computed."""

    dtype: DataType
    rank: int
    maximum: bool
    backward: bool
    padding_counts: bool


Place = list[Term]
"""The number of the B, places or windows, the number of the K."""
Spans = Sequence[tuple[Term, Term]]
"""Of each dimension, from where to before where."""


@dataclass(slots=True)
class Windows:
    """Writes what the thread of an element does."""

    t: Threads
    form: Form
    axes: list[dict[str, Term]] = field(init=False)

    def __post_init__(self) -> None:
        """Load what the block says."""
        self.axes = [{name: self.t.w[f"{name}{axis}"] for name in AXIS} for axis in range(self.form.rank)]

    # -- whole numbers -------------------------------------------------------------------------------------------------

    def _split(self, i: Term, extent: str) -> Place:
        """Return the place of element i in a blob whose dimensions have the word `extent` as theirs."""
        rest, k = self.t.split(i, self.t.w.inner)
        found = [k]
        for axis in reversed(self.axes):
            rest, one = self.t.split(rest, axis[extent])
            found.append(one)
        return [rest, *reversed(found)]

    def _joined(self, where: Place, extent: str) -> Term:
        b, *places, k = where
        for axis, one in zip(self.axes, places, strict=True):
            b = b * axis[extent] + one
        return b * self.t.w.inner + k

    def _span(self, axis: dict[str, Term], p: Term) -> tuple[Term, Term]:
        """Return the places of a window that lie in the image."""
        start = p * axis["stride"] - axis["head"]
        begin = start.at_least(0)
        return begin, begin.at_least((start + axis["kernel"]).at_most(axis["image"]))

    def _covering(self, axis: dict[str, Term], i: Term) -> tuple[Term, Term]:
        """Return the windows that have a place."""
        far = i + axis["head"]
        first = far + axis["stride"] - axis["kernel"]
        begin = first.at_least(0) // axis["stride"]
        return begin, (far // axis["stride"] + 1).at_most(axis["out"])

    # -- numbers -------------------------------------------------------------------------------------------------------

    def _load(self, letter: str, i: Term) -> Term:
        return self.t.load_wide(letter, i, self.form.dtype)

    def _over(self, spans: Spans, start: Term, body: Callable[[list[Term], Term], Term]) -> Term:
        """Return what `body(places, value)` makes of a number for all places of some spans."""

        def level(k: int, chosen: list[Term], value: Term) -> Term:
            if k == len(spans):
                return body(chosen, value)
            return fold_loop(*spans[k], value, lambda i, c: level(k + 1, [*chosen, i], c))

        return level(0, [], start)

    def _counted(self, spans: Spans) -> Term:
        """Return by how many elements the average over these spans divides."""
        total = self.t.lines.number(1)
        for axis, (begin, end) in zip(self.axes, spans, strict=True):
            total *= axis["kernel"] if self.form.padding_counts else end - begin
        return self.t.wide.full(total.to("double"))

    def forward(self, i: Term) -> None:
        """Join the elements of a window."""
        where, v = self._split(i, "out"), self.t.wide
        spans = [self._span(axis, p) for axis, p in zip(self.axes, where[1:-1], strict=True)]
        join = Expression.parse("max(a, b)" if self.form.maximum else "a + b")

        def body(places: list[Term], value: Term) -> Term:
            found = self._load("X", self._joined([where[0], *places, where[-1]], "image"))
            return Emission(v, {"a": value, "b": found}).write(join)

        value = self._over(spans, v.constant(-math.inf if self.form.maximum else 0.0), body)
        self.t.store_wide("Y", i, value if self.form.maximum else value / self._counted(spans), self.form.dtype)

    def backward(self, i: Term) -> None:
        """Add up what an element gets of its windows."""
        where, v = self._split(i, "image"), self.t.wide
        spans = [self._covering(axis, one) for axis, one in zip(self.axes, where[1:-1], strict=True)]
        own = self._load("X", i) if self.form.maximum else None

        def body(windows: list[Term], value: Term) -> Term:
            j = self._joined([where[0], *windows, where[-1]], "out")
            slope = self._load("dY", j)
            if own is not None:
                return value + own.equals(self._load("Y", j)).choose(slope, 0.0)
            return value + slope / self._counted([self._span(*one) for one in zip(self.axes, windows, strict=True)])

        self.t.store_wide("dX", i, self._over(spans, v.constant(0.0), body), self.form.dtype)


@translated(*pools.schemas, *pool_gradients.schemas)
def pool(op: OpView, X: TensorSpec, dY: TensorSpec | None, specs: Mapping[str, TensorSpec]) -> Launch:
    """Compile a pool, or its gradient."""
    backward, maximum = dY is not None, op.type.startswith("Max")
    target = specs["dX" if backward else "Y"]
    if X.dtype not in TYPES or any(spec.dtype is not X.dtype for spec in specs.values()):
        raise Unsupported(f"it pools floating point, not {X.dtype.label}")
    window, out = pool_window(op, X.shape)
    if set(window.dilation) - {1}:
        raise Unsupported("windows have holes")
    if min(window.head, default=0) < 0:
        raise Unsupported(f"pads {window.head} before the image cut something off")
    _, C, *image = cast("list[int]", channels_first_dims(op.order, X.shape))
    words: dict[str, Word] = {"inner": C if op.order.upper() == "NHWC" and len(X.shape) > 2 else 1}
    for axis, (extent, places) in enumerate(zip(image, cast("list[int]", out), strict=True)):
        own = (max(1, extent), max(1, places), window.kernel[axis], window.stride[axis], window.head[axis])
        words |= {f"{name}{axis}": number for name, number in zip(AXIS, own, strict=True)}
    read = ("X", "Y", "dY") if maximum else ("dY",)
    words |= addresses(*(*read, "dX") if backward else ("X", "Y"))
    form = Form(X.dtype, len(image), maximum, backward, not maximum and bool(op.count_include_pad))

    def write(t: Threads, i: Term) -> None:
        windows = Windows(t, form)
        (windows.backward if backward else windows.forward)(i)

    return each_launch(f"pool {form}", target.size, words, write)
