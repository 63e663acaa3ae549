"""What kernels of a thread for each of so many things are written with: whole numbers, memory, what is wrong.

The first word of their block is how many things there are; the others are asked for by name. A kernel that may find
something wrong has the word `status`, and leaves a 1 where it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TypeAlias

from tazza.codegen.block import Slot, Word
from tazza.codegen.fields import Fields, Reader
from tazza.codegen.loop import chosen, fold_loop, when, while_loop
from tazza.codegen.nvptx import GridKernel, place
from tazza.codegen.rows import index_at
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import Vector
from tazza.data_class import dataclass
from tazza.engines.cuda.launch import THREADS, Brought, GridLaunch, Held, Status, blocks_for, own_code
from tazza.tensor import DataType

COUNT, STATUS = "count", "status"
SCOPE = 'syncscope("device")'
"""Who sees that an address is changed by one at a time: all threads of the device."""


Follow: TypeAlias = "Callable[[Term, Term], tuple[Term, Term]]"
"""`i, value = body(i, value)` writes one turn of a loop, and says which one follows."""


@dataclass(slots=True)
class Threads:
    """Writes what a thread does: `fields` names the words of the block, `w` reads those that are whole numbers."""

    lines: Lines
    fields: Fields
    w: Reader = field(init=False)

    def __post_init__(self) -> None:
        """Read nothing yet."""
        self.w = self.fields.lazily(self.lines)

    # -- the block -----------------------------------------------------------------------------------------------------

    def pointer(self, name: str, element: str = "float") -> Term:
        """Return an address of the block."""
        return self.w.address(name).of("ptr").load().of(element)

    def real(self, name: str) -> Term:
        """Return a float64 whose bits are a word, as a vector of one lane."""
        return self.w[name].bitcast("double").splat(1)

    def report(self, wrong: Term) -> None:
        """Leave a 1 where a condition holds."""
        when(wrong, lambda: self.pointer(STATUS, "i64").store(1))

    def require(self, good: Term) -> None:
        """Leave a 1 where a condition does not hold."""
        self.report(~good)

    # -- whole numbers -------------------------------------------------------------------------------------------------

    def split(self, i: Term, extent: Number) -> tuple[Term, Term]:
        """Return i // extent and i % extent; neither is negative."""
        return i // extent, i % extent

    def total(self, begin: Number, end: Number, value: Callable[[Term], Term], start: Term | None = None) -> Term:
        """Return the sum of `value(i)` in float32 for i from begin to end, behind what there is to start with."""
        first = self.single.constant(0.0) if start is None else start
        return fold_loop(begin, end, first, lambda i, total: total + value(i))

    def gather(self, first: Number, behind: Number, start: Number, body: Follow) -> Term:
        """Return what `i, value = body(i, value)` makes of a value, from `first` on, as long as i is below `behind`."""
        return while_loop(self.lines, [first, start], lambda at: at[0] < behind, lambda at: body(*at))[1]

    def follow(self, first: Number, behind: Number, body: Callable[[Term], Term]) -> None:
        """Run `i = body(i)` from `first` on, as long as i is below `behind`."""
        self.gather(first, behind, 0, lambda i, value: (body(i), value))

    def where(self, good: Term, value: Callable[[], Term], otherwise: Number) -> Term:
        """Return a value that is made where a condition holds, and something else elsewhere; both are of one type."""
        return chosen(good, lambda: [value()], lambda: [otherwise])[0]

    def counted(self, n: Term) -> Term:
        """Return a number of things as a float32."""
        return n.to_unsigned("float").splat(1)

    # -- memory --------------------------------------------------------------------------------------------------------

    @property
    def single(self) -> Vector:
        """Arithmetic in float32."""
        return Vector(self.lines, 1)

    @property
    def wide(self) -> Vector:
        """Arithmetic in float64."""
        return Vector(self.lines, 1, DataType.DOUBLE)

    def load(self, name: str, i: Number, dtype: DataType = DataType.FLOAT) -> Term:
        """Return element i of a blob of floating point, in float32 or wider."""
        return self._lanes(dtype).load(self.pointer(name), i, None, dtype=dtype)

    def store(self, name: str, i: Number, value: Term, dtype: DataType = DataType.FLOAT) -> None:
        """Write element i of a blob of floating point."""
        self._lanes(dtype).store(value, self.pointer(name), i, None, dtype=dtype)

    def load_wide(self, name: str, i: Number, dtype: DataType) -> Term:
        """Return element i of a blob of floating point in float64."""
        return self.load(name, i, dtype).to(self.wide.scalar)

    def store_wide(self, name: str, i: Number, value: Term, dtype: DataType) -> None:
        """Write a float64 to element i of a blob of floating point; 16 bits are made of float32."""
        self.store(name, i, value.to(self._lanes(dtype).scalar), dtype)

    def _lanes(self, dtype: DataType) -> Vector:
        return self.wide if dtype is DataType.DOUBLE else self.single

    def index(self, name: str, i: Number, bits: int = 64) -> Term:
        """Return whole number i of a blob, of so many bits, as int64."""
        return index_at(self.pointer(name), i, bits)

    def put(self, name: str, i: Number, value: Number) -> None:
        """Write int64 number i of a blob."""
        self.pointer(name, "i64")[i] = value

    def add_to(self, name: str, i: Number, value: Number = 1) -> Term:
        """Add to int64 number i of a blob, whoever else does so, and return what it was."""
        return self.pointer(name, "i64").at(i).add_atomically(value, f"{SCOPE} monotonic")

    def claim(self, name: str, i: Number, value: Term, free: Number) -> Term:
        """Write int64 number i of a blob where it is still `free`, and return what it was."""
        at = self.pointer(name, "i64").at(i)
        pair = self.lines.let("{ i64, i1 }", f"cmpxchg ptr {at}, i64 {free}, i64 {value} {SCOPE} monotonic monotonic")
        return self.lines.let("i64", f"extractvalue {{ i64, i1 }} {pair}, 0")

    def move(self, source: tuple[str, Term], target: tuple[str, Term], nbytes: int) -> None:
        """Copy an element of so many bytes, from and to (blob, number)."""
        at, to = (self.pointer(name, f"i{8 * nbytes}").at(i) for name, i in (source, target))
        to.store(at.load())


