"""Nets that were recorded as a whole, with what genuine Caffe2 left of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.proto import NetDef

Blobs = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Recorded:
    """One recorded net: all operators, how many of them are the forward pass, the targets, what came in and out."""

    net: NetDef
    forward: int
    targets: list[str]
    fed: Blobs
    left: Blobs


def read_recorded(path: Path) -> Recorded:
    """Return a recording."""
    with np.load(path, allow_pickle=False) as stored:
        parts = {key: stored[key] for key in stored.files}
    fed, left = (
        {key.removeprefix(start): value for key, value in parts.items() if key.startswith(start)}
        for start in ("in/", "out/")
    )
    targets = [target.decode() for target in parts["targets"].tolist()]
    return Recorded(NetDef.FromString(parts["net"].tobytes()), int(parts["forward"]), targets, fed, left)
