"""The engine `native/winograd`: 3 x 3 and 5 x 5 convolutions of stride 1 with 2 to 6 times fewer multiplications.

It computes in float32 on channels-last images, by code of its own that fuses both transforms, the products, bias and
epilogue (see `code`), where a model of its time says that it beats the direct algorithm (`tiling`), or where an
operator names it. Results differ from the direct algorithm's by rounding: a few millionths of the largest output.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy.typing as npt

from tazza.codegen.kernel import Sources, unavailable
from tazza.operator import engine
from tazza.tensor import REORDERS, Tensor
from tazza.tensor.residue import ABOUT, Parts

SOURCES = Sources(Path(__file__).parent)
WINOGRAD = engine(
    "native/winograd",
    "convolutions by Winograd's algorithm, compiled",
    priority=25,
    unavailable=unavailable,
    version=SOURCES.version,
    selective=True,
)


@REORDERS.registering("native/winograd", help="filters by what they are about, and a residue")
def _unpacked(tensor: Tensor) -> npt.NDArray[Any]:
    return import_module(f"{__name__}.filters").unpacked(tensor)


@ABOUT.registering("native/winograd", help="filters by the matrices of r x r points")
def _about(tensor: Tensor) -> Parts:
    return import_module(f"{__name__}.filters").filters_about(tensor)
