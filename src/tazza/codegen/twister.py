"""The outputs of an MT19937, drawn from the state of a generator where it lies.

New words are made a vector at a time, in a copy of the state behind which the first new ones stand once more: so the
words 1 and 397 places on always lie in one piece.

Source: Matsumoto, Nishimura 1998.
"""

from __future__ import annotations

from collections.abc import Callable

from tazza.codegen.kernel import lane_count
from tazza.codegen.loop import count_loop, when
from tazza.codegen.term import Lines, Number, Term
from tazza.data_class import dataclass

WORDS, MIDDLE = 624, 397
"""Words of the state, and how far on the word lies that is mixed in."""
ALONE = 224
"""A multiple of the lanes of all vectors: so many words are made of old ones alone."""
PADDING = 16
"""Words behind the state in its copy, and behind the outputs: as many as the widest vector has."""
CHUNK = 4 * WORDS
"""Outputs that are drawn at a time: an even number."""
SCRATCH_BYTES = 4 * (WORDS + PADDING + CHUNK + PADDING)
UPPER, LOWER, MATRIX = -(1 << 31), (1 << 31) - 1, 0x9908B0DF - (1 << 32)


@dataclass(frozen=True, slots=True)
class Twister:
    """Draws from `state`, of 624 words and the position in them; works in `copy`, and gives `outputs`."""

    lines: Lines
    state: Term
    copy: Term
    outputs: Term
    position: Term
    drawn: Term

    @classmethod
    def at(cls, lines: Lines, state: Term, scratch: Term) -> Twister:
        """Begin: copy the state to the scratch memory. Called in a function's first block."""
        state, scratch = state.of("i32"), scratch.of("i32")
        outputs = scratch.at(WORDS + PADDING)
        made = cls(lines, state, scratch, outputs, lines.room("i64"), lines.room("i64"))
        made._move(WORDS, state, scratch)
        made.position.store(state[WORDS].to("i64"))
        return made

    def end(self) -> None:
        """Put the state back."""
        self._move(WORDS, self.copy, self.state)
        self.state[WORDS] = self.position.load().to("i32")

    def draw(self, count: Term) -> None:
        """Write the next outputs, at most CHUNK of them."""
        self.drawn.store(0)

        def turn(_: Term) -> None:
            place, done = self.position.load(), self.drawn.load()
            wanted = count - done
            used = (wanted > 0) & (place >= WORDS)
            when(used, self._twist)
            place = used.choose(0, place)
            here = (WORDS - place).at_most(wanted)
            self._temper(self.copy.at(place), self.outputs.at(done), here)
            self.position.store(place + here)
            self.drawn.store(done + here)

        count_loop(self.lines, 0, count // WORDS + 2, turn)

    # -- words ---------------------------------------------------------------------------------------------------------

    @property
    def _kind(self) -> str:
        return f"<{lane_count()} x i32>"

    def _read(self, pointer: Term, i: Number) -> Term:
        return pointer.at(i).of(self._kind).load(4)

    def _write(self, value: Term, pointer: Term, i: Number) -> None:
        pointer.at(i).of(self._kind).store(value, 4)

    def _vectors(self, first: int, last: int, body: Callable[[Term], None]) -> None:
        """Run `body(i)` for the first word of each vector of [first, last)."""
        lanes = lane_count()
        count_loop(self.lines, first // lanes, last // lanes, lambda j: body(j * lanes))

    def _move(self, count: int, source: Term, target: Term) -> None:
        self._vectors(0, count, lambda i: self._write(self._read(source, i), target, i))

    def _twist(self) -> None:
        """Make all words new."""
        lanes = lane_count()
        self._vectors(0, ALONE, lambda i: self._renew(i, MIDDLE))
        self._move(PADDING, self.copy, self.copy.at(WORDS))
        self._renew(ALONE, MIDDLE)
        self._vectors(ALONE + lanes, WORDS, lambda i: self._renew(i, MIDDLE - WORDS))

    def _renew(self, i: Number, away: int) -> None:
        upper = self._read(self.copy, i) & UPPER
        following = self._read(self.copy, i + 1)
        joined = upper | (following & LOWER)
        twist = following.to("i1").choose(self.lines.number(MATRIX, self._kind), 0)
        mixed = self._read(self.copy, i + away)
        self._write(mixed ^ twist ^ joined.shifted_down(1), self.copy, i)

    def _temper(self, words: Term, target: Term, count: Term) -> None:
        """Write what so many words give; what is written behind them is written over by what comes then."""
        lanes = lane_count()
        vectors = (count + (lanes - 1)).op("sdiv", lanes)

        def body(j: Term) -> None:
            i = j * lanes
            y = self._read(words, i)
            y ^= y.shifted_down(11)
            y ^= (y << 7) & (0x9D2C5680 - (1 << 32))
            y ^= (y << 15) & (0xEFC60000 - (1 << 32))
            self._write(y ^ y.shifted_down(18), target, i)

        count_loop(self.lines, 0, vectors, body)
