"""What kernels of a thread for each of so many things are written with: whole numbers, memory, what is wrong.

The first word of their block is how many things there are; the others are asked for by name. A kernel that may find
something wrong has the word `status`, and leaves a 1 where it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from tazza.codegen.block import Slot, Word
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.loop import carry_loop, chosen, fold_loop, while_loop
from tazza.codegen.nvptx import GridKernel, place
from tazza.codegen.rows import element, when
from tazza.codegen.rows import index_at as index_from
from tazza.data_class import dataclass
from tazza.engines.cuda.launch import THREADS, Brought, GridLaunch, Held, Status, blocks_for, own_code
from tazza.tensor import DataType

COUNT, STATUS = "count", "status"
SCOPE = 'syncscope("device")'
"""Who sees that an address is changed by one at a time: all threads of the device."""


Turn: TypeAlias = "Callable[[str, Sequence[str]], Sequence[str]]"
"""`values = turn(i, values)` writes one turn of a loop."""

Follow: TypeAlias = "Callable[[str, str], tuple[str, str]]"
"""`i, value = body(i, value)` writes one turn of a loop, and says which one follows."""


@dataclass(frozen=True, slots=True)
class Whole:
    """One int64 that a loop carries along."""

    lines: Lines
    count: int = 1
    type: str = "i64"


class Numbers:
    """Writes whole numbers of 64 bits."""

    __slots__ = ()
    lines: Lines

    def two(self, name: str, a: str, b: str | int) -> str:
        """Return an instruction on two int64, such as `add`, `udiv`, `urem`."""
        return self.lines.let(f"{name} i64 {a}, {b}")

    def add(self, a: str, b: str | int) -> str:
        """A + b."""
        return self.two("add", a, b)

    def mul(self, a: str, b: str | int) -> str:
        """A * b."""
        return self.two("mul", a, b)


@dataclass(slots=True)
class Threads(Numbers):
    """Writes what a thread does: `names` are those of the words of the block, in their order."""

    lines: Lines
    names: Sequence[str]
    _words: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        """Number the words."""
        self._words = {name: k for k, name in enumerate(self.names)}

    # -- the block -----------------------------------------------------------------------------------------------------

    def number_of(self, name: str) -> int:
        """Return which word has a name."""
        return self._words[name]

    def word(self, name: str) -> str:
        """Return a whole number of the block."""
        return self.lines.load_word("%block", self._words[name])

    def pointer(self, name: str) -> str:
        """Return an address of the block."""
        return self.lines.load_pointer("%block", self._words[name])

    def real(self, name: str) -> str:
        """Return a float64 whose bits are a word, as a vector of one lane."""
        return self.wide.splat(self.lines.let(f"bitcast i64 {self.word(name)} to double"))

    def report(self, wrong: str) -> None:
        """Leave a 1 where a condition holds."""
        when(self.lines, wrong, lambda: self.lines.do(f"store i64 1, ptr {self.pointer(STATUS)}"))

    def require(self, good: str) -> None:
        """Leave a 1 where a condition does not hold."""
        self.report(self.lines.let(f"xor i1 {good}, true"))

    # -- whole numbers -------------------------------------------------------------------------------------------------

    def split(self, i: str, extent: str | int) -> tuple[str, str]:
        """Return i // extent and i % extent; neither is negative."""
        return self.two("udiv", i, extent), self.two("urem", i, extent)

    def below(self, a: str, b: str | int) -> str:
        """Whether 0 <= a < b."""
        return self.lines.let(f"icmp ult i64 {a}, {b}")

    def compare(self, predicate: str, a: str, b: str | int) -> str:
        """Return what `icmp` says of two int64."""
        return self.lines.let(f"icmp {predicate} i64 {a}, {b}")

    def least(self, a: str, b: str | int) -> str:
        """Return the smaller of two int64."""
        return self.lines.least(a, b)

    def most(self, a: str, b: str | int) -> str:
        """Return the larger of two int64."""
        return self.lines.most(a, b)

    def select(self, condition: str, yes: str, no: str | int, kind: str = "i64") -> str:
        """Return one of two values of a type."""
        return self.lines.let(f"select i1 {condition}, {kind} {yes}, {kind} {no}")

    def carry(self, begin: str, end: str, starts: Sequence[str], body: Turn) -> list[str]:
        """Return what `values = body(i, values)` makes of int64 for i from begin to end."""
        return carry_loop(Whole(self.lines), begin, end, starts, body)

    def total(self, begin: str, end: str, value: Callable[[str], str], start: str | None = None) -> str:
        """Return the sum of `value(i)` in float32 for i from begin to end, behind what there is to start with."""
        v = self.single
        first = v.constant(0.0) if start is None else start
        return fold_loop(v, begin, end, first, lambda i, total: v.add(total, value(i)))

    def gather(self, first: str, behind: str, kind: str, start: str, body: Follow) -> str:
        """Return what `i, value = body(i, value)` makes of a value, from `first` on, as long as i is below `behind`."""
        starts = [("i64", first), (kind, start)]
        return while_loop(self.lines, starts, lambda at: self.compare("slt", at[0], behind), lambda at: body(*at))[1]

    def follow(self, first: str, behind: str, body: Callable[[str], str]) -> None:
        """Run `i = body(i)` from `first` on, as long as i is below `behind`."""
        self.gather(first, behind, "i64", "0", lambda i, value: (body(i), value))

    def where(self, good: str, value: Callable[[], str], otherwise: str, kind: str) -> str:
        """Return a value that is made where a condition holds, and something else elsewhere; both are of one type."""
        return chosen(self.lines, good, kind, lambda: [value()], lambda: [otherwise])[0]

    def narrow(self, value: str) -> str:
        """Return a float64 as a float32."""
        return self.lines.let(f"fptrunc {self.wide.type} {value} to {self.single.type}")

    def counted(self, n: str) -> str:
        """Return a number of things as a float32."""
        return self.single.splat(self.lines.let(f"uitofp i64 {n} to float"))

    def widened(self, value: str) -> str:
        """Return a float32 as a float64."""
        return self.lines.let(f"fpext {self.single.type} {value} to {self.wide.type}")

    # -- memory --------------------------------------------------------------------------------------------------------

    @property
    def single(self) -> Vector:
        """Arithmetic in float32."""
        return Vector(self.lines, 1)

    @property
    def wide(self) -> Vector:
        """Arithmetic in float64."""
        return Vector(self.lines, 1, DataType.DOUBLE)

    def load(self, name: str, i: str, dtype: DataType = DataType.FLOAT) -> str:
        """Return element i of a blob of floating point, in float32 or wider."""
        return self._lanes(dtype).load(self.pointer(name), i, None, dtype=dtype)

    def store(self, name: str, i: str, value: str, dtype: DataType = DataType.FLOAT) -> None:
        """Write element i of a blob of floating point."""
        self._lanes(dtype).store(value, self.pointer(name), i, None, dtype=dtype)

    def load_wide(self, name: str, i: str, dtype: DataType) -> str:
        """Return element i of a blob of floating point in float64."""
        found = self.load(name, i, dtype)
        return found if dtype is DataType.DOUBLE else self.widened(found)

    def store_wide(self, name: str, i: str, value: str, dtype: DataType) -> None:
        """Write a float64 to element i of a blob of floating point; 16 bits are made of float32."""
        self.store(name, i, value if dtype is DataType.DOUBLE else self.narrow(value), dtype)

    def _lanes(self, dtype: DataType) -> Vector:
        return self.wide if dtype is DataType.DOUBLE else self.single

    def index(self, name: str, i: str, bits: int = 64) -> str:
        """Return whole number i of a blob, of so many bits, as int64."""
        return index_from(self.lines, self.pointer(name), i, bits)

    def put(self, name: str, i: str, value: str) -> None:
        """Write int64 number i of a blob."""
        self.lines.do(f"store i64 {value}, ptr {element(self.lines, self.pointer(name), i, 'i64')}")

    def add_to(self, name: str, i: str, value: str | int = 1) -> str:
        """Add to int64 number i of a blob, whoever else does so, and return what it was."""
        at = element(self.lines, self.pointer(name), i, "i64")
        return self.lines.let(f"atomicrmw add ptr {at}, i64 {value} {SCOPE} monotonic")

    def claim(self, name: str, i: str, value: str, free: str | int) -> str:
        """Write int64 number i of a blob where it is still `free`, and return what it was."""
        at = element(self.lines, self.pointer(name), i, "i64")
        pair = self.lines.let(f"cmpxchg ptr {at}, i64 {free}, i64 {value} {SCOPE} monotonic monotonic")
        return self.lines.let(f"extractvalue {{ i64, i1 }} {pair}, 0")

    def move(self, source: tuple[str, str], target: tuple[str, str], nbytes: int) -> None:
        """Copy an element of so many bytes, from and to (blob, number)."""
        kind = f"i{8 * nbytes}"
        at, to = (element(self.lines, self.pointer(name), i, kind) for name, i in (source, target))
        self.lines.do(f"store {kind} {self.lines.let(f'load {kind}, ptr {at}')}, ptr {to}")


Write: TypeAlias = "Callable[[Threads, str], None]"
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
    names = tuple(block)

    def lay(lines: Lines) -> None:
        threads = Threads(lines, names)
        member, number = place(lines)
        i = threads.add(threads.mul(number, THREADS), member)
        when(lines, threads.compare("slt", i, threads.word(COUNT)), lambda: write(threads, i))

    code = own_code(f"each {name} {names}", GridKernel(len(block), lay))
    status = Status(names.index(STATUS), complaint) if complaint else None
    return GridLaunch(code, (*block.values(),), blocks_for(count), THREADS, scratch_bytes, status, recorded)


def zeros_launch(letter: str, count: int) -> GridLaunch:
    """Return the launch that makes so many elements of a blob 0, in float32."""

    def write(t: Threads, i: str) -> None:
        t.store("target", i, t.single.constant(0.0))

    return each_launch("zeros", count, {"target": Slot(letter)}, write)
