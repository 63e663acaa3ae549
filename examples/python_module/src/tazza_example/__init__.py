"""What a package may add to tazza: importing it registers an operator, a kernel, a transform and a type of database."""

from tazza_example import blocks, lines, scale_chain, squared_relu
from tazza_example.finite import FiniteObserver, NotFinite, watch_finite

__all__ = ["FiniteObserver", "NotFinite", "blocks", "lines", "scale_chain", "squared_relu", "watch_finite"]
