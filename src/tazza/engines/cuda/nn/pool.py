"""Pooling and its gradients: a thread for each element that is written, which goes over its window, or its windows.

A blob is looked at as (B, in..., K): K are the channels where they stand last, else B has them. A window p of a
dimension has the places from p s - head on, k of them, as far as the image has them; a place i lies in the windows from
ceil((i + head - k + 1) / s) to floor((i + head) / s), as far as there are such. Sums are made in float64, in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import cast

from tazza.codegen.block import Slot, Word, accepts_rows
from tazza.codegen.emit import MEMORY, Lines, Vector
from tazza.codegen.loop import carry_loop
from tazza.codegen.nvptx import GridKernel, place
from tazza.codegen.rows import when
from tazza.codegen.vector import Emission
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.launch import THREADS, GridLaunch, blocks_for, own_code
from tazza.operator import Expression, Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.nn.pool import pool_gradients, pool_window, pools
from tazza.ops.nn.window import channels_first_dims
from tazza.tensor import DataType, TensorSpec

TYPES = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16})
AXIS = ("image", "out", "kernel", "stride", "head")
"""Words of the block for each dimension, behind the number of elements and K."""


@dataclass(frozen=True, slots=True)
class Form:
    """What tells kernels apart: the letters in the order of their addresses, their type, and what is computed."""

    letters: tuple[str, ...]
    dtype: DataType
    rank: int
    maximum: bool
    backward: bool
    padding_counts: bool

    @property
    def words(self) -> int:
        """Of the block."""
        return 2 + len(AXIS) * self.rank + len(self.letters)


Place = list[str]
"""The number of the B, places or windows, the number of the K."""


@dataclass(slots=True)
class Windows:
    """Writes a kernel."""

    lines: Lines
    form: Form
    inner: str = field(init=False)
    axes: list[dict[str, str]] = field(init=False)
    at: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Load what the block says."""
        lines, rank = self.lines, self.form.rank
        self.inner = lines.load_word("%block", 1)
        self.axes = [
            {name: lines.load_word("%block", 2 + len(AXIS) * axis + k) for k, name in enumerate(AXIS)}
            for axis in range(rank)
        ]
        first = 2 + len(AXIS) * rank
        self.at = {letter: lines.load_pointer("%block", first + k) for k, letter in enumerate(self.form.letters)}

    def write(self) -> None:
        """Compute the element of each thread."""
        lines = self.lines
        thread, block = place(lines)
        i = self._two("add", self._two("mul", block, str(THREADS)), thread)
        one = self._backward if self.form.backward else self._forward
        when(lines, lines.let(f"icmp slt i64 {i}, {lines.load_word('%block', 0)}"), lambda: one(i))

    # -- whole numbers -------------------------------------------------------------------------------------------------

    def _two(self, name: str, a: str, b: str) -> str:
        return self.lines.let(f"{name} i64 {a}, {b}")

    def _extreme(self, name: str, a: str, b: str) -> str:
        self.lines.declare(f"i64 @llvm.{name}.i64(i64, i64)")
        return self.lines.let(f"call i64 @llvm.{name}.i64(i64 {a}, i64 {b})")

    def _split(self, i: str, extent: str) -> Place:
        """Return the place of element i in a blob whose dimensions have the word `extent` as theirs."""
        found, rest = [self._two("urem", i, self.inner)], self._two("udiv", i, self.inner)
        for axis in reversed(self.axes):
            found.append(self._two("urem", rest, axis[extent]))
            rest = self._two("udiv", rest, axis[extent])
        return [rest, *reversed(found)]

    def _joined(self, where: Place, extent: str) -> str:
        b, *places, k = where
        for axis, one in zip(self.axes, places, strict=True):
            b = self._two("add", self._two("mul", b, axis[extent]), one)
        return self._two("add", self._two("mul", b, self.inner), k)

    def _span(self, axis: dict[str, str], p: str) -> tuple[str, str]:
        """Return the places of a window that lie in the image."""
        start = self._two("sub", self._two("mul", p, axis["stride"]), axis["head"])
        end = self._extreme("smin", self._two("add", start, axis["kernel"]), axis["image"])
        begin = self._extreme("smax", start, "0")
        return begin, self._extreme("smax", begin, end)

    def _covering(self, axis: dict[str, str], i: str) -> tuple[str, str]:
        """Return the windows that have a place."""
        far = self._two("add", i, axis["head"])
        first = self._two("sub", self._two("add", far, axis["stride"]), axis["kernel"])
        begin = self._two("udiv", self._extreme("smax", first, "0"), axis["stride"])
        last = self._two("add", self._two("udiv", far, axis["stride"]), "1")
        return begin, self._extreme("smin", last, axis["out"])

    # -- numbers -------------------------------------------------------------------------------------------------------

    @property
    def _wide(self) -> Vector:
        return Vector(self.lines, 1, DataType.DOUBLE)

    def _load(self, letter: str, i: str) -> str:
        dtype = self.form.dtype
        at = self.lines.let(f"getelementptr {MEMORY[dtype]}, ptr {self.at[letter]}, i64 {i}")
        vector = Vector(self.lines, 1, dtype)
        return vector.converted(vector.load_one(at), DataType.DOUBLE)

    def _store(self, letter: str, i: str, value: str) -> None:
        v = self._wide
        if self.form.dtype is not DataType.DOUBLE:  # 16 bits are made of float32
            v = Vector(self.lines, 1)
            value = self.lines.let(f"fptrunc {self._wide.type} {value} to {v.type}")
        v.store(value, self.at[letter], i, None, dtype=self.form.dtype)

    def _over(self, spans: Sequence[tuple[str, str]], start: str, body: Callable[[list[str], str], str]) -> str:
        """Return what `body(places, value)` makes of a number for all places of some spans."""

        def level(k: int, chosen: list[str], value: str) -> str:
            if k == len(spans):
                return body(chosen, value)
            return carry_loop(self._wide, *spans[k], [value], lambda i, c: [level(k + 1, [*chosen, i], c[0])])[0]

        return level(0, [], start)

    def _counted(self, spans: Sequence[tuple[str, str]]) -> str:
        """Return by how many elements the average over these spans divides."""
        total = "1"
        for axis, (begin, end) in zip(self.axes, spans, strict=True):
            extent = axis["kernel"] if self.form.padding_counts else self._two("sub", end, begin)
            total = self._two("mul", total, extent)
        return self._wide.splat(self.lines.let(f"sitofp i64 {total} to double"))

    def _forward(self, i: str) -> None:
        where, v = self._split(i, "out"), self._wide
        spans = [self._span(axis, p) for axis, p in zip(self.axes, where[1:-1], strict=True)]
        join = Expression.parse("max(a, b)" if self.form.maximum else "a + b")

        def body(places: list[str], value: str) -> str:
            found = self._load("X", self._joined([where[0], *places, where[-1]], "image"))
            return Emission(v, {"a": value, "b": found}).write(join)

        value = self._over(spans, v.constant(-math.inf if self.form.maximum else 0.0), body)
        self._store("Y", i, value if self.form.maximum else v.div(value, self._counted(spans)))

    def _backward(self, i: str) -> None:
        where, v = self._split(i, "image"), self._wide
        spans = [self._covering(axis, one) for axis, one in zip(self.axes, where[1:-1], strict=True)]
        own = self._load("X", i) if self.form.maximum else ""

        def body(windows: list[str], value: str) -> str:
            j = self._joined([where[0], *windows, where[-1]], "out")
            slope = self._load("dY", j)
            if self.form.maximum:
                share = v.select(v.compare("oeq", own, self._load("Y", j)), slope, v.constant(0.0))
            else:
                share = v.div(slope, self._counted([self._span(*one) for one in zip(self.axes, windows, strict=True)]))
            return v.add(value, share)

        self._store("dX", i, self._over(spans, v.constant(0.0), body))


