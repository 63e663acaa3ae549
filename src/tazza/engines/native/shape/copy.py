"""Copy, CopyOnDeviceLike, StopGradient: the bytes of X as they lie."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch, Constant, Slot, accepts_dense
from tazza.codegen.fields import Fields
from tazza.codegen.formula_plan import dense
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import share
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES, native
from tazza.operator import LaidOut
from tazza.ops.shape.copy import COPY, COPY_ON_DEVICE_LIKE, STOP_GRADIENT
from tazza.tensor import ROW_MAJOR, Opaque, TensorSpec

BLOCK = Fields("threads nbytes constant_bytes", addresses="X:i8 Y:i8 constant target")
"""The constant goes to the target, all at once."""
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
    words = BLOCK.words(
        **{"threads": threads_of(nbytes, 0, 2), "nbytes": nbytes},
        **{"constant": Constant(constant), "constant_bytes": len(constant), "target": slot},
    )
    return BlockLaunch(SOURCES.compiled("copy", _copy, _finish), words)


def _copy(lines: Lines) -> None:
    at = BLOCK.lazily(lines)
    begin, end = share(lines, at.nbytes, UNIT)
    source, target = (pointer.at(begin) for pointer in (at.X, at.Y))
    _move(lines, target, source, end - begin)


def _move(lines: Lines, target: Term, source: Term, nbytes: Term) -> None:
    """Copy bytes; in place both are one address, which is allowed for memmove."""
    lines.call_for_effect("llvm.memmove.p0.p0.i64", target, source, nbytes, lines.number(False, "i1"))


def _finish(lines: Lines) -> None:
    at = BLOCK.lazily(lines)
    _move(lines, at.target, at.constant, at.constant_bytes)
    lines.do("ret i64 0")
