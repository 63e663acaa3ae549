"""Recorded sequences of the genuine Caffe2: reading `tests/data/golden/sequences`, and doing the same here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import TazzaError
from tazza.proto import OperatorDef
from tazza.workspace import Workspace

FOLDER = Path(__file__).parent / "data" / "golden" / "sequences"


@dataclass(frozen=True)
class RecordedStep:
    """What was fed, the operator that ran, what blobs held behind it, and whether it raised."""

    feeds: dict[str, NDArray[Any]]
    definition: OperatorDef
    blobs: dict[str, NDArray[Any]]
    fails: bool


def names() -> list[str]:
    """Return the names of all sequences."""
    return sorted(path.stem for path in FOLDER.glob("*.npz"))


def ranks(name: str) -> int:
    """Return how many ranks have a sequence of their own, which run at once; 0 where there is one for all."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as stored:
        return len({key.split("/")[0] for key in stored.files if key.startswith("rank")})


def steps(name: str, rank: int | None = None) -> Iterator[RecordedStep]:
    """Yield the steps of a sequence, of one rank where each has its own."""
    within = "" if rank is None else f"rank{rank}/"
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as stored:
        every = {key.removeprefix(within): stored[key] for key in stored.files if key.startswith(within)}
        for at in sorted({key.split("/")[0] for key in every}):
            parts = {key.removeprefix(f"{at}/"): value for key, value in every.items() if key.startswith(f"{at}/")}
            feeds = {key.removeprefix("feed/"): _text(parts.pop(key)) for key in list(parts) if key.startswith("feed/")}
            definition = OperatorDef.FromString(parts.pop("op").tobytes())
            fails = parts.pop("fails", None) is not None
            yield RecordedStep(feeds, definition, {key: _text(value) for key, value in parts.items()}, fails)


def replay(name: str, rank: int | None = None) -> int:
    """Run a sequence here and assert that each step leaves what it left there; returns the number of steps."""
    workspace = Workspace()
    count = 0
    for count, step in enumerate(steps(name, rank), 1):
        for blob, value in step.feeds.items():
            workspace.feed(blob, value.item() if value.dtype == object and value.ndim == 0 else value)
        if step.fails:
            with pytest.raises(TazzaError):
                workspace.run_operator(step.definition)
            continue
        workspace.run_operator(step.definition)
        for blob, wanted in step.blobs.items():
            _compare(f"step {count}, {step.definition.type}: {blob!r}", workspace.fetch(blob), wanted)
    return count


def _compare(where: str, found: Any, wanted: NDArray[Any]) -> None:
    if isinstance(found, bytes):
        assert wanted.item() == found, where
        return
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), where
    np.testing.assert_array_equal(found, wanted, err_msg=where)


def _text(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(object) if array.dtype.kind == "S" else array
