"""Which indices stand somewhere for the first time, and where each stands again: for sums and updates in their order.

Rows are written by the thread of the first occurrence of their index, for all occurrences in turn: no row is written by
two threads, and numbers are those of the CPU. A thread for each of K indices compares it with all others, so that K^2
numbers are read, from caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tazza.codegen.block import Scratch, Slot, Word
from tazza.codegen.rows import when
from tazza.engines.cuda.threads import Threads, Write, each_launch
from tazza.operator import Launch

COMPLAINT = "indices that are those of no row"


@dataclass(frozen=True, slots=True)
class Occurrences:
    """K indices, the input `letter`, of so many bits, into a table of so many rows.

    What is found stands in scratch memory behind the first `behind` bytes.
    """

    count: int
    table: int
    bits: int
    behind: int = 0
    letter: str = "indices"

    @property
    def words(self) -> dict[str, Word]:
        """What a kernel reads them with."""
        again, first = Scratch(self.behind), Scratch(self.behind + 8 * self.count)
        return {"indices": Slot(self.letter), "indices_count": self.count, "next": again, "first": first}

    @property
    def scratch_bytes(self) -> int:
        """What is before both arrays included."""
        return self.behind + 16 * self.count

    def launch(self) -> Launch:
        """Return the launch that finds them."""
        words = {**self.words, "table": self.table}
        name, scratch = f"occurrences {self.bits}", self.scratch_bytes
        return each_launch(name, self.count, words, _find(self.bits), complaint=COMPLAINT, scratch_bytes=scratch)


def each_occurrence(t: Threads, k: str, body: Callable[[str], None]) -> None:
    """Run `body(k)` for all occurrences of index k in their order, where k is the first; nothing elsewhere."""

    def turn(k: str) -> str:
        body(k)
        return t.index("next", k)

    first = t.compare("ne", t.index("first", k), 0)
    when(t.lines, first, lambda: t.follow(k, t.word("indices_count"), turn))


def _find(bits: int) -> Write:
    """Of index k: `next` is where it stands again, K where it does not; `first` is 1 where no other is before it."""

    def write(t: Threads, k: str) -> None:
        lines, count, own = t.lines, t.word("indices_count"), t.index("indices", k, bits)
        good = t.below(own, t.word("table"))
        t.report(lines.let(f"xor i1 {good}, true"))

        def same(j: str) -> str:
            return t.compare("eq", t.index("indices", j, bits), own)

        def before(j: str, found: Sequence[str]) -> list[str]:
            return [lines.let(f"select i1 {same(j)}, i64 1, i64 {found[0]}")]

        def behind(j: str, found: Sequence[str]) -> list[str]:
            fresh = lines.let(f"and i1 {same(j)}, {t.compare('eq', found[0], count)}")
            return [lines.let(f"select i1 {fresh}, i64 {j}, i64 {found[0]}")]

        (stood,) = t.carry("0", k, ["0"], before)
        (again,) = t.carry(t.add(k, 1), count, [count], behind)
        is_first = lines.let(f"and i1 {good}, {t.compare('eq', stood, 0)}")
        t.put("first", k, lines.let(f"zext i1 {is_first} to i64"))
        t.put("next", k, again)

    return write
