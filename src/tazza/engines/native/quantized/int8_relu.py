"""Int8LeakyRelu: what each of the 256 bytes becomes, looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import BlockLaunch, Constant, Slot, accepts_rows
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import count_loop, share
from tazza.codegen.rows import element
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.operator import Launch, OpView, Spec, launcher
from tazza.ops.quantized.int8_relu import INT8_LEAKY_RELU, int8_leaky_relu
from tazza.runtime.threads import thread_count
from tazza.tensor import PerTensor, TensorSpec

UNIT = 64
"""Borders between threads lie at multiples of this many bytes."""
LOOKUP_FLOPS = 5


@launcher(INT8_LEAKY_RELU, engine="native", accepts=accepts_rows)
def prepare_int8_leaky_relu(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    """Compute the table by the definition, and look every byte up."""
    del context
    X, Y = cast("TensorSpec", inputs[0]), cast("TensorSpec", outputs[0])
    octets = np.arange(256, dtype=np.uint8)
    table = np.empty_like(octets)
    meanings = {letter: cast("PerTensor", spec.quantization) for letter, spec in (("X", X), ("Y", Y))}
    int8_leaky_relu(op, octets, table, meanings)
    words = (threads_for(thread_count(), X.size, LOOKUP_FLOPS, 2), X.size, Slot("X"), Slot("Y"))
    return BlockLaunch(SOURCES.compiled("table of bytes", _look_up), (*words, Constant(table.tobytes())))


def _look_up(lines: Lines) -> None:
    begin, end = share(lines, lines.load_word("%block", 1), UNIT)
    X, Y, table = (lines.load_pointer("%block", i) for i in (2, 3, 4))

    def each(i: str) -> None:
        q = lines.let(f"load i8, ptr {element(lines, X, i, 'i8')}")
        found = lines.let(f"load i8, ptr {element(lines, table, lines.let(f'zext i8 {q} to i64'), 'i8')}")
        lines.do(f"store i8 {found}, ptr {element(lines, Y, i, 'i8')}")

    count_loop(lines, begin, end, each)
