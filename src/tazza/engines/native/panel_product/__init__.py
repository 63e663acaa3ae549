"""The engine `native/panel_product`: products of some rows with weights that are packed once, and what stands behind.

Steps of recurrent nets multiply a few rows with the same large weights again and again. These stay in no cache of a
core, so they are read panel by panel, each while the one before it is computed (see `code`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tazza.codegen.kernel import Sources, unavailable
from tazza.errors import UnsupportedError
from tazza.operator import engine
from tazza.tensor import REORDERS, Tensor

SOURCES = Sources(Path(__file__).parent)
PANEL_PRODUCT = engine(
    "native/panel_product",
    "products of some rows with packed weights, compiled",
    priority=24,
    unavailable=unavailable,
    version=SOURCES.version,
    selective=True,
)


def _plain(tensor: Tensor) -> NDArray[Any]:
    raise UnsupportedError(
        f"{tensor.spec} has been packed for the engine native/panel_product", hint="look at the blob of W"
    )


REORDERS.register("native/panel_product", _plain, help="refuses: the originals of packed weights are kept")
