"""Nets of bytes out of float32 nets that predict: what the numbers of a net range over, and its operators on bytes.

    init_net, predict_net = quantize_nets(init_net, predict_net, batches, method="entropy")

Steps, a file each: `unfold` gives every value a name of its own and folds batch normalization into convolutions,
`calibrate` runs the net and counts its numbers (`histogram`), `method` makes ranges of that, `rewrite` puts an operator
on bytes in the place of each that has one (`rules`). `compare` tells what each layer lost, `mend` leaves the worst ones
in float32 until little enough is lost, and `examples` brings batches from files and databases.
"""

from __future__ import annotations

from tazza.interop.int8 import rules
from tazza.interop.int8.calibrate import Batch, calibrate
from tazza.interop.int8.compare import Comparison, Row, compare, draw_comparison
from tazza.interop.int8.examples import Examples, array_batches, file_examples
from tazza.interop.int8.histogram import Histogram
from tazza.interop.int8.mend import Mended, mend
from tazza.interop.int8.method import METHODS, Range
from tazza.interop.int8.quantize import Calibrated, Quantized, quantize_nets, watch_nets
from tazza.interop.int8.rewrite import BYTES, WEIGHTS

__all__ = [
    "BYTES",
    "METHODS",
    "WEIGHTS",
    "Batch",
    "Calibrated",
    "Comparison",
    "Examples",
    "Histogram",
    "Mended",
    "Quantized",
    "Range",
    "Row",
    "array_batches",
    "calibrate",
    "compare",
    "draw_comparison",
    "file_examples",
    "mend",
    "quantize_nets",
    "rules",
    "watch_nets",
]
