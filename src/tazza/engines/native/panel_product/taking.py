"""Which thread does which of some things in a row: its own, and then what others have not begun.

The processor of one thread may be slower than that of another for a while, or be lent to another program; who is done
takes what the others would do last. A count for each thread, which all of them see, holds how many of its things it
has taken itself, and above 32 bits how many others have taken:

    taken[thread][LINE_WORDS]

Who adds to it gets what it was before, and has taken a thing where that was less than all in sum. What a thing is
computed to does not depend on who takes it. Counts are 0 between two runs. They say nothing of memory, and need no
order but their own: what a thread wrote is read by others behind the end of the region.
"""

from __future__ import annotations

from collections.abc import Callable

from tazza.codegen.emit import Lines
from tazza.codegen.loop import count_loop
from tazza.codegen.rows import element
from tazza.codegen.writer import Writer

LINE_WORDS = 16
"""Words between two counts: two lines, which processors read together."""
BY_OTHERS = 1 << 32


def taken_bytes(threads: int) -> bytes:
    """Return what the counts of so many threads begin with."""
    return bytes(8 * LINE_WORDS * threads)


class Taking:
    """Writes loops over what one thread takes, where all counts begin at an address."""

    def __init__(self, writer: Writer, taken: str) -> None:
        """Make room for a count that nobody else sees."""
        self.writer, self.taken = writer, taken
        self.alone = writer.lines.let("alloca i64, align 8")

    def each(self, count: str, ways: tuple[str, str], back: str, body: Callable[[str, str], None]) -> None:
        """Run `body(i, number)` for those of `count` things that this thread takes; `number` counts from its first.

        Args:
            count: how many things there are.
            ways: two truths: whether this thread does all of them, and whether others may take some of its own.
            back: a truth: each thread begins at its last thing.
            body: writes what is done.
        """
        writer, lines, (all_own, shared) = self.writer, self.writer.lines, ways
        lines.do(f"store i64 0, ptr {self.alone}")
        others = lines.let(f"select i1 {shared}, i64 %many, i64 1")

        def of_thread(offset: str) -> None:
            owner = writer.rem(writer.add("%who", offset), "%many")
            borders = [writer.div(writer.mul(count, one), "%many") for one in (owner, writer.add(owner, 1))]
            first = lines.let(f"select i1 {all_own}, i64 0, i64 {borders[0]}")
            last = lines.let(f"select i1 {all_own}, i64 {count}, i64 {borders[1]}")
            own = lines.let(f"icmp eq i64 {offset}, 0")
            seen = element(lines, self.taken, writer.mul(owner, LINE_WORDS), "i64")
            self._take(lines.let(f"select i1 {shared}, ptr {seen}, ptr {self.alone}"), own, (first, last), back, body)

        count_loop(lines, "0", others, of_thread)

    def _take(self, place: str, own: str, ends: tuple[str, str], back: str, body: Callable[[str, str], None]) -> None:
        """Take things of one thread, whose count has a place, until none is left."""
        writer, lines, (first, last) = self.writer, self.writer.lines, ends
        test, inside, done = (lines.fresh(stem) for stem in ("take", "taken", "left"))
        one = lines.let(f"select i1 {own}, i64 1, i64 {BY_OTHERS}")
        size = writer.sub(last, first)
        lines.do(f"br label %{test}")
        lines.label(test)
        before = lines.let(f"atomicrmw add ptr {place}, i64 {one} monotonic, align 8")
        by_owner, by_others = writer.rem(before, BY_OTHERS), writer.div(before, BY_OTHERS)
        left = lines.let(f"icmp slt i64 {writer.add(by_owner, by_others)}, {size}")
        lines.do(f"br i1 {left}, label %{inside}, label %{done}")
        lines.label(inside)
        from_end = writer.sub(writer.sub(size, 1), by_others)
        turn = lines.let(f"select i1 {own}, i64 {by_owner}, i64 {from_end}")
        number = lines.let(f"select i1 {back}, i64 {writer.sub(writer.sub(size, 1), turn)}, i64 {turn}")
        body(writer.add(first, number), number)
        lines.do(f"br label %{test}")
        lines.label(done)


def give_back(lines: Lines, threads: str, taken: str) -> None:
    """Write what sets all counts to 0, behind the work of all threads; there are none where their address is 0."""
    none = lines.let(f"icmp eq ptr {taken}, null")
    threads = lines.let(f"select i1 {none}, i64 0, i64 {threads}")

    def clear(i: str) -> None:
        lines.do(f"store i64 0, ptr {element(lines, taken, lines.let(f'mul i64 {i}, {LINE_WORDS}'), 'i64')}")

    count_loop(lines, "0", threads, clear)
    lines.do("ret i64 0")
