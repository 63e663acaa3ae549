"""Loops of compiled kernels: memory access for each element type, sweeps over a row, and the split among threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tazza.codegen.emit import Lanes, Lines
from tazza.codegen.kernel import lane_count
from tazza.tensor import DataType

KINDS = {
    DataType.FLOAT: "float",
    DataType.DOUBLE: "double",
    DataType.FLOAT16: "half",
    DataType.BFLOAT16: "i16",
    DataType.BOOL: "i8",
}
"""Element types that kernels load and store, and their LLVM types."""


def lanes_of(lines: Lines, bits: int = 32) -> Lanes:
    """Return vectors as wide as the processor's."""
    return Lanes(lines, lane_count(bits), bits)


def load(v: Lanes, dtype: DataType, pointer: str, i: str, mask: str | None, default: str = "zeroinitializer") -> str:
    """Return lanes i, i + 1 ... of an array; lanes outside of `mask` are `default`."""
    kind = KINDS[dtype]
    lines, stored = v.lines, f"<{v.count} x {kind}>"
    at = lines.let(f"getelementptr {kind}, ptr {pointer}, i64 {i}")
    if mask is None:
        return widen(v, dtype, lines.let(f"load {stored}, ptr {at}, align {dtype.itemsize}"))
    short = f"v{v.count}{short_name(kind)}"
    lines.declare(f"{stored} @llvm.masked.load.{short}.p0(ptr, i32, {v.mask}, {stored})")
    passed = default if stored == v.type else "zeroinitializer"
    operands = f"ptr {at}, i32 {dtype.itemsize}, {v.mask} {mask}, {stored} {passed}"
    found = lines.let(f"call {stored} @llvm.masked.load.{short}.p0({operands})")
    wide = widen(v, dtype, found)
    return wide if passed == default else v.select(mask, wide, default)


def load_one(v: Lanes, dtype: DataType, pointer: str, align: int | None = None) -> str:
    """Return a vector that is full of the element at `pointer`, a multiple of `align`: of its size by default."""
    one = v.lines.let(f"load {KINDS[dtype]}, ptr {pointer}, align {dtype.itemsize if align is None else align}")
    kind, stored = KINDS[dtype], f"<{v.count} x {KINDS[dtype]}>"
    first = v.lines.let(f"insertelement {stored} poison, {kind} {one}, i32 0")
    full = v.lines.let(f"shufflevector {stored} {first}, {stored} poison, <{v.count} x i32> zeroinitializer")
    return widen(v, dtype, full)


def store(v: Lanes, dtype: DataType, value: str, pointer: str, i: str, mask: str | None) -> None:
    """Write lanes i, i + 1 ... of an array."""
    kind = KINDS[dtype]
    lines, stored = v.lines, f"<{v.count} x {kind}>"
    narrowed = narrow(v, dtype, value)
    at = lines.let(f"getelementptr {kind}, ptr {pointer}, i64 {i}")
    if mask is None:
        lines.do(f"store {stored} {narrowed}, ptr {at}, align {dtype.itemsize}")
        return
    short = f"v{v.count}{short_name(kind)}"
    lines.declare(f"void @llvm.masked.store.{short}.p0({stored}, ptr, i32, {v.mask})")
    lines.do(
        f"call void @llvm.masked.store.{short}.p0({stored} {narrowed}, ptr {at}, i32 {dtype.itemsize}, {v.mask} {mask})"
    )


def short_name(kind: str) -> str:
    """Return what names of intrinsics call an LLVM type."""
    return {"float": "f32", "double": "f64", "half": "f16"}.get(kind, kind)


def widen(v: Lanes, dtype: DataType, value: str) -> str:
    """Return what was loaded, as floats."""
    stored = f"<{v.count} x {KINDS[dtype]}>"
    if stored == v.type:
        return value
    if dtype is DataType.BFLOAT16:  # the upper half of a float32
        half = v.lines.let(f"zext {stored} {value} to <{v.count} x i32>")
        full = v.lines.let(f"shl <{v.count} x i32> {half}, splat (i32 16)")
        single = v.lines.let(f"bitcast <{v.count} x i32> {full} to <{v.count} x float>")
        return single if v.bits == 32 else v.lines.let(f"fpext <{v.count} x float> {single} to {v.type}")
    if dtype is DataType.BOOL:
        return v.lines.let(f"uitofp {stored} {value} to {v.type}")
    return v.lines.let(f"fpext {stored} {value} to {v.type}")


