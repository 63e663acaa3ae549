"""The twister of compiled kernels: NumPy's outputs, wherever it stands, and the state that it leaves."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tazza.codegen.kernel import OWN, unavailable
from tazza.codegen.loop import count_loop
from tazza.codegen.term import Lines, Term
from tazza.codegen.twister import CHUNK, SCRATCH_BYTES, Twister
from tazza.device import Generator
from tests.launching import pointer_at, word_at

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


def outputs(generator: Generator, count: int) -> np.ndarray:
    """Draw outputs by a kernel."""

    def work(lines: Lines) -> None:
        state, scratch, target = (pointer_at(lines, i) for i in (1, 2, 3))
        wanted = word_at(lines, 4)
        twister = Twister.at(lines, state, scratch)
        twister.draw(wanted)

        def one(i: Term) -> None:
            target.of("i32")[i] = twister.outputs[i]

        count_loop(lines, 0, wanted, one)
        twister.end()

    found, scratch = np.zeros(count, np.uint32), np.zeros(SCRATCH_BYTES, np.uint8)
    block = np.array([1, generator.twister_address, scratch.ctypes.data, found.ctypes.data, count], np.int64)
    ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)(OWN.compiled("twister", work))(block.ctypes.data, 0, 0, 0)
    return found


def test_outputs_in_pieces() -> None:
    here, there = Generator(7), Generator(7)
    for count in (1, 0, 623, 1, 624, 5, CHUNK, 17, 1243):
        np.testing.assert_array_equal(outputs(here, count), there.raw(count))
        np.testing.assert_array_equal(here.state(), there.state())
