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

from tazza.codegen.loop import count_loop
from tazza.codegen.term import Lines, Term
from tazza.codegen.writer import Writer

LINE_WORDS = 16
"""Words between two counts: two lines, which processors read together."""
BY_OTHERS = 1 << 32


def taken_bytes(threads: int) -> bytes:
    """Return what the counts of so many threads begin with."""
    return bytes(8 * LINE_WORDS * threads)


class Taking:
    """Writes loops over what one thread takes, where all counts begin at an address."""

    def __init__(self, writer: Writer, taken: Term) -> None:
        """Make room for a count that nobody else sees."""
        self.writer, self.taken = writer, taken
        self.alone = writer.lines.room("i64", 8)

    def each(self, count: Term, ways: tuple[Term, Term], back: Term, body: Callable[[Term, Term], None]) -> None:
        """Run `body(i, number)` for those of `count` things that this thread takes; `number` counts from its first.

        Args:
            count: how many things there are.
            ways: two truths: whether this thread does all of them, and whether others may take some of its own.
            back: a truth: each thread begins at its last thing.
            body: writes what is done.
        """
        lines, (all_own, shared) = self.writer.lines, ways
        self.alone.store(0)
        others = shared.choose(lines.many, 1)

        def of_thread(offset: Term) -> None:
            owner = (lines.who + offset) % lines.many
            begin, end = (count * one // lines.many for one in (owner, owner + 1))
            ends = all_own.choose(0, begin), all_own.choose(count, end)
            own = offset.equals(0)
            place = shared.choose(self.taken.at(owner * LINE_WORDS), self.alone)
            self._take(place, own, ends, back, body)

        count_loop(lines, 0, others, of_thread)

    def _take(
        self, place: Term, own: Term, ends: tuple[Term, Term], back: Term, body: Callable[[Term, Term], None]
    ) -> None:
        """Take things of one thread, whose count has a place, until none is left."""
        lines, (first, last) = self.writer.lines, ends
        test, inside, done = (lines.fresh(stem) for stem in ("take", "taken", "left"))
        one = own.choose(lines.number(1), BY_OTHERS)
        size = last - first
        lines.do(f"br label %{test}")
        lines.label(test)
        before = place.add_atomically(one, "monotonic, align 8")
        by_owner, by_others = before % BY_OTHERS, before // BY_OTHERS
        lines.do(f"br i1 {by_owner + by_others < size}, label %{inside}, label %{done}")
        lines.label(inside)
        turn = own.choose(by_owner, size - 1 - by_others)
        number = back.choose(size - 1 - turn, turn)
        body(first + number, number)
        lines.do(f"br label %{test}")
        lines.label(done)


def give_back(lines: Lines, threads: Term, taken: Term) -> None:
    """Write what sets all counts to 0, behind the work of all threads; there are none where their address is 0."""
    none = lines.let("i1", f"icmp eq ptr {taken}, null")
    count_loop(lines, 0, none.choose(0, threads), lambda i: taken.at(i * LINE_WORDS).store(0))
    lines.do("ret i64 0")