Write: TypeAlias = "Callable[[Threads, Term], None]"
"""`write(threads, i)` writes what the thread of thing i does."""


def each_launch(
    name: str,
    count: int,
    words: Mapping[str, Word | Held | Brought],
    write: Write,
    *,
    complaint: str = "",
    scratch_bytes: int = 0,
    recorded: Callable[[], GridLaunch] | None = None,
) -> GridLaunch:
    """Return the launch of a kernel with a thread for each of `count` things.

    Args:
        name: tells the kernel apart; complete, but for the names of the words.
        count: how many things there are.
        words: of the block, by name.
        write: writes what the thread does of thing i.
        complaint: what it has found wrong where it reports something; none where it never does.
        scratch_bytes: how much scratch memory the launch needs.
        recorded: makes what is recorded in its place, where numbers of the host are among the words.
    """
    block: dict[str, Word | Held | Brought] = {COUNT: count, **({STATUS: 0} if complaint else {}), **words}
    fields = fields_of(block)

    def lay(lines: Lines) -> None:
        threads = Threads(lines, fields)
        member, number = place(lines)
        i = number * THREADS + member
        when(i < threads.w[COUNT], lambda: write(threads, i))

    code = own_code(f"each {name} {(*fields,)}", GridKernel(len(fields), lay))
    status = Status(fields.place(STATUS), complaint) if complaint else None
    return GridLaunch(code, (*block.values(),), blocks_for(count), THREADS, scratch_bytes, status, recorded)


def fields_of(names: Iterable[str]) -> Fields:
    """Return the words of a block, all of which are read as whole numbers, but by `pointer`."""
    return Fields(" ".join(names))


def zeros_launch(letter: str, count: int) -> GridLaunch:
    """Return the launch that makes so many elements of a blob 0, in float32."""

    def write(t: Threads, i: Term) -> None:
        t.store("target", i, t.single.constant(0.0))

    return each_launch("zeros", count, {"target": Slot(letter)}, write)
