"""FeedBlob: recorded, beside what hands its strings on; strings of any bytes."""

from __future__ import annotations

import pytest

from tazza.errors import ArgumentError
from tazza.operator import run_op
from tests.check import check_op
from tests.sequences import Sequence, on_sequences, recorded

CASES = [recorded("blob_values", stored=True)]


@on_sequences(CASES)
def test_blob_values(case: Sequence) -> None:
    check_op(case)


def test_what_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"FeedBlob.*value"):
        run_op("FeedBlob")


def test_any_bytes() -> None:
    assert run_op("FeedBlob", value=b"a\0\xff") == b"a\0\xff"
