"""The engine `native/few_channels`: convolutions of images with few channels, at the speed of wide ones.

Nets begin with them. Libraries share the channels of an image among the lanes of a vector, and one or three of them
leave most lanes empty. Here lanes are output channels, and each number of a window is multiplied with a vector of
filters (see `code`). An image is read as it lies, channels first or last.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tazza.codegen.kernel import Sources, unavailable
from tazza.operator import Array, engine
from tazza.tensor import REORDERS, Tensor

SOURCES = Sources(Path(__file__).parent)
FEW_CHANNELS = engine(
    "native/few_channels",
    "convolutions of images with few channels, compiled",
    priority=26,
    unavailable=unavailable,
    version=SOURCES.version,
    selective=True,
)


@REORDERS.registering("native/few_channels", help="filters out of panels")
def _plain(tensor: Tensor) -> Array:
    return import_module(f"{__name__}.filters").unpacked(tensor)
