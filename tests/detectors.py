"""Detectors that were recorded whole (`tools/record_detection.py`): their nets, what was fed, what Caffe2 left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tazza.proto import NetDef
from tazza.proto.message import read_message
from tests.drawn_weights import from_text
from tests.recorded_nets import Blobs

FOLDER = Path(__file__).parent / "data" / "detection"
DETECTORS = sorted(path.stem for path in FOLDER.glob("*.npz"))
CLOSE = 1e-4
"""How far numbers may be off, of the largest: there are up to ninety layers between them and the image."""


@dataclass(frozen=True, eq=False)
class Detector:
    """A net, all that it takes, and what was found of it."""

    net: NetDef
    fed: Blobs
    left: Blobs

    def check(self, found: Blobs) -> None:
        """Assert that blobs are those that were recorded: the same boxes, in the same order."""
        for name, value in found.items():
            wanted = self.left[name]
            assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype), name
            span = float(np.abs(wanted).max(initial=1))
            np.testing.assert_allclose(value, wanted, rtol=0, atol=CLOSE * span, err_msg=name)


@cache
def detector(name: str) -> Detector:
    """Return a recording; weights are drawn anew."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as stored:
        parts = {key: stored[key] for key in stored.files}
    fed, left = (
        {key.removeprefix(start): value for key, value in parts.items() if key.startswith(start)}
        for start in ("in/", "out/")
    )
    net = read_message(FOLDER / f"{parts['net']}.pbtxt", NetDef)
    return Detector(net, {**from_text(str(parts["weights"])), **fed}, left)
