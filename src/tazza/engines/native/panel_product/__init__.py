"""The engine `native/panel_product`: products of some rows with weights that are packed once, and what stands behind.

Steps of recurrent nets multiply a few rows with the same large weights again and again. These stay in no cache of a
core, so they are read panel by panel, each while the one before it is computed (see `code`).
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tazza.codegen.kernel import Sources, unavailable
from tazza.operator import Array, engine
from tazza.tensor import REORDERS, Tensor
from tazza.tensor.residue import ABOUT, Parts

SOURCES = Sources(Path(__file__).parent)
PANEL_PRODUCT = engine(
    "native/panel_product",
    "products of some rows with packed weights, compiled",
    priority=24,
    unavailable=unavailable,
    version=SOURCES.version,
    selective=True,
)


@REORDERS.registering("native/panel_product", help="rows out of panels")
def _plain(tensor: Tensor) -> Array:
    return import_module(f"{__name__}.panels").unpacked(tensor)


@ABOUT.registering("native/panel_product", help="sums of pieces")
def _about(tensor: Tensor) -> Parts:
    return import_module(f"{__name__}.panels").weights_about(tensor)
