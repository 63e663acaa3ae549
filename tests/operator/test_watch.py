"""What bound calls rest on: each change is seen, and none where nothing has changed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tazza.operator.kernel import value_key
from tazza.operator.watch import Watch, Watched, watch_together, watched
from tazza.runtime.flags import KERNEL_CHANGES
from tazza.tensor import Blob, DataType, Tensor

Change = Callable[[Blob], object]


def made() -> tuple[Blob, Watch]:
    blob = Blob("x")
    blob.set(Tensor.from_numpy(np.arange(6, dtype=np.int64).copy()))
    tensor = blob.tensor()
    values = [(tensor, tensor.storage.version, value_key(tensor.plain()))]
    return blob, Watch([watched(blob)], values, None)


def reallocate(blob: Blob) -> None:
    blob.tensor().resize((60,), DataType.INT64)
    blob.tensor().reserve()
    blob.tensor().resize((6,), DataType.INT64)


MOVES: dict[str, Change] = {
    "value": lambda blob: blob.set(Tensor.from_numpy(np.arange(6))),
    "nothing": lambda blob: blob.reset(),
    "form": lambda blob: blob.tensor().resize((2, 3), DataType.INT64),
    "memory": reallocate,
}


@pytest.mark.parametrize("change", MOVES.values(), ids=MOVES)
def test_what_moves_is_seen(change: Change) -> None:
    blob, watch = made()
    assert not watch.broken()
    change(blob)
    assert watch.moved()
    assert watch.broken()


def test_elements_are_those_that_were_written_or_may_be() -> None:
    blob, watch = made()
    outside = blob.tensor().numpy()
    assert not watch.broken(), "the same elements"
    outside[0] = 7
    assert watch.broken()
    assert not watch.moved()
    blob, watch = made()
    blob.tensor().mark_written()
    assert watch.broken()


def test_flags_break_everything() -> None:
    _, watch = made()
    assert Watch().broken(), "made for no flags"
    KERNEL_CHANGES[0] += 1
    assert watch.broken()
    assert not watch.moved()


def test_a_tensor_without_form_is_only_itself() -> None:
    blob, _ = made()
    watch = Watch([watched(blob, formed=False)], flags=None)
    MOVES["form"](blob)
    reallocate(blob)
    assert not watch.broken()
    MOVES["value"](blob)
    assert watch.broken()


def test_blobs_are_watched_together_in_one_state() -> None:
    blob, known = made()[0], dict[int, Watched]()
    loose = watched(blob, formed=False)
    assert watch_together(known, [loose])
    formed = watched(blob)
    assert watch_together(known, [formed])
    assert watch_together(known, [loose]), "less is known of it"
    assert list(known.values()) == [formed]
    for change in MOVES.values():
        change(blob)
        other = Blob("y")
        assert not watch_together(known, [watched(other), watched(blob)])
        assert list(known.values()) == [formed], "all or none"


def test_memory_that_is_overlooked_is_known_as_it_is() -> None:
    blob, other = made()[0], made()[0]
    watch = Watch([watched(blob), watched(other)], flags=None)
    for one in (blob, other):
        one.tensor().storage.release()
    watch.overlook([blob])
    assert watch.moved(), "the other one"
    watch.overlook([other])
    assert not watch.moved()
