"""Rows of an image as windows read them: P against NumPy, band by band, whatever a thread finds in its memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, unavailable
from tazza.codegen.loop import count_loop
from tazza.codegen.term import Lines, Term
from tazza.engines.native.few_channels.packing import PACKING, Packing, PackingWriter
from tests.engines.native.few_channels.images import CASES, Windows
from tests.launching import run_kernel

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
BLOCK = Fields(addresses="out marks:i64", after=PACKING)


def packed(case: Windows, threads: int) -> tuple[Array, Array]:
    """Return P of each band as a thread had it, and (image, row, count) of each; memory begins full of NaN."""
    bands = -(-case.out[0] // case.band)
    pitch = case.pitch(1)
    floats = case.packed_rows * pitch + 2 * lane_count()
    X, scratch = case.laid(case.images()), np.full(threads * floats, np.nan, np.float32)
    out = np.full((case.N * bands, case.packed_rows, pitch), np.nan, np.float32)
    marks = np.full((case.N * bands, 3), -1, np.int64)

    def work(lines: Lines) -> None:
        w = PackingWriter(lines, BLOCK, case.packing)

        def band(image: Term, row: Term, count: Term) -> None:
            number = image * bands + row // w.w.band
            for k, value in enumerate((image, row, count)):
                w.w.marks[number * 3 + k] = value
            rows = (count - 1) * w.w.down + w.w.kH
            target = w.w.out.at(number * (case.packed_rows * pitch))

            def copy(i: Term) -> None:
                target[i] = w.P[i]

            count_loop(lines, 0, rows * pitch, copy)

        w.each_band(band)

    addresses = {"X": X, "scratch": scratch, "out": out, "marks": marks}
    words = case.words(1, threads, floats) | {name: array.ctypes.data for name, array in addresses.items()}
    _, *numbers = BLOCK.words(**words)
    run_kernel(f"packing {case.packing.description}", work, threads, *[one for one in numbers if isinstance(one, int)])
    behind = scratch.reshape(threads, floats)[:, case.packed_rows * pitch :]
    assert np.isnan(behind).all(), "it wrote behind the last row of P"
    return out, marks


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_bands_hold_what_windows_see(case: Windows, threads: int) -> None:
    """A row of a window is kW * C numbers in a row; what is neither image nor read by a window is 0."""
    found, _ = packed(case, threads)
    patches = case.patches(case.images())
    (kH, kW), (down, across), bands = case.kernel, case.step, -(-case.out[0] // case.band)
    for n in range(case.N):
        for i in range(case.out[0]):
            P = found[n * bands + i // case.band]
            for j in range(case.out[1]):
                for y in range(kH):
                    start = j * across * case.C
                    row = P[i % case.band * down + y, start : start + kW * case.C]
                    np.testing.assert_array_equal(row, patches[n, i, j, y].ravel())


@pytest.mark.parametrize("threads", [1, 3])
def test_every_band_once(threads: int) -> None:
    case = CASES["five in planes, the last band short"]
    _, marks = packed(case, threads)
    assert marks.tolist() == [[n, row, min(3, 5 - row)] for n in range(2) for row in (0, 3)]


def test_the_end_of_a_row_is_zero() -> None:
    """Up to the pitch, where register tiles that reach beyond the last window read."""
    case = CASES["three channels in planes"]
    found, _ = packed(case, 1)
    used = (case.pads[1] + case.image[1]) * case.C
    assert case.pitch(1) > used
    whole = found[0]
    assert not whole[:, used:].any()
    assert not whole[:, : case.pads[1] * case.C].any()


def test_descriptions_tell_codes_apart() -> None:
    found = {
        Packing(C, kW, across, planes).description
        for C in (1, 3)
        for kW in (2, 5)
        for across in (1, 2)
        for planes in (False, True)
    }
    assert len(found) == 16
