"""`init_net` and `predict_net` of a model as bytes, from the files beside; `models.download` leaves a copy of this."""

from __future__ import annotations

from pathlib import Path

from tazza.runtime.files import read_bytes

BYTES_MAX = 1 << 31
"""A message is no longer."""


def __getattr__(name: str) -> bytes:
    """Return a net as it lies in its file."""
    if name not in {"init_net", "predict_net"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return read_bytes(Path(__file__).with_name(f"{name}.pb"), "net", BYTES_MAX)
