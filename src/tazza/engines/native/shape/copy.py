"""Copy, CopyOnDeviceLike, StopGradient: the bytes of X as they lie."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch, Constant, Slot, accepts_dense
from tazza.codegen.emit import Lines
from tazza.codegen.formula_plan import dense
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import share
from tazza.engines.native import SOURCES, native
from tazza.operator import LaidOut
from tazza.ops.shape.copy import COPY, COPY_ON_DEVICE_LIKE, STOP_GRADIENT
from tazza.tensor import ROW_MAJOR, Opaque, TensorSpec

UNIT = 64
"""Borders between threads lie at multiples of this many bytes."""


@native(COPY, COPY_ON_DEVICE_LIKE, STOP_GRADIENT, accepts=accepts_dense)
def prepare_copy(X: TensorSpec) -> LaidOut:
    """Copy in the layout of X, if that has no gaps."""
    layout = X.layout if dense(X) else ROW_MAJOR
    return LaidOut(copy_launch(X), {"X": layout, "Y": layout})


def copy_launch(X: TensorSpec, *, also: tuple[Slot, bytes] = (Slot("Y"), b"")) -> BlockLaunch:
    """Return the launch that copies the bytes of X to Y, and a few bytes of our own to another output."""
    nbytes = X.layout.nbytes if isinstance(X.layout, Opaque) else X.nbytes
    slot, constant = also
    threads = threads_of(nbytes, 0, 2)
    words = (threads, nbytes, len(constant), Slot("X"), Slot("Y"), Constant(constant), slot)
    return BlockLaunch(SOURCES.compiled("copy", _copy, _finish), words)


def _copy(lines: Lines) -> None:
    begin, end = share(lines, lines.load_word("%block", 1), UNIT)
    # In place both are one address; that is allowed for memmove.
    source, target = (
        lines.let(f"getelementptr i8, ptr {lines.load_pointer('%block', i)}, i64 {begin}") for i in (3, 4)
    )
    lines.declare("void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
    size = lines.let(f"sub i64 {end}, {begin}")
    lines.do(f"call void @llvm.memmove.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")


def _finish(lines: Lines) -> None:
    constant, target = (lines.load_pointer("%block", i) for i in (5, 6))
    lines.declare("void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
    size = lines.load_word("%block", 2)
    lines.do(f"call void @llvm.memmove.p0.p0.i64(ptr {target}, ptr {constant}, i64 {size}, i1 false)")
    lines.do("ret i64 0")
