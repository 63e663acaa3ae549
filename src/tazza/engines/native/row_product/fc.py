"""FC and FusedFC for few rows: Y = epilogue(X W^T + b), with W (M, K) as it lies, row-major.

Letters as in `ops.fc`. A thread takes L outputs at a time (L lanes of a vector): L sums over K are carried along, each
a vector, and are then folded into one vector with a sum in each lane, to which b and the epilogue apply. Where there is
one output, X and W change places: a thread takes L rows at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tazza.codegen.block import BlockLaunch, Constant, Slot, Word
from tazza.codegen.fields import Fields
from tazza.codegen.fold import fold_lanes
from tazza.codegen.function import finished
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import count_loop, lanes_below, lanes_of, share, sweep
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.data_class import dataclass
from tazza.engines.native import native
from tazza.engines.native.row_product import SOURCES
from tazza.operator import Expression, LaidOut, OpView, Unsupported
from tazza.operator.kernel import Offered
from tazza.ops.nn.fc import FC
from tazza.ops.nn.fused import FUSED_FC, epilogue_of
from tazza.runtime.machine import machine
from tazza.tensor import ROW_MAJOR, DataType, TensorSpec
from tazza.tensor.offer import Offer

FLOAT = DataType.FLOAT
ENGINE = "native/row_product"
BLOCK = Fields("threads N M K", addresses="X W b Y")
"""Behind them stand the addresses of S."""


@dataclass(frozen=True)
class Code:
    """What tells the code of one kernel from that of another."""

    epilogue: Expression | None
    operands: int
    single: bool = False

    @property
    def description(self) -> str:
        """A text that only equal codes have."""
        formula = "" if self.epilogue is None else self.epilogue.text()
        return f"row product {self.operands} {formula}{' of one output' if self.single else ''}"

    def write(self, lines: Lines) -> None:
        """Write the work of one thread: its outputs, L at a time, for each of N rows."""
        v, w = lanes_of(lines), BLOCK.loaded(lines)
        S = w.tail().take(self.operands, "ptr")

        def group(i: Term) -> None:
            m = i * v.count
            mask = lanes_below(v, w.M - m)
            rows = _rows(w.W, m, w.M, w.K, v.count)
            bias = v.load_one(w.b) if self.single else v.load(w.b, m, mask)

            def one(n: Term) -> None:
                value = _dot(v, w.X.at(n * w.K), rows, w.K) + bias
                at = n * w.M + m
                others = [v.load(pointer, at, mask) for pointer in S]
                v.store(finished(v, self.epilogue, value, others), w.Y, at, mask)

            count_loop(lines, 0, w.N, one)

        count_loop(lines, *share(lines, w.M.pieces(v.count)), group)


def _rows(W: Term, m: Term, M: Term, K: Term, count: int) -> list[Term]:
    """Return the addresses of rows m, m + 1 ... of W; behind the last one it is repeated, for nobody to see."""
    end = M - 1
    return [W.at((m + i).at_most(end) * K) for i in range(count)]


def _dot(v: Vector, x: Term, rows: Sequence[Term], K: Term) -> Term:
    """Return a vector with the product of x and one row in each lane."""

    def step(k: Term, mask: Term | None, sums: Sequence[Term]) -> Sequence[Term]:
        values = v.load(x, k, mask)
        return [v.load(row, k, mask).fma(values, one) for row, one in zip(rows, sums, strict=True)]

    return fold_lanes(v, sweep(v, 0, K, step, [v.constant(0.0)] * len(rows)))


@native(FC, FUSED_FC, engine=ENGINE, batch_invariant=True, float32=True)
def prepare_fc(X: TensorSpec, W: TensorSpec, b: TensorSpec, Y: TensorSpec, op: OpView) -> Offered:
    """Compile Y = epilogue(X W^T + b, S ...)."""
    M = b.size
    if X.size == 0 or Y.size == 0:
        raise Unsupported("there is nothing to compute")
    N = Y.size // M
    if M == 1:
        return Offer(partial(_single_launch, op, W, N), estimate_ns=single_ns(W, N, _single_threads(W, N)))
    return Offer(partial(rows_launch, op, W, N, M), estimate_ns=rows_ns(W, N))


def rows_ns(W: TensorSpec, N: int) -> float:
    """Return what N rows take: the weights come by for each, where a library that keeps a part of them looks once."""
    return N * W.nbytes / machine().memory_bytes_per_ns


def single_ns(W: TensorSpec, N: int, threads: int) -> float:
    """Return what N rows take that have one output: they come by once, from the cache."""
    return N * W.nbytes / machine().cache_bytes_per_ns / threads


def _single_threads(W: TensorSpec, N: int) -> int:
    return threads_of(N * W.size, 2, 0, -(-N // lane_count()))


def _single_launch(op: OpView, W: TensorSpec, N: int) -> LaidOut:
    """Return the launch for N rows and one output."""
    return _launch(op, N, _single_threads(W, N), single=True, N=1, K=W.size, X=Slot("W"), W=Slot("X"))


def rows_launch(op: OpView, W: TensorSpec, N: int, M: int) -> LaidOut:
    """Return the launch for N rows and M outputs, with the epilogue of a fused operator."""
    threads = threads_of(W.size, 2, W.dtype.itemsize, -(-M // lane_count()))
    return _launch(op, M, threads, N=N, K=W.size // M)


def _launch(op: OpView, M: int, threads: int, *, single: bool = False, **words: Word) -> LaidOut:
    """Return the launch for N rows of X and M of W, of K elements each; of a single output these change places."""
    fused = "epilogue" in op.schema.args
    code = Code(epilogue_of(op) if fused else None, op.operands if fused else 0, single)
    if "b" not in op.input_letters:
        words["b"] = Constant(bytes(M * FLOAT.itemsize))
    block = BLOCK.words(threads=threads, M=M, **words) + tuple(Slot("S", i) for i in range(code.operands))
    launch = BlockLaunch(SOURCES.compiled(code.description, code.write), block)
    return LaidOut(launch, dict.fromkeys((*op.input_letters, *op.output_letters), ROW_MAJOR))
