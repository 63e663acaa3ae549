"""Calls that `record_unlike` records: second names, rows that are chosen or overwritten, checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.record_golden import Call, signed
from tools.unlike_extents import FLAT, SOLID


def handed() -> list[tuple[str, list[Call]]]:
    """What is handed on as it is, looked at, or chosen."""
    whole = np.arange(28).reshape(FLAT)
    picks = [np.array([True, False]), np.array([False, True, True, False])]
    at, rows = [np.array([2, 0, 2]), np.array([3])], [signed(5), np.arange(7)]
    tables = [signed(4, 5), whole]
    return [
        ("AliasWithName", [Call({"X": x}, ["Y"], {"arg": [_named("kept")]}) for x in (signed(*SOLID), whole)]),
        ("IsEmpty", [Call({"X": x}, ["Y"], {}) for x in (whole, np.zeros((3, 0, 2), "f"))]),
        ("NanCheck", [Call({"X": signed(*SOLID), "Z": whole}, ["Y"], {}), Call({"X": signed(*FLAT)}, ["X"], {})]),
        ("AsyncNetBarrier", [Call({"X": signed(*SOLID), "Z": whole}, ["X", "Z"], {}), Call({"X": whole}, ["X"], {})]),
        (
            "Conditional",
            [
                Call({"C": picks[0], "T": signed(*SOLID), "F": signed(*SOLID, seed=1)}, ["Y"], {}),
                Call({"C": picks[1], "T": whole, "F": -whole}, ["Y"], {}),
            ],
        ),
        (
            "CopyRowsToTensor",
            [Call({"X": tables[k], "i": at[k], "row": rows[k]}, ["X"], {}) for k in range(2)],
        ),
        ("CopyRowsToTensorGradient", [Call({"dY": x}, ["dY"], {}) for x in tables]),
    ]


def _named(name: str) -> Any:
    from caffe2.python.utils import MakeArgument  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    return MakeArgument("name", name)
