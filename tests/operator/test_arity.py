"""Letters of variadic inputs and outputs, relations between their numbers, and numbers of outputs as in Caffe2."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tazza.errors import SchemaError
from tazza.operator import (
    FLOAT,
    SCHEMAS,
    BlobSpec,
    OpSchema,
    arity,
    as_many,
    blob,
    ends,
    find_schema,
    operator_def,
    pairs,
    schema,
)
from tazza.operator.arity import Relation, letters_of
from tazza.operator.prepared import local_definition
from tazza.tensor import DataType, TensorSpec

TABLE = Path(os.environ.get("TAZZA_SHARED", Path(__file__).parents[3] / "shared")) / "reference" / "ops.json"


@pytest.fixture
def made() -> Iterator[OpSchema]:
    """As many outputs as pairs of inputs."""
    yield schema(
        "TestArity",
        "For tests.",
        inputs=[blob("A", FLOAT), blob("X", FLOAT, variadic=True), blob("w", FLOAT, variadic=True)],
        outputs=[blob("Y", like="X", variadic=True)],
        relations=[pairs("X", "w"), as_many("Y", "X")],
        no_gradient=ends("test"),
    )
    SCHEMAS.unregister("TestArity")


def test_letters_in_turn(made: OpSchema) -> None:
    op = made.view(operator_def("TestArity", list("abcde"), ["y", "z"]))
    assert op.input_letters == ("A", "X", "w", "X", "w")
    assert op.output_letters == ("Y", "Y")


@pytest.mark.parametrize(
    ("inputs", "outputs", "text"),
    [
        (4, 2, "TestArity does not take 4 inputs with 2 outputs: 2 X and 1 w do not go in turn"),
        (5, 1, "TestArity does not take 5 inputs with 1 outputs: there are 1 Y for 2 X"),
    ],
)
def test_relations(made: OpSchema, inputs: int, outputs: int, text: str) -> None:
    names = [f"in{i}" for i in range(inputs)], [f"out{i}" for i in range(outputs)]
    with pytest.raises(SchemaError, match=text):
        made.view(operator_def("TestArity", *names))


def test_together() -> None:
    for inputs, outputs, text in (
        (6, 5, "SpatialBN does not take 6 inputs with 5 outputs: sums without sumsq: they come together or not at all"),
        (5, 3, "running_mean and running_var without saved_mean and saved_inv_std"),
    ):
        names = list("abcdefg")[:inputs], ["y", "d", "e", "p", "q"][:outputs]
        with pytest.raises(SchemaError, match=text):
            find_schema("SpatialBN").view(operator_def("SpatialBN", *names, is_test=0))


def test_each_output_is_like_its_own_input() -> None:
    made = schema(
        "TestLike",
        "For tests.",
        inputs=[blob("X", FLOAT, variadic=True)],
        outputs=[blob("Y", like="X", variadic=True)],
        relations=[as_many("Y", "X")],
        no_gradient=ends("test"),
    )
    try:
        op = made.view(operator_def("TestLike", ["a", "b"], ["c", "d"]))
        specs = [TensorSpec((2, 3), DataType.FLOAT), TensorSpec((5,), DataType.FLOAT)]
        assert list(made.infer_specs(op, specs).specs) == specs
        assert list(local_definition("TestLike", 3, None, "", None, {}).output) == ["out0", "out1", "out2"]
    finally:
        SCHEMAS.unregister("TestLike")


def test_two_rows_share_evenly() -> None:
    """Without `pairs`, variadic letters stand one row after the other."""
    made = schema(
        "TestRows",
        "For tests.",
        inputs=[blob("X", FLOAT, variadic=True), blob("Z", FLOAT, variadic=True)],
        relations=[as_many("Z", "X")],
        no_gradient=ends("test"),
    )
    try:
        assert made.view(operator_def("TestRows", list("abcd"))).input_letters == ("X", "X", "Z", "Z")
        with pytest.raises(SchemaError, match="there are 1 Z for 2 X"):
            made.view(operator_def("TestRows", list("abc")))
    finally:
        SCHEMAS.unregister("TestRows")


@pytest.mark.skipif(not TABLE.is_file(), reason=f"there is no '{TABLE}'; TAZZA_SHARED can name the folder above it")
def test_numbers_of_outputs_are_those_of_caffe2() -> None:
    """Where Caffe2 computes the number of outputs from that of inputs, and the schema does too, they are the same."""
    recorded = json.loads(TABLE.read_text())["operators"]
    compared = 0
    for type in sorted(SCHEMAS.keys() & recorded.keys()):
        for inputs, outputs in recorded[type].get("calculate_output", {}).items():  # one has no schema there
            own = find_schema(type).output_count(int(inputs)) if outputs >= 0 else None
            if own is not None:
                assert (type, inputs, own) == (type, inputs, outputs)
                compared += 1
    assert compared > 300


def test_letters_are_found_once_for_all_equal_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(specs: Sequence[BlobSpec], count: int, relations: Sequence[Relation] = ()) -> tuple[str, ...]:
        asked.append(count)
        return letters_of(specs, count, relations)

    monkeypatch.setattr(arity, "letters_of", counted)
    row = arity.LetterRow("input", [blob("X", variadic=True), blob("w", variadic=True)], [pairs("X", "w")])
    for _ in range(3):
        assert row.letters(4) == ("X", "w", "X", "w")
        assert row.letters(3) == ("X", "w", "X")
    assert asked == [4, 3]
