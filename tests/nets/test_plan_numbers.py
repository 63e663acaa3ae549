"""Numbers that operators read from inputs (sizes, indices, places): whatever they are, the outcome is a typed one.

What depends on them is checked while shapes are inferred, where the numbers are known. In a plan they are not: there
the kernel itself meets what does not fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import KernelError, TazzaError
from tazza.operator import SCHEMAS
from tazza.proto import NetDef
from tazza.testing.value import Value, changed, data_of
from tazza.workspace import Workspace
from tests import golden
from tests.sampled import sampled

RECORDINGS = 2
TYPES = [type for type in golden.operators() if type in SCHEMAS]


def changes(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield arrays of the same type and extents, with other numbers."""
    yield array
    yield array[::-1].copy() if array.ndim else array
    for value in (0, 1, 2, -1, 7, np.iinfo(array.dtype).max, np.iinfo(array.dtype).min):
        yield np.full_like(array, value)


class Prepared:
    """A net of one operator that has run with recorded inputs; it serves for many numbers, since making it is dear."""

    def __init__(self, recording: golden.Recording, net_type: str) -> None:
        """Make nothing yet."""
        self._recording = recording
        self._net = NetDef(name="n", op=[recording.definition], type=net_type)
        self._home: Workspace | None = None

    def outcome(self, inputs: Sequence[Value]) -> str:
        """Run with the recorded inputs and then with others; return the class of the error, or nothing."""
        try:
            home = self._prepared()
            self._feed(home, inputs)
            home.run_net(self._net.name)
        except KernelError as error:
            return f"KernelError: {error}"
        except TazzaError as error:
            return type(error).__name__
        return ""

    def _prepared(self) -> Workspace:
        """Return the workspace of the net as it was, or of a new one where that does not run any more."""
        if self._home is not None:
            with suppress(TazzaError):
                self._feed(self._home, self._recording.inputs)
                self._home.run_net(self._net.name)
                return self._home
        home, self._home = Workspace(), None
        self._feed(home, self._recording.inputs)
        home.create_net(self._net).run()
        self._home = home
        return home

    def _feed(self, home: Workspace, inputs: Sequence[Value]) -> None:
        for name, value in zip(self._recording.definition.input, inputs, strict=True):
            home.feed(name, value)


@pytest.mark.parametrize("type", sampled(TYPES))
def test_whatever_the_numbers_are(type: str) -> None:
    wrong: dict[str, str] = {}
    for recording in itertools.islice(golden.recordings(type), RECORDINGS):
        if any(data_of(value).dtype == object for value in recording.inputs):
            continue
        nets = {net_type: Prepared(recording, net_type) for net_type in ("simple", "plan")}
        for position, value in enumerate(recording.inputs):
            array = data_of(value)
            if array.dtype.kind != "i" or array.size == 0:
                continue
            for made in changes(array):
                inputs = list(recording.inputs)
                inputs[position] = changed(value, lambda _, made=made: made)
                for net_type, net in nets.items():
                    told = net.outcome(inputs)
                    if told.startswith("KernelError"):
                        wrong[f"input {position} {net_type}"] = f"{made.ravel()[:4]} {told[:300]}"
    assert wrong == {}
