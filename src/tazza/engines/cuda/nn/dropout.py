"""Dropout: the mask is drawn on the host, with the numbers of the CPU, and copied; elements are made on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from tazza.codegen.block import Word, float_word
from tazza.codegen.term import Term
from tazza.data_class import dataclass
from tazza.engines.cuda.shape.reshape import RegroupLaunch
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.operator import FLOAT, HALVES, Call, CallChain, Launch, Operands, OpView, Unsupported
from tazza.ops.nn.dropout import DROPOUT
from tazza.tensor import DataType, PinnedPlace, Tensor, TensorSpec


@dataclass(frozen=True, slots=True)
class DropoutLaunch:
    """Draws, copies, and multiplies: with `kept` 1 everything is, and nothing is drawn."""

    elements: Launch
    kept: float
    capturable: bool = False

    @property
    def scratch_bytes(self) -> int:
        """What elements need."""
        return self.elements.scratch_bytes

    def bind(self, operands: Operands) -> Call:
        """Return all of it; memory that is copied from is new each time, for nobody waits until it is."""
        mask, context, kept = operands.tensors.get("mask"), operands.context, self.kept
        calls: list[Callable[[], object]] = []
        if mask is not None:
            shown = cast("Tensor", mask)

            def draw() -> None:
                drawn = Tensor(shown.shape, shown.dtype, PinnedPlace())
                flat = drawn.numpy().reshape(-1)
                flat[...] = True if kept == 1 else operands.random().bernoulli(flat.size, kept)
                if flat.size:
                    context.copy(drawn, shown)

            calls.append(draw)
        return CallChain((*calls, self.elements.bind(operands)))


@translated(DROPOUT)
def dropout(op: OpView, X: TensorSpec) -> Launch:
    """Compile the product with the mask; a test copies X."""
    if X.dtype not in FLOAT | HALVES:
        raise Unsupported(f"it computes in float32, not {X.dtype.label}")
    if op.is_test:
        return DropoutLaunch(RegroupLaunch(), 1.0)
    scale = np.float32(1) / (np.float32(1) - np.float32(op.ratio))

    def write(t: Threads, i: Term) -> None:
        factor = t.real("scale").to("float")
        mask = t.load("mask", i, DataType.BOOL)
        t.store("Y", i, t.load("X", i, X.dtype) * (mask * factor), X.dtype)

    words: dict[str, Word] = {"scale": float_word(float(scale)), **addresses("X", "mask", "Y")}
    return DropoutLaunch(each_launch(f"dropout {X.dtype.label}", X.size, words, write), 1 - op.ratio)
