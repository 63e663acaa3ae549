"""The engine `native/row_product`: fully connected layers for one row, also as convolutions, at the speed of memory.

Libraries made for matrices pack the weights anew, or wake all threads for little work. A product of one row with a
matrix reads each weight once, so it is written for that: as W lies, several rows of it at a time.
"""

from __future__ import annotations

from pathlib import Path

from tazza.codegen.kernel import Sources, unavailable
from tazza.operator import engine

SOURCES = Sources(Path(__file__).parent)
ROW_PRODUCT = engine(
    "native/row_product",
    "products of a matrix with few rows, compiled",
    priority=25,
    unavailable=unavailable,
    version=SOURCES.version,
    selective=True,
)