def narrow(v: Lanes, dtype: DataType, value: str) -> str:
    """Return floats as they are stored, rounded to the nearest."""
    stored = f"<{v.count} x {KINDS[dtype]}>"
    if stored == v.type:
        return value
    lines = v.lines
    if dtype is DataType.BOOL:
        return lines.let(f"zext {v.mask} {v.compare('une', value, v.constant(0.0))} to {stored}")
    if dtype is DataType.BFLOAT16 and v.bits == 64:  # by way of float32, as NumPy does
        single = Lanes(lines, v.count, 32)
        return narrow(single, dtype, lines.let(f"fptrunc {v.type} {value} to {single.type}"))
    if dtype is DataType.BFLOAT16:  # round to nearest, ties to even; NaN keeps its upper half and a set bit
        bits = v.bits_of(value)
        odd = v.int_op("and", v.int_op("lshr", bits, v.whole(16)), v.whole(1))
        rounded = v.int_op("add", v.int_op("add", bits, v.whole(0x7FFF)), odd)
        quiet = v.int_op("or", bits, v.whole(0x400000))
        kept = lines.let(
            f"select {v.mask} {v.compare('uno', value, value)}, {v.integer} {quiet}, {v.integer} {rounded}"
        )
        return lines.let(f"trunc {v.integer} {v.int_op('lshr', kept, v.whole(16))} to {stored}")
    return lines.let(f"fptrunc {v.type} {value} to {stored}")


def count_loop(lines: Lines, begin: str, end: str, body: Callable[[str], None]) -> None:
    """Run `body(i)` for i from begin to end."""
    test, inside, done = lines.fresh("test"), lines.fresh("body"), lines.fresh("done")
    before, i, following = lines.block, f"%{lines.fresh('i')}", f"%{lines.fresh('next')}"
    lines.do(f"br label %{test}")
    lines.label(test)
    entry = len(lines.lines)
    more = lines.let(f"icmp slt i64 {i}, {end}")
    lines.do(f"br i1 {more}, label %{inside}, label %{done}")
    lines.label(inside)
    body(i)
    lines.do(f"{following} = add i64 {i}, 1")
    last = lines.block
    lines.do(f"br label %{test}")
    lines.lines.insert(entry, f"  {i} = phi i64 [ {begin}, %{before} ], [ {following}, %{last} ]")
    lines.label(done)


class Vectors(Protocol):
    """Vectors of any one type, which a loop carries along."""

    @property
    def lines(self) -> Lines:
        """Where they are written."""
        ...

    @property
    def count(self) -> int:
        """How many lanes."""
        ...

    @property
    def type(self) -> str:
        """What LLVM calls them."""
        ...


def fold_loop(v: Vectors, begin: str, end: str, start: str, body: Callable[[str, str], str]) -> str:
    """Return what `value = body(i, value)` makes of the vector `start` for i from begin to end, a few turns."""
    return carry_loop(v, begin, end, [start], lambda i, values: [body(i, values[0])])[0]


def carry_loop(
    v: Vectors, begin: str, end: str, starts: Sequence[str], body: Callable[[str, Sequence[str]], Sequence[str]]
) -> list[str]:
    """Return what `values = body(i, values)` makes of the vectors `starts` for i from begin to end; not unrolled."""
    lines = v.lines
    test, inside, done = lines.fresh("test"), lines.fresh("body"), lines.fresh("done")
    before, i = lines.block, f"%{lines.fresh('i')}"
    values = [f"%{lines.fresh('fold')}" for _ in starts]
    following = f"%{lines.fresh('next')}"
    lines.do(f"br label %{test}")
    lines.label(test)
    entry = len(lines.lines)
    lines.do(f"br i1 {lines.let(f'icmp slt i64 {i}, {end}')}, label %{inside}, label %{done}")
    lines.label(inside)
    after = body(i, values)
    lines.do(f"{following} = add i64 {i}, 1")
    last = lines.block
    lines.do(f"br label %{test}, !llvm.loop !1")
    entries = [f"  {i} = phi i64 [ {begin}, %{before} ], [ {following}, %{last} ]"]
    for value, start, new in zip(values, starts, after, strict=True):
        entries.append(f"  {value} = phi {v.type} [ {start}, %{before} ], [ {new}, %{last} ]")
    lines.lines[entry:entry] = entries
    lines.label(done)
    return values


