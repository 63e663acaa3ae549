"""Rows among shards: by loops over rows; what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

INDEX = np.array([5, -1, 4, 3, 2, -7])
X = np.random.default_rng(1).standard_normal((6, 2, 3)).astype(np.float32)
LENGTHS = np.array([2, 0, 3, 1], np.int32)
TEXT = np.array([b"a", b"b", b"", b"d", b"e", b"f", b"left"], object)


def divided(shards: int, *, pack: bool = False, lengths: bool = False) -> Any:
    """Return what each shard gets, row after row."""

    def made(*inputs: Array) -> tuple[Array, ...]:
        counts = inputs[0].reshape(-1) if lengths else None
        index, *others = inputs[1:] if lengths else inputs
        segment = np.repeat(np.arange(counts.size), counts) if counts is not None else None
        rows = [one.reshape(-1, *one.shape[index.ndim :]) for one in others]
        found: list[Array] = []
        for p in range(shards):
            mine = [i for i, value in enumerate(index.reshape(-1).tolist()) if (value - p) % shards == 0]
            if counts is not None and segment is not None:
                found.append(np.array([(segment[mine] == n).sum() for n in range(counts.size)], np.int32))
            values = [int(index.reshape(-1)[i]) for i in mine]
            found.append(np.array([math.floor(v / shards) if pack else v for v in values], index.dtype))
            found += [one[mine] for one in rows]
        return tuple(found)

    return made


PACK: dict[str, Any] = {"pack_first_input": 1}
CASES = [
    Case("Partition", [INDEX], divided(2), outputs=2),
    Case("Partition", [INDEX, X], divided(3, pack=True), PACK, 6, id="packed"),
    Case("Partition", [INDEX.astype("i").reshape(3, 2), X.reshape(3, 2, 6)], divided(2), outputs=4, id="a matrix"),
    Case("Partition", [INDEX, TEXT], divided(2)(INDEX, TEXT[:6]), outputs=4, id="text, and one row too many"),
    Case("Partition", [INDEX, X], divided(1), outputs=2, id="one shard"),
    Case("Partition", [INDEX[:0], X[:0]], divided(2), outputs=4, id="none"),
    Case("LengthsPartition", [LENGTHS, INDEX, X], divided(3, pack=True, lengths=True), PACK, 9, id="packed"),
    Case("LengthsPartition", [LENGTHS.reshape(2, 2), INDEX], divided(2, lengths=True), outputs=4),
    Case("LengthsPartition", [0 * LENGTHS, INDEX[:0], X[:0]], divided(2, lengths=True), outputs=6, id="none"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], int, type[TazzaError], str]] = [
    ("Partition", [INDEX, X], 3, SchemaError, "there are 3 outputs for 2 inputs"),
    ("Partition", [INDEX, X[:5]], 4, ShapeError, r"X0 has the shape \(5, 2, 3\), index \(6\)"),
    ("Partition", [INDEX.reshape(3, 2), X[:, 0, 0]], 4, ShapeError, "X0 has the shape"),
    ("Partition", [INDEX.astype("f")], 2, DTypeError, "index is float32"),
    ("LengthsPartition", [LENGTHS[:3], INDEX], 4, NumericError, "the 3 lengths add up to 5, and there are 6 indices"),
    ("LengthsPartition", [[7, -1], INDEX], 4, NumericError, r"lengths\[1\] is -1"),
    ("LengthsPartition", [LENGTHS, INDEX.reshape(3, 2)], 4, ShapeError, "index"),
]


@pytest.mark.parametrize(("type", "inputs", "outputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], outputs: int, error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, outputs=outputs)
