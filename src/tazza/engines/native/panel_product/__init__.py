"""The engine `native/panel_product`: products of some rows with weights that are packed once, and what stands behind.

Steps of recurrent nets multiply a few rows with the same large weights again and again. These stay in no cache of a
core, so they are read panel by panel, each while the one before it is computed (see `code`).
"""

from __future__ import annotations

from pathlib import Path

from tazza.codegen.kernel import Sources, unavailable
from tazza.operator import engine
from tazza.tensor import refuse_plain

SOURCES = Sources(Path(__file__).parent)
PANEL_PRODUCT = engine(
    "native/panel_product",
    "products of some rows with packed weights, compiled",
    priority=24,
    unavailable=unavailable,
    version=SOURCES.version,
    selective=True,
)
refuse_plain(
    "native/panel_product",
    "packed for the engine native/panel_product",
    help="refuses: the originals of packed weights are kept",
)