def lanes_below(v: Vectors, count: str) -> str:
    """Return the mask of the first `count` lanes; any int64 that is not larger than 2^31."""
    numbers = f"<{', '.join(f'i32 {lane}' for lane in range(v.count))}>"
    short = v.lines.let(f"trunc i64 {count} to i32")
    kind = f"<{v.count} x i32>"
    first = v.lines.let(f"insertelement {kind} poison, i32 {short}, i32 0")
    limit = v.lines.let(f"shufflevector {kind} {first}, {kind} poison, <{v.count} x i32> zeroinitializer")
    return v.lines.let(f"icmp slt {kind} {numbers}, {limit}")


Body = Callable[[str, "str | None", Sequence[str]], Sequence[str]]
"""body(i, mask, carried) -> carried: what to do with lanes i, i + 1 ..., all of them where the mask is None."""


def sweep(v: Vectors, begin: str, end: str, body: Body, carried: Sequence[str] = ()) -> list[str]:
    """Go over [begin, end) by whole vectors and a masked rest; returns the vectors that the body carries along."""
    lines = v.lines
    test, inside, rest, tail, done = (lines.fresh(stem) for stem in ("wide", "lanes", "rest", "tail", "done"))
    before, i, following = lines.block, f"%{lines.fresh('i')}", f"%{lines.fresh('next')}"
    phis = [f"%{lines.fresh('carry')}" for _ in carried]
    lines.do(f"br label %{test}")
    lines.label(test)
    entry = len(lines.lines)
    lines.do(f"{following} = add i64 {i}, {v.count}")
    whole = lines.let(f"icmp sle i64 {following}, {end}")
    lines.do(f"br i1 {whole}, label %{inside}, label %{rest}")
    lines.label(inside)
    after = body(i, None, phis)
    last = lines.block
    lines.do(f"br label %{test}")
    entries = [f"  {i} = phi i64 [ {begin}, %{before} ], [ {following}, %{last} ]"]
    for phi, start, new in zip(phis, carried, after, strict=True):
        entries.append(f"  {phi} = phi {v.type} [ {start}, %{before} ], [ {new}, %{last} ]")
    lines.lines[entry:entry] = entries
    lines.label(rest)
    left = lines.let(f"sub i64 {end}, {i}")
    some = lines.let(f"icmp sgt i64 {left}, 0")
    lines.do(f"br i1 {some}, label %{tail}, label %{done}")
    lines.label(tail)
    mask = lanes_below(v, left)
    ended = body(i, mask, phis)
    last = lines.block
    lines.do(f"br label %{done}")
    lines.label(done)
    return [
        lines.let(f"phi {v.type} [ {phi}, %{rest} ], [ {new}, %{last} ]") for phi, new in zip(phis, ended, strict=True)
    ]


def share(lines: Lines, total: str, unit: int = 1) -> tuple[str, str]:
    """Return begin and end of this thread's part of `total` things; borders lie at multiples of `unit`."""
    blocks = total
    if unit > 1:
        blocks = lines.let(f"udiv i64 {lines.let(f'add i64 {total}, {unit - 1}')}, {unit}")
    borders: list[str] = []
    for who in ("%who", lines.let("add i64 %who, 1")):
        border = lines.let(f"udiv i64 {lines.let(f'mul i64 {blocks}, {who}')}, %many")
        if unit > 1:
            lines.declare("i64 @llvm.smin.i64(i64, i64)")
            wide = lines.let(f"mul i64 {border}, {unit}")
            border = lines.let(f"call i64 @llvm.smin.i64(i64 {wide}, i64 {total})")
        borders.append(border)
    return borders[0], borders[1]
