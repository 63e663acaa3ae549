"""Updates of rows: each is the dense operator on the row, whatever the order and number of indices."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.operator import (
    SCHEMAS,
    Cost,
    LocalBlobs,
    Operator,
    OpSchema,
    Role,
    anything,
    blob,
    each,
    find_schema,
    operator_def,
    schema,
)
from tazza.ops.optimizer.rows import INDICES, Rows, occurrences, on_rows
from tazza.tensor import DataType, Tensor, TensorSpec


@given(st.lists(st.integers(0, 5), max_size=20))
def test_occurrences(indices: list[int]) -> None:
    """Every place once; in one turn no index twice; later turns hold later places of the same index."""
    rows = np.array(indices, np.int64)
    turns = [list(places) for places in occurrences(rows)]
    assert sorted(place for turn in turns for place in turn) == list(range(rows.size))
    assert all(len(set(rows[turn])) == len(turn) for turn in turns)
    for index in set(indices):
        assert [place for turn in turns for place in turn if rows[place] == index] == [
            place for place, each in enumerate(indices) if each == index
        ]


R = 20_000
"""Rows of a table that is large beside the one row that is updated."""


def inputs_of_one_row(type: str) -> dict[str, NDArray[Any]]:
    """Return inputs by letter, for an update of row 5 of R with eight numbers each."""
    table, numbers = np.ones((R, 8), "f"), np.ones(R, "f")
    row_wise = {"M": numbers} if "Adagrad" in type else {"V": numbers}
    known = {
        **dict.fromkeys("WMVD", table),
        **(row_wise if type.startswith("RowWise") else {}),
        "nz": np.ones((R, 8, 2), "f"),
        "last": np.ones(R, np.int64),
        "count": np.ones(R),
        "iter": np.array([3]),
        "indices": np.array([5]),
        "LENGTHS": np.array([1], "i"),
        **dict.fromkeys(("dW", "dY"), np.ones((1, 8), "f")),
    }
    letters = find_schema(type).inputs_by_letter
    half = type.startswith("Float16")
    given = {letter: known.get(letter, np.ones(1, "f")) for letter in letters}
    return {letter: x.astype(np.float16) if half and letter in ("W", "dW") else x for letter, x in given.items()}


@pytest.mark.parametrize(
    "type", sorted(t for t in SCHEMAS if SCHEMAS[t].must_in_place and INDICES in SCHEMAS[t].inputs)
)
def test_one_row_costs_no_copy_of_the_table(type: str) -> None:
    """What a run asks for besides its inputs is far less than a table holds."""
    letters, blobs = find_schema(type), LocalBlobs()
    given = inputs_of_one_row(type)
    for letter, value in given.items():
        blobs.create_blob(letter).set(Tensor.from_numpy(value.copy()))
    outputs = [str(letters.must_in_place.get(out, [out])[0]) for out in letters.outputs_by_letter]
    arguments: dict[str, Any] = {"counter_halflife": 2} if "counter_halflife" in letters.args else {}
    update = Operator(operator_def(type, list(given), outputs, **arguments), blobs)
    update.run()
    tracemalloc.start()
    try:
        update.run()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < R * 2


PAIRS = [
    ("SparseAdagrad", "Adagrad", {"epsilon": 0.1}),
    ("SparseMomentumSGDUpdate", "MomentumSGDUpdate", {"momentum": 0.75}),
    ("SparseAdam", "Adam", {"beta1": 0.5, "epsilon": 0.1}),
]


@pytest.mark.parametrize(("sparse", "dense", "arguments"), PAIRS)
def test_rows_cost_what_they_cost_as_a_parameter(sparse: str, dense: str, arguments: dict[str, Any]) -> None:
    """As many operations as the dense operator has on the rows that indices pick, and the indices are read besides."""
    of_rows, whole = find_schema(sparse), find_schema(dense)
    dims = {"lr": (1,), "iter": (1,), "indices": (4,)}
    dtypes = {"indices": DataType.INT32, "iter": DataType.INT64}

    def cost(one: OpSchema, rows: int) -> Cost:
        letters, kept = list(one.inputs_by_letter), {"W", "M", "V"}
        shapes = [dims.get(letter, (rows if letter in kept else 4, 3)) for letter in letters]
        specs = [
            TensorSpec(shape, dtypes.get(letter, DataType.FLOAT)) for letter, shape in zip(letters, shapes, strict=True)
        ]
        over = {out: str(places[0]) for out, places in {**one.in_place, **one.must_in_place}.items()}
        outputs = [over[spec.name] for spec in one.outputs if not spec.optional]
        op = one.view(operator_def(one.type, letters, outputs, **arguments))
        return one.infer_cost(op, specs, [specs[letters.index(name)] for name in outputs])

    found, wanted = cost(of_rows, 7), cost(whole, 4)
    assert (found.flops, found.bytes_written) == (wanted.flops, wanted.bytes_written)
    assert found.bytes_read == wanted.bytes_read + 4 * 4


def test_in_place_forms_of_the_dense_operator_do_not_matter() -> None:
    for place in (anything(), {"W_next": each("W")}, None):
        inputs = [blob("W", role=Role.PARAMETER), blob("dW"), blob("lr", role=Role.PARAMETER)]
        outputs = [blob("W_next", like="W"), blob("rate", like="dW", optional=True)]
        dense = schema("TestDense", "For tests.", inputs=inputs, outputs=outputs, in_place=place)
        try:
            made = on_rows(Rows(dense, {"W": "W_next"}, ("dW",)), "TestRows", ["W", "indices", "dW", "lr"], "")
            assert made.must_in_place == {"W_next": ("W",)}
        finally:
            SCHEMAS.unregister("TestDense")
            SCHEMAS.unregister("TestRows")
