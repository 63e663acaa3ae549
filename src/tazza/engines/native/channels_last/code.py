"""The machine code of batch normalization, and of its gradient, for images whose channels lie innermost.

Letters: n pixels of C channels; rows of `width` floats hold `folds` pixels each, so that vectors are full where C
is no multiple of their lanes. Rows come in chunks, whose borders depend on the shape alone: results do not depend on
the number of threads. Forward, with d = X - the first row of the chunk, each thread for its chunks or channels:

    S1[chunk], S2[chunk] = sum of d, sum of d * d                                   in float32, one reading of X
    mean, var            of the chunks' sums, moved to count from X[0]              in float64
    slope                = scale * inv_std                                          inv_std = 1 / sqrt(var + epsilon)
    Y                    = epilogue(y = (X - mean) * slope + bias, s0, s1 ...)

and backward, with dZ = prologue(dy, y = (X - mean) * slope + bias):

    S1[chunk], S2[chunk] = sum of dZ, sum of dZ * (X - mean)
    dbias, dscale        = S1, S2 * inv_std
    dX                   = slope * ((dZ - dbias / n) - inv_std * dscale / n * (X - mean))

in this order, so that of a single pixel, or of equal ones, nothing but 0 is left.

Of a blob that is larger than the caches its end is still there after it was read, so the second reading begins at the
end. A value that is far from the others costs digits of the variance if it is the first of a chunk, but those of one
chunk only; an infinite one there makes the mean NaN instead of infinite. Squares of differences beyond 1e19 overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tazza.codegen.fields import Fields
from tazza.codegen.function import Emission, finished
from tazza.codegen.loop import carry_loop, count_loop, each_vector, lanes_below, lanes_of, share
from tazza.codegen.term import Lines, Term
from tazza.codegen.writer import FLOAT, Writer
from tazza.data_class import dataclass
from tazza.operator import Expression
from tazza.tensor import DataType

COUNTS = Fields(
    "threads rows width channels folds chunk_rows chunks", doubles="n", addresses="X scale bias mean scratch"
)
"""chunk_rows: rows of a chunk; n: pixels."""
FORWARD = Fields(
    doubles="epsilon momentum", addresses="var Y running_mean running_var saved_mean saved_inv_std", after=COUNTS
)
"""Behind them stand the addresses of S."""
BACKWARD = Fields(addresses="dY inv_std dX dscale dbias", after=COUNTS)

VECTORS = ("mean", "slope", "bias", "constant", "factor")
"""What belongs to the channels and is read for each row; it lies in scratch memory behind the sums."""
SUMMED, APPLIED = 8, 4
"""How many rows are summed up, and written, at once: what belongs to the channels is read once for all of them."""


def scratch_floats(width: int, chunks: int) -> int:
    """Return how many floats of scratch memory either direction takes."""
    return (2 * chunks + len(VECTORS)) * width


class _Passes(Writer):
    """What both directions share: two sums per channel over all rows, then a pass that writes."""

    def __init__(self, lines: Lines, fields: Fields) -> None:
        super().__init__(lines, fields)
        self.wide = lanes_of(lines, DataType.DOUBLE)
        after = self.w.chunks * self.w.width * 2
        self.partial = self.w.scratch
        self.vectors = {name: self.partial.at(after + self.w.width * k) for k, name in enumerate(VECTORS)}

    # -- loops ---------------------------------------------------------------------------------------------------------

    def each_chunk(self, body: Callable[[Term, Term, Term], None], *, backwards: bool = False) -> None:
        """Run `body(chunk, first row, row behind the last)` for the chunks of this thread."""
        first, last = share(self.lines, self.w.chunks)

        def chunk(i: Term) -> None:
            if backwards:
                i = first + (last - 1) - i
            begin = i * self.w.chunk_rows
            body(i, begin, self.w.rows.at_most(begin + self.w.chunk_rows))

        count_loop(self.lines, first, last, chunk)

    def each_row(
        self, begin: Term, end: Term, unrolled: int, body: Callable[[Sequence[Term], Term, Term | None], None]
    ) -> None:
        """Run `body(offsets, i, mask)` for vectors i of rows, `unrolled` rows at once and then the rest one by one."""
        whole = (end - begin) // unrolled

        def rows(offsets: Sequence[Term]) -> None:
            each_vector(self.v, 0, self.w.width, lambda i, mask: body(offsets, i, mask))

        def group(k: Term) -> None:
            start = (begin + k * unrolled) * self.w.width
            rows([start, *(start + self.w.width * r for r in range(1, unrolled))])

        count_loop(self.lines, 0, whole, group)
        rest = begin + whole * unrolled
        count_loop(self.lines, rest, end, lambda row: rows([row * self.w.width]))

    def each_channel(self, body: Callable[[Term, Term], None]) -> None:
        """Run `body(c, mask)` for the channels of this thread, in vectors of float64."""
        count = self.wide.count

        def vector(k: Term) -> None:
            c = k * count
            body(c, lanes_below(self.wide, self.w.channels - c))

        count_loop(self.lines, *share(self.lines, self.w.channels.pieces(count)), vector)

    # -- sums ----------------------------------------------------------------------------------------------------------

    def sum_up(self, terms: Callable[[Term, Sequence[Term], Term, Term | None], tuple[Term, Term]]) -> None:
        """Add `terms(start of the chunk, offsets of rows, i, mask)`, two vectors, to the sums of the chunk."""
        v, width = self.v, self.w.width

        def chunk(number: Term, begin: Term, end: Term) -> None:
            firsts = self.partial.at(number * width * 2)
            both = firsts, firsts.at(width)
            start = begin * width

            def clear(i: Term, mask: Term | None) -> None:
                for sums in both:
                    v.store(v.constant(0.0), sums, i, mask)

            def add(offsets: Sequence[Term], i: Term, mask: Term | None) -> None:
                for value, sums in zip(terms(start, offsets, i, mask), both, strict=True):
                    v.store(v.load(sums, i, mask) + value, sums, i, mask)

            each_vector(v, 0, width, clear)
            self.each_row(begin, end, SUMMED, add)

        self.each_chunk(chunk)

    def each_sum(
        self,
        c: Term,
        mask: Term,
        starts: Sequence[Term],
        body: Callable[[Term, Term, Sequence[Term], Sequence[Term]], Sequence[Term]],
    ) -> list[Term]:
        """Return what `values = body(chunk, place, both sums, values)` makes of vectors for all chunks and folds.

        `place` is where channels c, c + 1 ... of a fold stand in a row; everything is float64.
        """
        v, width = self.wide, self.w.width

        def fold(j: Term, carried: Sequence[Term]) -> Sequence[Term]:
            place = j * self.w.channels + c

            def chunk(number: Term, values: Sequence[Term]) -> Sequence[Term]:
                at = number * width * 2 + place
                pair = [v.load(self.partial, i, mask, dtype=FLOAT) for i in (at, at + width)]
                return body(number, place, pair, values)

            return carry_loop(0, self.w.chunks, carried, chunk)

        return carry_loop(0, self.w.folds, starts, fold)

    # -- vectors of the channels ---------------------------------------------------------------------------------------

    def of_channels(self, names: Sequence[str], i: Term, mask: Term | None) -> list[Term]:
        """Return vectors of the channels at one place of a row."""
        return [self.v.load(self.vectors[name], i, mask) for name in names]

    def rounded(self, value: Term) -> Term:
        """Return float64 as it is after it was stored as float32."""
        return value.to("float").to("double")

    def keep(self, c: Term, mask: Term, **vectors: Term) -> None:
        """Store what belongs to channels c, c + 1 ... once for each fold."""

        def fold(j: Term) -> None:
            at = j * self.w.channels + c
            for name, value in vectors.items():
                self.wide.store(value, self.vectors[name], at, mask, dtype=FLOAT)

        count_loop(self.lines, 0, self.w.folds, fold)

    def recall(self, c: Term, mask: Term, mean: Term, inv_std: Term, *, bias: bool) -> None:
        """Keep mean, slope and maybe bias, for a mean and an inverse deviation as they are stored.

        So y has the same bits in both directions; where a channel does not vary, it is the bias.
        """
        v = self.wide
        self.keep(c, mask, mean=mean, slope=v.load(self.w.scale, c, mask, dtype=FLOAT) * inv_std)
        if bias:
            self.keep(c, mask, bias=v.load(self.w.bias, c, mask, dtype=FLOAT))


def added(values: Sequence[Term]) -> Term:
    """Return the sum, by halves."""
    found = list(values)
    while len(found) > 1:
        pairs = [found[i] + found[i + 1] for i in range(0, len(found) - 1, 2)]
        found = pairs + found[len(found) // 2 * 2 :]
    return found[0]


def multiplied(values: Sequence[Term], others: Sequence[Term]) -> Term:
    """Return the sum of products, in two chains."""
    chains: list[Term] = []
    for start in range(min(2, len(values))):
        total = values[start] * others[start]
        for one, other in zip(values[start + 2 :: 2], others[start + 2 :: 2], strict=True):
            total = one.fma(other, total)
        chains.append(total)
    return added(chains)


@dataclass(frozen=True)
class Forward:
    """Y, the running and the saved pair."""

    epilogue: Expression | None
    operands: int

    @property
    def description(self) -> str:
        """A text that only equal codes have."""
        return f"batch normalization {self.operands} {'' if self.epilogue is None else self.epilogue.text()}"

    def write(self, lines: Lines) -> None:
        """Write the work of one thread."""
        passes = _Passes(lines, FORWARD)
        v, X = passes.v, passes.w.X

        def terms(start: Term, offsets: Sequence[Term], i: Term, mask: Term | None) -> tuple[Term, Term]:
            first = v.load(X, start + i, mask)
            found = [v.load(X, at + i, mask) - first for at in offsets]
            return added(found), multiplied(found, found)

        passes.sum_up(terms)
        passes.wait()
        passes.each_channel(lambda c, mask: _statistics(passes, c, mask))
        passes.wait()
        self._apply(passes)

    def _apply(self, passes: _Passes) -> None:
        v, w = passes.v, passes.w
        S = passes.tail.take(self.operands, "ptr")

        def rows(starts: Sequence[Term], i: Term, mask: Term | None) -> None:
            mean, slope, bias = passes.of_channels(("mean", "slope", "bias"), i, mask)
            for start in starts:
                at = start + i
                y = (v.load(w.X, at, mask) - mean).fma(slope, bias)
                others = [v.load(s, at, mask) for s in S]
                v.store(finished(v, self.epilogue, y, others), w.Y, at, mask)

        passes.each_chunk(lambda _, begin, end: passes.each_row(begin, end, APPLIED, rows), backwards=True)


def _statistics(passes: _Passes, c: Term, mask: Term) -> None:
    """Write the saved and the running pair of a vector of channels, and what the last pass reads."""
    v, w = passes.wide, passes.w
    n = v.full(w.n)
    origin = v.load(w.X, c, mask, dtype=FLOAT)

    def join(chunk: Term, place: Term, sums: Sequence[Term], values: Sequence[Term]) -> Sequence[Term]:
        """Add the sums of a chunk of one fold, which count from its own first row, as sums that count from X[0]."""
        begin = chunk * w.chunk_rows
        rows = w.rows.at_most(begin + w.chunk_rows) - begin
        some = v.full(rows.to_unsigned("double"))
        step = v.load(w.X, begin * w.width + place, mask, dtype=FLOAT) - origin
        first, second = sums
        moved = some * step
        square = (first + first + moved).fma(step, second)
        return [values[0] + (first + moved), values[1] + square]

    total, squares = passes.each_sum(c, mask, [v.constant(0.0)] * 2, join)
    away = total / n
    mean = origin + away
    variance = (squares / n - away * away).at_least(0.0)
    inv_std = 1.0 / (variance + v.full(w.epsilon)).intrinsic("sqrt")
    unbiased = variance * (n / (n - 1.0))
    old = v.full(w.momentum)
    new = 1.0 - old
    for value, before, after in ((mean, "mean", "running_mean"), (unbiased, "var", "running_var")):
        blend = old.fma(v.load(w[before], c, mask, dtype=FLOAT), new * value)
        v.store(blend, w[after], c, mask, dtype=FLOAT)
    v.store(mean, w.saved_mean, c, mask, dtype=FLOAT)
    v.store(inv_std, w.saved_inv_std, c, mask, dtype=FLOAT)
    passes.recall(c, mask, passes.rounded(mean), passes.rounded(inv_std), bias=True)


@dataclass(frozen=True)
class Backward:
    """dX, dscale and dbias."""

    prologue: Expression | None

    @property
    def description(self) -> str:
        """A text that only equal codes have."""
        return f"gradient of batch normalization {'' if self.prologue is None else self.prologue.text()}"

    def write(self, lines: Lines) -> None:
        """Write the work of one thread."""
        passes = _Passes(lines, BACKWARD)
        passes.each_channel(lambda c, mask: self._recall(passes, c, mask))
        passes.wait()

        def terms(start: Term, starts: Sequence[Term], i: Term, mask: Term | None) -> tuple[Term, Term]:
            del start
            mean, slope, bias = passes.of_channels(("mean", "slope", "bias"), i, mask)  # LLVM drops the idle ones
            pairs = [self._pair(passes, start + i, mask, (mean, slope, bias)) for start in starts]
            gradients = [dz for _, dz in pairs]
            return added(gradients), multiplied([away for away, _ in pairs], gradients)

        passes.sum_up(terms)
        passes.wait()
        passes.each_channel(lambda c, mask: _gradients(passes, c, mask))
        passes.wait()
        self._apply(passes)

    def _recall(self, passes: _Passes, c: Term, mask: Term) -> None:
        """Write what the forward direction took."""
        mean, inv_std = (passes.wide.load(passes.w[name], c, mask, dtype=FLOAT) for name in ("mean", "inv_std"))
        passes.recall(c, mask, mean, inv_std, bias=self.prologue is not None)

    def _pair(
        self, passes: _Passes, at: Term, mask: Term | None, vectors: tuple[Term, Term, Term]
    ) -> tuple[Term, Term]:
        """Return X - mean and dZ; slope and bias are read where there is a prologue."""
        v, (mean, slope, bias) = passes.v, vectors
        x, dy = (v.load(passes.w[name], at, mask) for name in ("X", "dY"))
        away = x - mean
        if self.prologue is None:
            return away, dy
        return away, Emission(v, {"dy": dy, "y": away.fma(slope, bias)}).write(self.prologue)

    def _apply(self, passes: _Passes) -> None:
        v, w = passes.v, passes.w

        def rows(starts: Sequence[Term], i: Term, mask: Term | None) -> None:
            mean, slope, bias, constant, factor = passes.of_channels(VECTORS, i, mask)
            for start in starts:
                at = start + i
                away, dz = self._pair(passes, at, mask, (mean, slope, bias))
                v.store(slope * away.fma(factor, dz - constant), w.dX, at, mask)

        passes.each_chunk(lambda _, begin, end: passes.each_row(begin, end, APPLIED, rows), backwards=True)


def _gradients(passes: _Passes, c: Term, mask: Term) -> None:
    """Write dscale and dbias, and what dX takes of them."""
    v, w = passes.wide, passes.w

    def join(chunk: Term, place: Term, sums: Sequence[Term], values: Sequence[Term]) -> Sequence[Term]:
        del chunk, place
        return [one + other for one, other in zip(values, sums, strict=True)]

    dbias, products = passes.each_sum(c, mask, [v.constant(0.0)] * 2, join)
    inv_std, n = v.load(w.inv_std, c, mask, dtype=FLOAT), v.full(w.n)
    dscale = products * inv_std
    v.store(dbias, w.dbias, c, mask, dtype=FLOAT)
    v.store(dscale, w.dscale, c, mask, dtype=FLOAT)
    passes.keep(c, mask, constant=dbias / n, factor=-(inv_std * dscale / n))
