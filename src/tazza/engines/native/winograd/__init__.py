"""The engine `native/winograd`: 3 x 3 and 5 x 5 convolutions of stride 1 with 2 to 6 times fewer multiplications.

It computes in float32 on channels-last images, by code of its own that fuses both transforms, the products, bias and
epilogue (see `code`), where a model of its time says that it beats the direct algorithm (`tiling`), or where an
operator names it. Results differ from the direct algorithm's by rounding: a few millionths of the largest output.
"""

from __future__ import annotations

from pathlib import Path

from tazza.codegen.kernel import Sources, unavailable
from tazza.operator import engine
from tazza.tensor import refuse_plain

SOURCES = Sources(Path(__file__).parent)
WINOGRAD = engine(
    "native/winograd",
    "convolutions by Winograd's algorithm, compiled",
    priority=25,
    unavailable=unavailable,
    version=SOURCES.version,
    selective=True,
)
refuse_plain(
    "native/winograd",
    "transformed for Winograd's algorithm",
    help="refuses: filters do not come back unrounded, and the originals are kept",
)
