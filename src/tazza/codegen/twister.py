"""The outputs of an MT19937, drawn from the state of a generator where it lies.

New words are made a vector at a time, in a copy of the state behind which the first new ones stand once more: so the
words 1 and 397 places on always lie in one piece.

Source: Matsumoto, Nishimura 1998.
"""

from __future__ import annotations

from collections.abc import Callable

from tazza.codegen.emit import Lines
from tazza.codegen.kernel import lane_count
from tazza.codegen.loop import count_loop
from tazza.codegen.rows import element, when
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
    state: str
    copy: str
    outputs: str
    position: str
    drawn: str

    @classmethod
    def at(cls, lines: Lines, state: str, scratch: str) -> Twister:
        """Begin: copy the state to the scratch memory. Called in a function's first block."""
        outputs = element(lines, scratch, str(WORDS + PADDING), "i32")
        made = cls(lines, state, scratch, outputs, lines.let("alloca i64"), lines.let("alloca i64"))
        made._move(WORDS, state, scratch)
        place = lines.let(f"load i32, ptr {element(lines, state, str(WORDS), 'i32')}")
        lines.do(f"store i64 {lines.let(f'sext i32 {place} to i64')}, ptr {made.position}")
        return made

    def end(self) -> None:
        """Put the state back."""
        self._move(WORDS, self.copy, self.state)
        place = self.lines.let(f"load i64, ptr {self.position}")
        short = self.lines.let(f"trunc i64 {place} to i32")
        self.lines.do(f"store i32 {short}, ptr {element(self.lines, self.state, str(WORDS), 'i32')}")

    def draw(self, count: str) -> None:
        """Write the next outputs, at most CHUNK of them."""
        lines = self.lines
        lines.do(f"store i64 0, ptr {self.drawn}")
        turns = lines.let(f"add i64 {lines.let(f'udiv i64 {count}, {WORDS}')}, 2")

        def turn(_: str) -> None:
            place, done = (lines.let(f"load i64, ptr {one}") for one in (self.position, self.drawn))
            wanted = lines.let(f"sub i64 {count}, {done}")
            some = lines.let(f"icmp sgt i64 {wanted}, 0")
            used = lines.let(f"and i1 {some}, {lines.let(f'icmp sge i64 {place}, {WORDS}')}")
            when(lines, used, self._twist)
            place = lines.let(f"select i1 {used}, i64 0, i64 {place}")
            left = lines.let(f"sub i64 {WORDS}, {place}")
            here = lines.least(left, wanted)
            self._temper(element(lines, self.copy, place, "i32"), element(lines, self.outputs, done, "i32"), here)
            lines.do(f"store i64 {lines.let(f'add i64 {place}, {here}')}, ptr {self.position}")
            lines.do(f"store i64 {lines.let(f'add i64 {done}, {here}')}, ptr {self.drawn}")

        count_loop(lines, "0", turns, turn)

    # -- words ---------------------------------------------------------------------------------------------------------

    @property
    def _kind(self) -> str:
        return f"<{lane_count()} x i32>"

    def _read(self, pointer: str, i: str) -> str:
        return self.lines.let(f"load {self._kind}, ptr {element(self.lines, pointer, i, 'i32')}, align 4")

    def _write(self, value: str, pointer: str, i: str) -> None:
        self.lines.do(f"store {self._kind} {value}, ptr {element(self.lines, pointer, i, 'i32')}, align 4")

    def _op(self, name: str, a: str, b: str | int) -> str:
        return self.lines.let(f"{name} {self._kind} {a}, {f'splat (i32 {b})' if isinstance(b, int) else b}")

    def _vectors(self, first: int, last: int, body: Callable[[str], None]) -> None:
        """Run `body(i)` for the first word of each vector of [first, last)."""
        lanes = lane_count()
        count_loop(
            self.lines,
            str(first // lanes),
            str(last // lanes),
            lambda j: body(self.lines.let(f"mul i64 {j}, {lanes}")),
        )

    def _move(self, count: int, source: str, target: str) -> None:
        self._vectors(0, count, lambda i: self._write(self._read(source, i), target, i))

    def _twist(self) -> None:
        """Make all words new."""
        lanes = lane_count()
        self._vectors(0, ALONE, lambda i: self._renew(i, MIDDLE))
        self._move(PADDING, self.copy, element(self.lines, self.copy, str(WORDS), "i32"))
        self._renew(str(ALONE), MIDDLE)
        self._vectors(ALONE + lanes, WORDS, lambda i: self._renew(i, MIDDLE - WORDS))

    def _renew(self, i: str, away: int) -> None:
        lines = self.lines
        upper = self._op("and", self._read(self.copy, i), UPPER)
        following = self._read(self.copy, lines.let(f"add i64 {i}, 1"))
        joined = self._op("or", upper, self._op("and", following, LOWER))
        odd = lines.let(f"trunc {self._kind} {following} to <{lane_count()} x i1>")
        twist = lines.let(
            f"select <{lane_count()} x i1> {odd}, {self._kind} splat (i32 {MATRIX}), {self._kind} zeroinitializer"
        )
        mixed = self._read(self.copy, lines.let(f"add i64 {i}, {away}"))
        self._write(self._op("xor", self._op("xor", mixed, twist), self._op("lshr", joined, 1)), self.copy, i)

    def _temper(self, words: str, target: str, count: str) -> None:
        """Write what so many words give; what is written behind them is written over by what comes then."""
        lines, lanes = self.lines, lane_count()
        vectors = lines.let(f"sdiv i64 {lines.let(f'add i64 {count}, {lanes - 1}')}, {lanes}")

        def body(j: str) -> None:
            i = lines.let(f"mul i64 {j}, {lanes}")
            y = self._read(words, i)
            y = self._op("xor", y, self._op("lshr", y, 11))
            y = self._op("xor", y, self._op("and", self._op("shl", y, 7), 0x9D2C5680 - (1 << 32)))
            y = self._op("xor", y, self._op("and", self._op("shl", y, 15), 0xEFC60000 - (1 << 32)))
            self._write(self._op("xor", y, self._op("lshr", y, 18)), target, i)

        count_loop(lines, "0", vectors, body)
