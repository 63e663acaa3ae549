"""Batch normalization that trains, and its gradient, with what rewriting put behind them: on channels-last images.

Letters as in `code`. SpatialBN and SpatialBNGradient are taken where the channels of X lie innermost already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows
from tazza.codegen.image import accepts_images, image_layout, lies_as
from tazza.codegen.kernel import lane_count, threads_of
from tazza.data_class import dataclass
from tazza.engines.native import native
from tazza.engines.native.channels_last import SOURCES
from tazza.engines.native.channels_last.code import BACKWARD, FORWARD, SUMMED, Backward, Forward, scratch_floats
from tazza.operator import LaidOut, OpView, Spec, Unsupported, kernel_key
from tazza.operator.choice import EPILOGUES
from tazza.operator.kernel import Offered
from tazza.ops.nn.batch_norm import SPATIAL_BN, SPATIAL_BN_GRADIENT
from tazza.ops.nn.fused import FUSED_SPATIAL_BN, epilogue_of
from tazza.ops.nn.fused_batch_norm import FUSED_SPATIAL_BN_GRADIENT, prologue_of
from tazza.runtime.machine import machine
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec
from tazza.tensor.expression import Expression
from tazza.tensor.offer import Offer

ENGINE = "native/channels_last"
IMAGES = ("X", "Y", "S", "dY", "dX")
PASSES = {SPATIAL_BN.type: 3, SPATIAL_BN_GRADIENT.type: 5}
"""How often it goes over X."""
COPIES = 4
"""What it takes besides where images lie otherwise: each is read and written once to lie so."""
MOST_CHUNKS, LEAST_ROWS = 192, 32
"""Sums of chunks take memory, and few rows make many of them."""


@dataclass(frozen=True, slots=True)
class Rows:
    """An image as rows of `width` floats, each of which has `folds` pixels of C channels; and in chunks of rows."""

    pixels: int
    channels: int

    @property
    def folds(self) -> int:
        """How many pixels make rows of whole vectors, or 1."""
        lanes = lane_count()
        found = lanes // math.gcd(self.channels, lanes)
        return found if self.pixels % found == 0 else 1

    @property
    def width(self) -> int:
        """Floats of a row."""
        return self.channels * self.folds

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.pixels // self.folds

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk."""
        wanted = max(LEAST_ROWS, -(-self.count // MOST_CHUNKS))
        return -(-wanted // SUMMED) * SUMMED

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-self.count // self.chunk_rows)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory."""
        return 4 * scratch_floats(self.width, self.chunks)

    def words(self, flops: int, nbytes: int) -> dict[str, int]:
        """Return the counts in the block, for so many operations on, and bytes of, one element of X."""
        threads = threads_of(self.pixels * self.channels, flops, nbytes, self.chunks)
        return {
            **{"threads": threads, "rows": self.count, "width": self.width, "channels": self.channels},
            **{"folds": self.folds, "chunk_rows": self.chunk_rows, "chunks": self.chunks, "n": self.pixels},
        }


def _accepts(letter: str, spec: Spec) -> bool:
    """Take images that are strided, and vectors without gaps."""
    return accepts_images(letter, spec) if letter in IMAGES else accepts_rows(letter, spec)


def _image(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[Rows, Layout]:
    """Return X as rows, and the layout of it and of all that have its shape; or why the operator is not taken."""
    X = specs["X"]
    if X.size == 0 or op.is_test or op.num_batches > 1:
        raise Unsupported("it takes the statistics of one batch that is not empty")
    last = op.order.upper() == "NHWC"
    layout = image_layout(X, last)
    for letter, name in zip(op.output_letters, op.definition.output, strict=True):
        wanted = layout if letter in IMAGES else ROW_MAJOR
        if name in op.definition.input and not lies_as(specs[letter], wanted):
            raise Unsupported(f"{letter} = {name!r} overwrites an input that lies otherwise: {specs[letter]}")
    C = X.shape[-1 if last else 1]
    return Rows(X.size // C, C), layout


def _offer(op: OpView, specs: Mapping[str, TensorSpec], make: Callable[[OpView, Rows, Layout], LaidOut]) -> Offered:
    """Offer what a library does as well on X as it lies; what is fused only this engine does."""
    found = _image(op, specs)
    X, passes = specs["X"], PASSES.get(op.type)
    if passes is None:
        return Offer(partial(make, op, *found))
    copies = 0 if lies_as(X, found[1]) else COPIES
    return Offer(partial(make, op, *found), estimate_ns=(passes + copies) * X.nbytes / machine().memory_bytes_per_ns)


@native(SPATIAL_BN, FUSED_SPATIAL_BN, engine=ENGINE, accepts=_accepts, float32=True)
def prepare_forward(op: OpView, specs: Mapping[str, TensorSpec]) -> Offered:
    """Y, the running and the saved pair; with an epilogue where one is fused."""
    return _offer(op, specs, _forward)


def _forward(op: OpView, rows: Rows, layout: Layout) -> LaidOut:
    epilogue, operands = (epilogue_of(op), op.operands) if op.type not in PASSES else (None, 0)
    code = Forward(epilogue, operands)
    words = FORWARD.words(**rows.words(8, 12 + 4 * operands), epsilon=op.epsilon, momentum=op.momentum)
    words += tuple(Slot("S", k) for k in range(operands))
    launch = BlockLaunch(SOURCES.compiled(code.description, code.write), words, rows.scratch_bytes)
    return LaidOut(launch, dict.fromkeys(("X", "Y", "S") if operands else ("X", "Y"), layout))


@native(SPATIAL_BN_GRADIENT, FUSED_SPATIAL_BN_GRADIENT, engine=ENGINE, accepts=_accepts, float32=True)
def prepare_backward(op: OpView, specs: Mapping[str, TensorSpec]) -> Offered:
    """The gradients; with a prologue where one is fused."""
    return _offer(op, specs, _backward)


def _backward(op: OpView, rows: Rows, layout: Layout) -> LaidOut:
    prologue = None if op.type in PASSES else prologue_of(op)
    code = Backward(prologue)
    words = BACKWARD.words(**rows.words(12, 20), **({"bias": 0} if prologue is None else {}))
    launch = BlockLaunch(SOURCES.compiled(code.description, code.write), words, rows.scratch_bytes)
    return LaidOut(launch, dict.fromkeys(("X", "dY", "dX"), layout))


def _any_formula(formula: Expression) -> bool:
    """Whether a formula can be computed: as vectors of float32 all can."""
    del formula
    return True


for _type in (FUSED_SPATIAL_BN.type, FUSED_SPATIAL_BN_GRADIENT.type):
    EPILOGUES.register(kernel_key(_type, ENGINE), _any_formula, help="any formula")
