"""Writing kernels of more than one sweep: the words of a block by name, whole numbers, and steps through memory."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.codegen.emit import Lanes, Lines
from tazza.codegen.loop import lanes_of, store
from tazza.tensor import DataType

FLOAT = DataType.FLOAT
LINE = 16
"""Floats in a line of the cache."""


class Writer:
    """Writes a kernel whose block has the words `names`, addresses among them, and behind them more addresses."""

    def __init__(self, lines: Lines, names: Sequence[str], addresses: Sequence[str], first: int = 0) -> None:
        """Read the words, the first of which is that number of the block."""
        self.lines = lines
        self.v: Lanes = lanes_of(lines)
        self.w = {
            name: (lines.load_pointer if name in addresses else lines.load_word)("%block", i)
            for i, name in enumerate(names, first)
        }
        for name in ("smin", "smax"):
            lines.declare(f"i64 @llvm.{name}.i64(i64, i64)")

    @property
    def panel(self) -> int:
        """Output channels of a panel."""
        return 2 * self.v.count

    def wait(self) -> None:
        """Let all threads come here."""
        self.lines.declare("void @GOMP_barrier()")
        self.lines.do("call void @GOMP_barrier()")

    # -- whole numbers -------------------------------------------------------------------------------------------------

    def add(self, a: str, b: str | int) -> str:
        """A + b."""
        return self.lines.let(f"add i64 {a}, {b}")

    def sub(self, a: str, b: str | int) -> str:
        """A - b."""
        return self.lines.let(f"sub i64 {a}, {b}")

    def mul(self, a: str, b: str | int) -> str:
        """A * b."""
        return self.lines.let(f"mul i64 {a}, {b}")

    def div(self, a: str, b: str | int) -> str:
        """A / b without the rest, of numbers that are not negative."""
        return self.lines.let(f"udiv i64 {a}, {b}")

    def rem(self, a: str, b: str | int) -> str:
        """The rest of a / b."""
        return self.lines.let(f"urem i64 {a}, {b}")

    def pieces(self, a: str, b: str | int) -> str:
        """How many pieces of b cover a."""
        return self.div(self.sub(self.add(a, b), 1), b)

    def least(self, a: str, b: str) -> str:
        """The smaller one."""
        return self.lines.let(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def most(self, a: str, b: str) -> str:
        """The larger one."""
        return self.lines.let(f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")

    # -- memory --------------------------------------------------------------------------------------------------------

    def put(self, value: str, pointer: str, index: str) -> None:
        """Write a whole vector."""
        store(self.v, FLOAT, value, pointer, index, None)


def places(v: Lanes, start: str, step: str) -> str:
    """Return the addresses of every `step`th float from `start` on, one for each lane."""
    lines, kind = v.lines, f"<{v.count} x i64>"
    numbers = f"<{', '.join(f'i64 {lane}' for lane in range(v.count))}>"
    one = lines.let(f"insertelement {kind} poison, i64 {step}, i32 0")
    steps = lines.let(f"shufflevector {kind} {one}, {kind} poison, <{v.count} x i32> zeroinitializer")
    return lines.let(f"getelementptr float, ptr {start}, {kind} {lines.let(f'mul {kind} {steps}, {numbers}')}")


def gather(v: Lanes, start: str, step: str, mask: str) -> str:
    """Return every `step`th float from `start` on; lanes outside of the mask are 0."""
    name = f"@llvm.masked.gather.v{v.count}f32.v{v.count}p0"
    v.lines.declare(f"{v.type} {name}(<{v.count} x ptr>, i32, {v.mask}, {v.type})")
    operands = f"<{v.count} x ptr> {places(v, start, step)}, i32 4, {v.mask} {mask}, {v.type} zeroinitializer"
    return v.lines.let(f"call {v.type} {name}({operands})")


def scatter(v: Lanes, value: str, start: str, step: str, mask: str) -> None:
    """Write lanes to every `step`th float from `start` on."""
    name = f"@llvm.masked.scatter.v{v.count}f32.v{v.count}p0"
    v.lines.declare(f"void {name}({v.type}, <{v.count} x ptr>, i32, {v.mask})")
    operands = f"{v.type} {value}, <{v.count} x ptr> {places(v, start, step)}, i32 4, {v.mask} {mask}"
    v.lines.do(f"call void {name}({operands})")
