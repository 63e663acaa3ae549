"""Where segments of rows begin, as int64 in scratch memory: one block of threads finds it before anything else runs.

`starts` gets M + 1 numbers. Of lengths each thread adds up a run, all meet, and each goes over its run once more from
what those before it have together. Of sorted ids each that is not that before it says where its segment begins. What is
wrong is left in the status, and no start then lies outside of [0, I], so that nothing is read elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tazza.codegen.block import Scratch, Slot, Word
from tazza.codegen.emit import Lines
from tazza.codegen.loop import count_loop
from tazza.codegen.nvptx import GridKernel, barrier, place, shared
from tazza.codegen.rows import element, when
from tazza.engines.cuda.launch import GridLaunch, Status, own_code
from tazza.engines.cuda.threads import STATUS, Threads, each_launch
from tazza.operator import Launch, LaunchChain
from tazza.ops.sparse.segment import BY_LENGTHS, BY_SORTED_IDS, Division

TEAM = 256
"""Threads that add up lengths, each a run of them, twice."""
WRONG = "LENGTHS that do not add up to the number of rows"
UNSORTED = "SEGMENT_IDS that are not sorted, or name other segments than there are"


def starts_bytes(segments: int) -> int:
    """Return how much scratch memory the starts of segments need."""
    return 8 * (segments + 1)


def _lengths(lines: Lines, names: Sequence[str]) -> None:
    t = Threads(lines, names)
    member, _ = place(lines)
    S, count, rows = shared(lines), t.word("segments"), t.word("rows")
    run = t.two("udiv", t.add(count, TEAM - 1), TEAM)
    begin = t.least(t.mul(member, run), count)
    end = t.least(t.add(begin, run), count)

    def length(m: str) -> str:
        """Return the length of segment m; 0 for a negative one, which is told."""
        found = t.index("by", m, 32)
        negative = t.compare("slt", found, 0)
        t.report(negative)
        return t.select(negative, "0", found)

    own = t.carry(begin, end, ["0"], lambda m, sums: [t.add(sums[0], length(m))])[0]
    lines.do(f"store i64 {own}, ptr {element(lines, S, member, 'i64')}")
    barrier(lines)

    def of_team(k: str, sums: Sequence[str]) -> list[str]:
        return [t.add(sums[0], lines.let(f"load i64, ptr {element(lines, S, k, 'i64')}"))]

    def write(m: str, sums: Sequence[str]) -> list[str]:
        t.put("starts", m, t.least(sums[0], rows))
        return [t.add(sums[0], length(m))]

    (before,) = t.carry("0", member, ["0"], of_team)
    (after,) = t.carry(begin, end, [before], write)
    last = t.compare("eq", member, TEAM - 1)

    def finish() -> None:
        t.put("starts", count, t.least(after, rows))
        t.report(t.compare("ne", after, rows))

    when(lines, last, finish)


def _by_lengths(segments: int, rows: int, letter: str) -> Launch:
    words: dict[str, Word] = {STATUS: 0, "segments": segments, "rows": rows, "by": Slot(letter), "starts": Scratch()}
    names = tuple(words)
    code = own_code(f"starts of {TEAM} {names}", GridKernel(len(words), lambda lines: _lengths(lines, names), TEAM))
    return GridLaunch(code, (*words.values(),), 1, TEAM, starts_bytes(segments), Status(names.index(STATUS), WRONG))


def _by_sorted_ids(segments: int, rows: int, letter: str) -> Launch:
    words: dict[str, Word] = {"segments": segments, "rows": rows, "by": Slot(letter), "starts": Scratch()}
    scratch = starts_bytes(segments)

    def clear(t: Threads, m: str) -> None:
        """Let segment m begin behind all rows; all but one behind the last have some."""
        t.put("starts", m, t.word("rows"))
        rest = t.compare("slt", m, t.word("segments"))
        t.report(t.lines.let(f"and i1 {rest}, {t.compare('eq', t.word('rows'), 0)}"))

    def write(t: Threads, i: str) -> None:
        own, lines, last = t.index("by", i, 32), t.lines, t.two("sub", t.word("segments"), 1)
        before = t.where(t.compare("sgt", i, 0), lambda: t.index("by", t.two("sub", i, 1), 32), "-1", "i64")
        step = t.two("sub", own, before)
        good = lines.let(f"and i1 {t.below(step, 2)}, {t.below(own, t.word('segments'))}")
        begins = lines.let(f"and i1 {good}, {t.compare('eq', step, 1)}")
        when(lines, begins, lambda: t.put("starts", own, i))
        ends = t.compare("eq", t.add(i, 1), t.word("rows"))
        short = lines.let(f"and i1 {ends}, {t.compare('ne', own, last)}")
        t.report(lines.let(f"or i1 {short}, {lines.let(f'xor i1 {good}, true')}"))

    return LaunchChain(
        (
            each_launch("starts behind", segments + 1, words, clear, complaint=UNSORTED, scratch_bytes=scratch),
            each_launch("starts of ids", rows, words, write, complaint=UNSORTED, scratch_bytes=scratch),
        )
    )


STARTS: Mapping[str, Callable[[int, int, str], Launch]] = {
    BY_LENGTHS.name: _by_lengths,
    BY_SORTED_IDS.name: _by_sorted_ids,
}
"""Division -> the launch that finds where its segments begin, of so many segments and rows."""


def owners_bytes(segments: int, rows: int) -> int:
    """Return how much scratch memory starts and owners need."""
    return starts_bytes(segments) + 8 * rows


def owners_words(segments: int) -> dict[str, Word]:
    """Return where the starts of segments lie, and `owner`: the segment of each row, -1 where it has none."""
    return {"starts": Scratch(), "owner": Scratch(starts_bytes(segments))}


def owners_launch(division: Division, segments: int, rows: int) -> LaunchChain:
    """Return the launches that find where segments begin, and which segment each row belongs to."""
    words, scratch = owners_words(segments), owners_bytes(segments, rows)

    def own(t: Threads, m: str) -> None:
        begin, end = t.index("starts", m), t.index("starts", t.add(m, 1))
        count_loop(t.lines, begin, end, lambda i: t.put("owner", i, m))

    nobody = each_launch("no owner", rows, words, lambda t, i: t.put("owner", i, "-1"), scratch_bytes=scratch)
    owners = each_launch("owners", segments, words, own, scratch_bytes=scratch)
    return LaunchChain((starts_launch(division, segments, rows), nobody, owners))


def starts_launch(division: Division, segments: int, rows: int) -> Launch:
    """Return the launch that finds where segments begin."""
    return STARTS[division.name](segments, rows, division.letter)
