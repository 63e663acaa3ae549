"""Random nets for tests of net types: any operator may read and write any blob, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.nets import NetBase
from tazza.operator import operator_def
from tazza.proto import DeviceOption, NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.nets.simulated import SHAPE, mix

BLOBS = ("a", "b", "c", "d", "e", "f")
DRAWN = ("r", "s")
PARALLEL = ("dag", "async_dag", "async_scheduling", "async_polling", "parallel")
WORKERS = (1, 2, 4)

Values = dict[str, NDArray[np.int64]]


@st.composite
def operators(draw: st.DrawFn, *, draws: bool = True) -> list[OperatorDef]:
    """Draw operators in order: in place, with several outputs, random fills, control inputs, on three devices."""
    made: list[OperatorDef] = []
    for number in range(draw(st.integers(2, 14))):
        if draws and draw(st.integers(0, 7)) == 0:
            made.append(_fill(draw(st.sampled_from(DRAWN)), number))
            continue
        outputs = draw(st.lists(st.sampled_from(BLOBS), min_size=1, max_size=2, unique=True))
        readable = [name for name in (*BLOBS, *(DRAWN if draws else ())) if name not in outputs]
        inputs = draw(st.lists(st.sampled_from(readable), max_size=3))
        if draw(st.booleans()):
            inputs = [outputs[0], *inputs]
        device = draw(st.sampled_from([None, None, None, 0, 0, 1]))
        host = device is None and draw(st.integers(0, 5)) == 0
        control = draw(st.lists(st.sampled_from(BLOBS), max_size=1))
        copies = device is not None and draw(st.booleans())
        made.append(mix(f"op{number}", inputs, outputs, device=device, host=host, copies=copies, control=control))
    return made


def _fill(name: str, number: int) -> OperatorDef:
    seeded = DeviceOption(random_seed=number)
    return operator_def("UniformIntFill", [], [name], device=seeded, shape=list(SHAPE), min=-99, max=99)


@dataclass
class Subject:
    """A net under test with its workspace."""

    ws: Workspace
    net: NetBase

    def feed(self, seed: int) -> None:
        """Give every blob a value."""
        random = np.random.default_rng(seed)
        for name in (*BLOBS, *DRAWN):
            self.ws.feed(name, random.integers(-99, 99, SHAPE, np.int32 if name in DRAWN else np.int64))

    def values(self) -> Values:
        """Return copies of what the blobs hold now, without asking any device to end its work."""
        return {name: self.ws.blob(name).tensor().plain().astype(np.int64) for name in (*BLOBS, *DRAWN)}


def subject(ops: Sequence[OperatorDef], type: str, workers: int = 0, name: str = "dag") -> Subject:
    """Return a net of these operators in a new workspace, with blobs fed."""
    ws = Workspace()
    made = Subject(ws, None)  # pyright: ignore[reportArgumentType] -- the net needs the blobs first
    made.feed(0)
    made.net = ws.create_net(NetDef(name=name, type=type, num_workers=workers, op=ops))
    return made


def reference(ops: Sequence[OperatorDef]) -> Subject:
    """Return a `simple` net of these operators, all on the CPU."""
    there: list[OperatorDef] = []
    for op in ops:
        moved = OperatorDef()
        moved.CopyFrom(op)
        moved.device_option.device_type = 0
        there.append(moved)
    return subject(there, "simple")


def assert_same(found: Values, expected: Values) -> None:
    """Check that all blobs are the same to the last bit."""
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
