"""Where segments of rows begin, as int64 in scratch memory: one block of threads finds it before anything else runs.

`starts` gets M + 1 numbers. Of lengths each thread adds up a run, all meet, and each goes over its run once more from
what those before it have together. Of sorted ids each that is not that before it says where its segment begins. What is
wrong is left in the status, and no start then lies outside of [0, I], so that nothing is read elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tazza.codegen.block import Scratch, Slot, Word
from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, fold_loop, when
from tazza.codegen.nvptx import GridKernel, barrier, place, shared
from tazza.codegen.term import Lines, Term
from tazza.engines.cuda.launch import GridLaunch, Status, own_code
from tazza.engines.cuda.threads import STATUS, Threads, each_launch, fields_of
from tazza.operator import Launch, LaunchChain
from tazza.ops.sparse.segment import BY_LENGTHS, BY_SORTED_IDS, Division

TEAM = 256
"""Threads that add up lengths, each a run of them, twice."""
WRONG = "LENGTHS that do not add up to the number of rows"
UNSORTED = "SEGMENT_IDS that are not sorted, or name other segments than there are"


def starts_bytes(segments: int) -> int:
    """Return how much scratch memory the starts of segments need."""
    return 8 * (segments + 1)


def _lengths(lines: Lines, fields: Fields) -> None:
    t = Threads(lines, fields)
    member, _ = place(lines)
    S, count, rows = shared(lines).of("i64"), t.w.segments, t.w.rows
    run = count.pieces(TEAM)
    begin = (member * run).at_most(count)
    end = (begin + run).at_most(count)

    def length(m: Term) -> Term:
        """Return the length of segment m; 0 for a negative one, which is told."""
        found = t.index("by", m, 32)
        negative = found < 0
        t.report(negative)
        return negative.choose(0, found)

    S[member] = fold_loop(begin, end, 0, lambda m, total: total + length(m))
    barrier(lines)

    def write(m: Term, before: Term) -> Term:
        t.put("starts", m, before.at_most(rows))
        return before + length(m)

    before = fold_loop(0, member, 0, lambda k, total: total + S[k])
    after = fold_loop(begin, end, before, write)

    def finish() -> None:
        t.put("starts", count, after.at_most(rows))
        t.report(after.differs(rows))

    when(member.equals(TEAM - 1), finish)


def _by_lengths(segments: int, rows: int, letter: str) -> Launch:
    words: dict[str, Word] = {STATUS: 0, "segments": segments, "rows": rows, "by": Slot(letter), "starts": Scratch()}
    fields = fields_of(words)
    kernel = GridKernel(len(fields), lambda lines: _lengths(lines, fields), TEAM)
    code, status = own_code(f"starts of {TEAM} {(*fields,)}", kernel), Status(fields.place(STATUS), WRONG)
    return GridLaunch(code, (*words.values(),), 1, TEAM, starts_bytes(segments), status)


def _by_sorted_ids(segments: int, rows: int, letter: str) -> Launch:
    words: dict[str, Word] = {"segments": segments, "rows": rows, "by": Slot(letter), "starts": Scratch()}
    scratch = starts_bytes(segments)

    def clear(t: Threads, m: Term) -> None:
        """Let segment m begin behind all rows; all but one behind the last have some."""
        t.put("starts", m, t.w.rows)
        t.report((m < t.w.segments) & t.w.rows.equals(0))

    def write(t: Threads, i: Term) -> None:
        own, last = t.index("by", i, 32), t.w.segments - 1
        before = t.where(i > 0, lambda: t.index("by", i - 1, 32), -1)
        step = own - before
        good = step.below(2) & own.below(t.w.segments)
        when(good & step.equals(1), lambda: t.put("starts", own, i))
        short = (i + 1).equals(t.w.rows) & own.differs(last)
        t.report(short | ~good)

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

    def own(t: Threads, m: Term) -> None:
        begin, end = t.index("starts", m), t.index("starts", m + 1)
        count_loop(t.lines, begin, end, lambda i: t.put("owner", i, m))

    nobody = each_launch("no owner", rows, words, lambda t, i: t.put("owner", i, -1), scratch_bytes=scratch)
    owners = each_launch("owners", segments, words, own, scratch_bytes=scratch)
    return LaunchChain((starts_launch(division, segments, rows), nobody, owners))


def starts_launch(division: Division, segments: int, rows: int) -> Launch:
    """Return the launch that finds where segments begin."""
    return STARTS[division.name](segments, rows, division.letter)
