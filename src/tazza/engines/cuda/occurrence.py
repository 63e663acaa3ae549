"""Which indices stand somewhere for the first time, and where each stands again: for sums and updates in their order.

Rows are written by the thread of the first occurrence of their index, for all occurrences in turn: no row is written by
two threads, and numbers are those of the CPU. Few indices are compared with each other, all with all. Of many each
finds the slot of its value in a table by hashing, and then sees those only that have the same slot: where they stand
in the list of that slot hangs on who came first, what is found there does not. Long lists are sorted before: 32 runs
become one in each pass, where each index finds its place by halving; so n equal indices cost n log n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tazza.codegen.block import Scratch, Slot, Word
from tazza.codegen.rows import when
from tazza.data_class import dataclass
from tazza.engines.cuda.threads import Threads, Write, each_launch
from tazza.operator import Launch, LaunchChain

COMPLAINT = "indices that are those of no row"
FEW = 1024
"""So many indices are compared with each other in one kernel, which takes less time than several."""
FREE = -1
"""What stands in a slot of the table that nobody took."""
SHORT = 32
"""So long lists are looked through by each of their indices, and so many runs are merged in a pass."""
SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)
"""2^64 by the golden ratio, which spreads indices over the table.

Source: Knuth, The Art of Computer Programming, volume 3, section 6.4."""


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
    complaint: str = COMPLAINT

    @property
    def words(self) -> dict[str, Word]:
        """What a kernel reads them with."""
        again, first = Scratch(self.behind), Scratch(self.behind + 8 * self.count)
        return {"indices": Slot(self.letter), "indices_count": self.count, "next": again, "first": first}

    @property
    def slot_bits(self) -> int:
        """The table has 2 to this many slots, of which half at least stay free; there is none for few indices."""
        return (2 * self.count - 1).bit_length() if self.count > FEW else 0

    @property
    def scratch_bytes(self) -> int:
        """What is before all arrays included."""
        slots = 3 << self.slot_bits if self.slot_bits else 0
        return self.behind + 8 * (2 * self.count + (3 * self.count + 1 + slots if slots else 0))

    def launch(self) -> Launch:
        """Return the launches that find them."""
        words = {**self.words, "table": self.table}
        if not self.slot_bits:
            return self._each("", self.count, words, _compare(self.bits), self.complaint)
        at = self.behind + 16 * self.count
        for name, count in (("slot", self.count), ("list", self.count), ("merged", self.count), ("listed", 1)):
            words[name], at = Scratch(at), at + 8 * count
        for name in ("value", "many", "start"):
            words[name], at = Scratch(at), at + (8 << self.slot_bits)
        words["shift"] = 64 - self.slot_bits
        return LaunchChain(
            (
                self._each("cleared", 1 << self.slot_bits, words, _clear),
                self._each("placed", self.count, words, _take_slot(self.bits), self.complaint),
                self._each("begun", 1 << self.slot_bits, words, _begin),
                self._each("listed", self.count, words, _list),
                *self._sorting(words),
                self._each("ordered", self.count, words, _order),
            )
        )

    def _sorting(self, words: Mapping[str, Word]) -> Iterator[Launch]:
        """Yield the passes that sort long lists: an even number of them, so that all end where they began."""
        width, lists = 1, ("list", "merged")
        while width < self.count or lists[0] != "list":
            swapped = {**words, "list": words[lists[0]], "merged": words[lists[1]]}
            yield self._each(f"merged {width}", self.count, swapped, _merge(width))
            width, lists = width * SHORT, lists[::-1]

    def _each(self, name: str, count: int, words: Mapping[str, Word], write: Write, complaint: str = "") -> Launch:
        told, scratch = f"occurrences {name} {self.bits}", self.scratch_bytes
        return each_launch(told, count, words, write, complaint=complaint, scratch_bytes=scratch)


def each_occurrence(t: Threads, k: str, body: Callable[[str], None]) -> None:
    """Run `body(k)` for all occurrences of index k in their order, where k is the first; nothing elsewhere."""

    def turn(k: str) -> str:
        body(k)
        return t.index("next", k)

    first = t.compare("ne", t.index("first", k), 0)
    when(t.lines, first, lambda: t.follow(k, t.word("indices_count"), turn))


def _compare(bits: int) -> Write:
    """Of index k: `next` is where it stands again, K where it does not; `first` is 1 where no other is before it."""

    def write(t: Threads, k: str) -> None:
        lines, count, own = t.lines, t.word("indices_count"), t.index("indices", k, bits)
        good = t.below(own, t.word("table"))
        t.require(good)

        def same(j: str) -> str:
            return t.compare("eq", t.index("indices", j, bits), own)

        def before(j: str, found: Sequence[str]) -> list[str]:
            return [t.select(same(j), "1", found[0])]

        def behind(j: str, found: Sequence[str]) -> list[str]:
            fresh = lines.let(f"and i1 {same(j)}, {t.compare('eq', found[0], count)}")
            return [t.select(fresh, j, found[0])]

        (stood,) = t.carry("0", k, ["0"], before)
        (again,) = t.carry(t.add(k, 1), count, [count], behind)
        is_first = lines.let(f"and i1 {good}, {t.compare('eq', stood, 0)}")
        t.put("first", k, lines.let(f"zext i1 {is_first} to i64"))
        t.put("next", k, again)

    return write


# -- by hashing --------------------------------------------------------------------------------------------------------


def _clear(t: Threads, p: str) -> None:
    """Free slot p, of which there are as many as threads."""
    t.put("value", p, str(FREE))
    t.put("many", p, "0")
    when(t.lines, t.compare("eq", p, 0), lambda: t.put("listed", "0", "0"))


def _take_slot(bits: int) -> Write:
    """Of index k: `slot` is that of its value, -1 where it is no row; `many` counts who has the same."""

    def write(t: Threads, k: str) -> None:
        own = t.index("indices", k, bits)
        good = t.below(own, t.word("table"))
        t.require(good)
        t.put("slot", k, "-1")
        t.put("next", k, t.word("indices_count"))  # until it is found elsewhere
        t.put("first", k, "0")
        slots = t.two("shl", "1", t.two("sub", "64", t.word("shift")))

        def look(p: str) -> str:
            """Take slot p where it is free or has the value; else go on to the next one."""
            found = t.claim("value", p, own, FREE)
            taken = t.lines.let(f"or i1 {t.compare('eq', found, FREE)}, {t.compare('eq', found, own)}")

            def take() -> None:
                t.put("slot", k, p)
                t.add_to("many", p)

            when(t.lines, taken, take)
            following = t.two("and", t.add(p, 1), t.two("sub", slots, 1))
            return t.select(taken, slots, following)

        when(t.lines, good, lambda: t.follow(t.two("lshr", t.mul(own, SPREAD), t.word("shift")), slots, look))

    return write


def _begin(t: Threads, p: str) -> None:
    """Of slot p: `start` is where the list of its indices begins; `many` counts them anew behind this."""
    many = t.index("many", p)

    def take() -> None:
        t.put("start", p, t.add_to("listed", "0", many))

    when(t.lines, t.compare("sgt", many, 0), take)
    t.put("many", p, "0")


def _list(t: Threads, k: str) -> None:
    """Put index k into the list of its slot."""
    p = t.index("slot", k)

    def put() -> None:
        t.put("list", t.add(t.index("start", p), t.add_to("many", p)), k)

    when(t.lines, t.compare("sge", p, 0), put)


def _merge(width: int) -> Write:
    """Of place i of a long list, in runs of `width`: its index goes to its place in `merged`, in the run of 32 runs.

    That is as far behind as there are smaller ones in these; all differ. Short lists are copied.
    """

    def write(t: Threads, i: str) -> None:
        when(t.lines, t.compare("slt", i, t.index("listed", "0")), lambda: listed(t, i))

    def listed(t: Threads, i: str) -> None:
        k = t.index("list", i)
        p = t.index("slot", k)
        begin, many = t.index("start", p), t.index("many", p)
        group = t.two("and", t.two("sub", i, begin), -width * SHORT)
        left = t.two("sub", many, group)
        runs = t.least(t.two("udiv", t.add(left, width - 1), width), SHORT)
        first = t.add(begin, group)

        def smaller(r: str, found: Sequence[str]) -> list[str]:
            skipped = t.mul(r, width)
            length = t.least(t.two("sub", left, skipped), width)
            return [t.add(found[0], smaller_in(t, (t.add(first, skipped), length), k))]

        def move() -> None:
            (rank,) = t.carry("0", runs, ["0"], smaller)
            t.put("merged", t.add(first, rank), k)

        when(t.lines, t.compare("sgt", many, SHORT), move, lambda: t.put("merged", i, k))

    def smaller_in(t: Threads, run: tuple[str, str], k: str) -> str:
        """Return how many of a sorted run, from where it begins and of its length, are smaller than k."""
        found, step = "0", width
        while step:
            further = t.add(found, step)
            at = t.two("sub", t.add(run[0], t.least(further, run[1])), 1)
            inside = t.compare("sle", further, run[1])
            smaller = t.lines.let(f"and i1 {inside}, {t.compare('slt', t.index('list', at), k)}")
            found, step = t.select(smaller, further, found), step // 2
        return found

    return write


def _order(t: Threads, i: str) -> None:
    """Of the index at place i of the lists: `next` and `first`; it has neighbours in a long list, which is sorted."""

    def listed() -> None:
        k = t.index("list", i)
        p = t.index("slot", k)
        begin, many = t.index("start", p), t.index("many", p)
        long = t.compare("sgt", many, SHORT)
        when(t.lines, long, lambda: _beside(t, (begin, many), i, k), lambda: _among(t, (begin, many), k))

    when(t.lines, t.compare("slt", i, t.index("listed", "0")), listed)


def _beside(t: Threads, lies: tuple[str, str], i: str, k: str) -> None:
    """Look at the neighbour of index k in a list, which begins somewhere and is so long."""
    begin, many = lies
    follows = t.compare("slt", t.add(i, 1), t.add(begin, many))
    again = t.where(follows, lambda: t.index("list", t.add(i, 1)), t.word("indices_count"), "i64")
    t.put("next", k, again)
    t.put("first", k, t.lines.let(f"zext i1 {t.compare('eq', i, begin)} to i64"))


def _among(t: Threads, lies: tuple[str, str], k: str) -> None:
    """Look at all indices of a list, which begins somewhere and is so long."""
    begin, many = lies

    def one(i: str, found: Sequence[str]) -> list[str]:
        j = t.index("list", i)
        later = t.lines.let(f"and i1 {t.compare('sgt', j, k)}, {t.compare('slt', j, found[0])}")
        earlier = t.lines.let(f"zext i1 {t.compare('slt', j, k)} to i64")
        return [t.select(later, j, found[0]), t.two("or", found[1], earlier)]

    again, before = t.carry(begin, t.add(begin, many), [t.word("indices_count"), "0"], one)
    t.put("next", k, again)
    t.put("first", k, t.two("xor", before, 1))
