"""Leaving the worst layers in float32 until a net of bytes is good enough."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from tazza.data_class import dataclass
from tazza.errors import NumericError
from tazza.interop.int8.calibrate import Batch, Told, nobody
from tazza.interop.int8.compare import Comparison, compare
from tazza.interop.int8.quantize import Calibrated, Quantized

Measure = Callable[[Quantized, Comparison], float]
"""What tells how good a net is: more is better. A percentage of right answers, say."""


@dataclass(frozen=True, slots=True)
class Mended:
    """Nets of bytes that are good enough, how they compare, what was measured, and the layers that were kept for it."""

    quantized: Quantized
    comparison: Comparison
    measured: float
    kept: tuple[str, ...]


def signal_db(small: Quantized, compared: Comparison) -> float:
    """Return the least ratio of signal to error of an output, in dB."""
    del small
    return compared.signal_db


def mend(
    calibrated: Calibrated,
    batches: Iterable[Batch],
    *,
    least: float,
    measure: Measure = signal_db,
    method: str = "min-max",
    weights: str = "channel",
    keep: Collection[str] = (),
    told: Told = nobody,
) -> Mended:
    """Return nets of bytes that measure at least `least`: the layer that adds most noise is kept, until they do.

    Args:
        calibrated: what was watched.
        batches: what to compare on; gone through once a round, so an iterable that can be gone through again.
        least: what `measure` has to give; in dB where that is not given.
        measure: how good a net is.
        method: of calibration.
        weights: how filters are scaled.
        keep: layers that stay float32 anyway.
        told: hears after each round how many layers are kept.

    Raises:
        NumericError: even with all layers in float32 it measures less.
        ArgumentError: as `Calibrated.quantized` and `compare`.
    """
    kept = list(dict.fromkeys(keep))
    while True:
        small = calibrated.quantized(method=method, weights=weights, keep=kept)
        compared = compare(small, batches)
        measured = measure(small, compared)
        if measured >= least:
            return Mended(small, compared, measured, tuple(kept))
        there = [row for row in compared.worst() if row.in_bytes and row.blob not in kept]
        if not there:
            raise NumericError(
                f"the net measures {measured:.4g} with every layer in float32, and {least:.4g} is wanted",
                hint="ask for less",
            )
        kept.append(there[0].blob)
        told(len(kept))
