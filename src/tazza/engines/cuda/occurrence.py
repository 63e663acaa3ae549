"""Which indices stand somewhere for the first time, and where each stands again: for sums and updates in their order.

Rows are written by the thread of the first occurrence of their index, for all occurrences in turn: no row is written by
two threads, and numbers are those of the CPU. Few indices are compared with each other, all with all. Of many each
finds the slot of its value in a table by hashing, and then sees those only that have the same slot: where they stand
in the list of that slot hangs on who came first, what is found there does not. Long lists are sorted before: 32 runs
become one in each pass, where each index finds its place by halving; so n equal indices cost n log n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tazza.codegen.block import Scratch, Slot, Word
from tazza.codegen.loop import carry_loop, fold_loop, when
from tazza.codegen.term import Term
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
            return self._each("", self.count, words, partial(_compare, self.bits), self.complaint)
        at = self.behind + 16 * self.count
        for name, count in (("slot", self.count), ("list", self.count), ("merged", self.count), ("listed", 1)):
            words[name], at = Scratch(at), at + 8 * count
        for name in ("value", "many", "start"):
            words[name], at = Scratch(at), at + (8 << self.slot_bits)
        words["shift"] = 64 - self.slot_bits
        return LaunchChain(
            (
                self._each("cleared", 1 << self.slot_bits, words, _clear),
                self._each("placed", self.count, words, partial(_take_slot, self.bits), self.complaint),
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
            yield self._each(f"merged {width}", self.count, swapped, partial(_merge, width))
            width, lists = width * SHORT, lists[::-1]

    def _each(self, name: str, count: int, words: Mapping[str, Word], write: Write, complaint: str = "") -> Launch:
        told, scratch = f"occurrences {name} {self.bits}", self.scratch_bytes
        return each_launch(told, count, words, write, complaint=complaint, scratch_bytes=scratch)


def each_occurrence(t: Threads, k: Term, body: Callable[[Term], None]) -> None:
    """Run `body(k)` for all occurrences of index k in their order, where k is the first; nothing elsewhere."""

    def turn(k: Term) -> Term:
        body(k)
        return t.index("next", k)

    when(t.index("first", k).differs(0), lambda: t.follow(k, t.w.indices_count, turn))


def _compare(bits: int, t: Threads, k: Term) -> None:
    """Of index k: `next` is where it stands again, K where it does not; `first` is 1 where no other is before it."""
    count, own = t.w.indices_count, t.index("indices", k, bits)
    good = own.below(t.w.table)
    t.require(good)

    def same(j: Term) -> Term:
        return t.index("indices", j, bits).equals(own)

    def behind(j: Term, found: Term) -> Term:
        return (same(j) & found.equals(count)).choose(j, found)

    stood = fold_loop(0, k, 0, lambda j, found: same(j).choose(1, found))
    again = fold_loop(k + 1, count, count, behind)
    t.put("first", k, (good & stood.equals(0)).to_unsigned("i64"))
    t.put("next", k, again)


# -- by hashing --------------------------------------------------------------------------------------------------------


def _clear(t: Threads, p: Term) -> None:
    """Free slot p, of which there are as many as threads."""
    t.put("value", p, FREE)
    t.put("many", p, 0)
    when(p.equals(0), lambda: t.put("listed", 0, 0))


def _take_slot(bits: int, t: Threads, k: Term) -> None:
    """Of index k: `slot` is that of its value, -1 where it is no row; `many` counts who has the same."""
    own = t.index("indices", k, bits)
    good = own.below(t.w.table)
    t.require(good)
    t.put("slot", k, -1)
    t.put("next", k, t.w.indices_count)  # until it is found elsewhere
    t.put("first", k, 0)
    slots = t.lines.number(1) << (64 - t.w.shift)

    def look(p: Term) -> Term:
        """Take slot p where it is free or has the value; else go on to the next one."""
        found = t.claim("value", p, own, FREE)
        taken = found.equals(FREE) | found.equals(own)

        def take() -> None:
            t.put("slot", k, p)
            t.add_to("many", p)

        when(taken, take)
        return taken.choose(slots, (p + 1) & (slots - 1))

    when(good, lambda: t.follow((own * SPREAD).shifted_down(t.w.shift), slots, look))


def _begin(t: Threads, p: Term) -> None:
    """Of slot p: `start` is where the list of its indices begins; `many` counts them anew behind this."""
    many = t.index("many", p)
    when(many > 0, lambda: t.put("start", p, t.add_to("listed", 0, many)))
    t.put("many", p, 0)


def _list(t: Threads, k: Term) -> None:
    """Put index k into the list of its slot."""
    p = t.index("slot", k)
    when(p >= 0, lambda: t.put("list", t.index("start", p) + t.add_to("many", p), k))


def _merge(width: int, t: Threads, i: Term) -> None:
    """Of place i of a long list, in runs of `width`: its index goes to its place in `merged`, in the run of 32 runs.

    That is as far behind as there are smaller ones in these; all differ. Short lists are copied.
    """

    def listed() -> None:
        k = t.index("list", i)
        p = t.index("slot", k)
        begin, many = t.index("start", p), t.index("many", p)
        group = (i - begin) & (-width * SHORT)
        left = many - group
        runs = (left.pieces(width)).at_most(SHORT)
        first = begin + group

        def smaller(r: Term, found: Term) -> Term:
            skipped = r * width
            length = (left - skipped).at_most(width)
            return found + _smaller_in(width, t, (first + skipped, length), k)

        def move() -> None:
            t.put("merged", first + fold_loop(0, runs, 0, smaller), k)

        when(many > SHORT, move, lambda: t.put("merged", i, k))

    when(i < t.index("listed", 0), listed)


def _smaller_in(width: int, t: Threads, run: tuple[Term, Term], k: Term) -> Term:
    """Return how many of a sorted run, from where it begins and of its length, are smaller than k."""
    found, step = t.lines.number(0), width
    while step:
        further = found + step
        at = run[0] + further.at_most(run[1]) - 1
        smaller = (further <= run[1]) & (t.index("list", at) < k)
        found, step = smaller.choose(further, found), step // 2
    return found


def _order(t: Threads, i: Term) -> None:
    """Of the index at place i of the lists: `next` and `first`; it has neighbours in a long list, which is sorted."""

    def listed() -> None:
        k = t.index("list", i)
        p = t.index("slot", k)
        begin, many = t.index("start", p), t.index("many", p)
        when(many > SHORT, lambda: _beside(t, (begin, many), i, k), lambda: _among(t, (begin, many), k))

    when(i < t.index("listed", 0), listed)


def _beside(t: Threads, lies: tuple[Term, Term], i: Term, k: Term) -> None:
    """Look at the neighbour of index k in a list, which begins somewhere and is so long."""
    begin, many = lies
    t.put("next", k, t.where(i + 1 < begin + many, lambda: t.index("list", i + 1), t.w.indices_count))
    t.put("first", k, i.equals(begin).to_unsigned("i64"))


def _among(t: Threads, lies: tuple[Term, Term], k: Term) -> None:
    """Look at all indices of a list, which begins somewhere and is so long."""
    begin, many = lies

    def one(i: Term, found: list[Term]) -> list[Term]:
        j, (again, before) = t.index("list", i), found
        later, earlier = (j > k) & (j < again), (j < k).to_unsigned("i64")
        return [later.choose(j, again), before | earlier]

    again, before = carry_loop(begin, begin + many, [t.w.indices_count, 0], one)
    t.put("next", k, again)
    t.put("first", k, before ^ 1)