def _prepare(backward: bool) -> Callable[..., Launch | Unsupported]:
    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
        del context
        X, target = cast("TensorSpec", inputs[0]), cast("TensorSpec", outputs[0])
        maximum = op.type.startswith("Max")
        if X.dtype not in TYPES or any(cast("TensorSpec", spec).dtype is not X.dtype for spec in (*inputs, *outputs)):
            return Unsupported(f"it pools floating point, not {X.dtype.label}")
        window, out = pool_window(op, X.shape)
        if set(window.dilation) - {1}:
            return Unsupported("windows have holes")
        if min(window.head, default=0) < 0:
            return Unsupported(f"pads {window.head} before the image cut something off")
        _, C, *image = channels_first_dims(op.order, X.shape)
        last = op.order.upper() == "NHWC" and len(X.shape) > 2
        read = ("X", "Y", "dY") if maximum else ("dY",)
        letters = ("X", "Y") if not backward else (*read, "dX")
        form = Form(letters, X.dtype, len(image), maximum, backward, not maximum and bool(op.count_include_pad))
        words: list[Word] = [target.size, cast("int", C) if last else 1]
        for axis, extent in enumerate(cast("list[int]", image)):
            own = (extent, cast("int", out[axis]), window.kernel[axis], window.stride[axis], window.head[axis])
            words += [max(1, one) if k < 2 else one for k, one in enumerate(own)]
        kernel = GridKernel(form.words, lambda lines: Windows(lines, form).write())
        code = own_code(f"pool {form}", kernel)
        return GridLaunch(code, (*words, *map(Slot, letters)), blocks_for(target.size))

    return prepare


for _schemas, _is_backward in ((pools.schemas, False), (pool_gradients.schemas, True)):
    for _schema in _schemas:
        _made = _prepare(_is_backward)
        _made.__module__ = __name__
        launcher(_schema, engine=KIND, device=KIND, accepts=accepts_rows)(_made)
