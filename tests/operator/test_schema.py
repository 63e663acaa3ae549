"""Schemas: numbers of blobs, in-place rules, letters, patterns, inference with unknowns."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tazza.errors import DTypeError, SchemaError, ShapeError, UnknownOperatorError
from tazza.operator import (
    FLOAT,
    PER_CHANNEL,
    PER_ROW,
    PER_TENSOR,
    PLAIN,
    SCHEMAS,
    OpSchema,
    arg,
    blob,
    ends,
    find_schema,
    operator_def,
    run_op,
    schema,
)
from tazza.operator.pattern import Bindings, fill, match
from tazza.tensor import (
    CPUPlace,
    CUDAPlace,
    DataType,
    PerChannel,
    PerRow,
    PerTensor,
    Quantization,
    TensorSpec,
    TypeSpec,
)

F = DataType.FLOAT


@pytest.fixture
def made() -> Iterator[OpSchema]:
    """A schema with all kinds of letters."""
    yield schema(
        "TestSchema",
        "For tests.",
        inputs=[blob("X", FLOAT, "N *S", variadic=True), blob("b", "X", "N", optional=True)],
        outputs=[blob("Y", like="X"), blob("sizes", DataType.INT32, "N", optional=True, host=True)],
        args=[arg("axis", int, 0, minimum=0, maximum=3)],
        in_place={"Y": "X"},
        no_gradient=ends("test"),
    )
    SCHEMAS.unregister("TestSchema")


def test_letters_of_blobs(made: OpSchema) -> None:
    """Required letters first, then optional ones; the variadic letter takes what is left."""
    letters = [made.view(operator_def("TestSchema", list("abcd"[:n]), ["y"])).input_letters for n in (1, 2, 4)]
    assert letters == [("X",), ("X", "b"), ("X", "X", "X", "b")]


@pytest.mark.parametrize(
    ("type", "inputs", "outputs", "text"),
    [
        ("Relu", [], ["y"], "Relu has 0 inputs, it takes 1"),
        ("Relu", ["a", "b"], ["y"], "Relu has 2 inputs, it takes 1"),
        ("Relu", ["a"], [], "Relu has 0 outputs, it takes 1"),
        ("Conv", ["a"], ["y"], "Conv has 1 inputs, it takes 2 to 3"),
        ("TestSchema", [], ["y"], "TestSchema has 0 inputs, it takes 1 or more"),
        ("TestSchema", ["a"], ["a", "a"], "TestSchema"),
    ],
)
def test_wrong_numbers_of_blobs(made: OpSchema, type: str, inputs: list[str], outputs: list[str], text: str) -> None:
    del made
    with pytest.raises(SchemaError, match=text):
        find_schema(type).view(operator_def(type, inputs, outputs, kernel=1))


def test_in_place_rules(made: OpSchema) -> None:
    """behaviours.md row 25, and only the first blob of a variadic input may be overwritten, once."""
    made.view(operator_def("TestSchema", ["a", "c"], ["a"]))
    for inputs in (["c", "a", "b"], ["a", "c", "a", "b"], ["c", "a"]):
        with pytest.raises(SchemaError, match="cannot write Y in place of"):
            made.view(operator_def("TestSchema", inputs, ["a"]))
    with pytest.raises(SchemaError, match="Softmax cannot write Y in place of X: both are 'm'"):
        find_schema("Softmax").view(operator_def("Softmax", ["m"], ["m"]))
    with pytest.raises(SchemaError, match="must be in place of input"):
        find_schema("Iter").view(operator_def("Iter", ["i"], ["j"]))


def test_inference_with_unknowns(made: OpSchema) -> None:
    op = made.view(operator_def("TestSchema", ["a", "b"], ["y", "n"]))
    specs = made.infer_specs(op, [TensorSpec((None, 3), F), TensorSpec((5,), F)]).specs
    assert specs == (TensorSpec((None, 3), F), TensorSpec((5,), DataType.INT32))
    assert made.infer_specs(op, [None, None]).specs == (None, TensorSpec((None,), DataType.INT32))
    unknown_rank = made.infer_specs(op, [TensorSpec(None, F), None]).specs
    assert unknown_rank == (TensorSpec(None, F), TensorSpec((None,), DataType.INT32))


def test_unknown_inputs_are_never_guessed() -> None:
    for type, count in (("Relu", 1), ("Conv", 3)):
        found = find_schema(type)
        op = found.view(operator_def(type, ["a", "b", "c"][:count], ["y"], kernel=3), strict=False)
        assert found.infer_specs(op, [None] * count).specs == (None,)


def test_wrong_kinds_and_dtypes(made: OpSchema) -> None:
    op = made.view(operator_def("TestSchema", ["a", "b"], ["y"]))
    with pytest.raises(DTypeError, match="b is int32, it must be float32"):
        made.infer_specs(op, [TensorSpec((2,), F), TensorSpec((2,), DataType.INT32)])
    with pytest.raises(DTypeError, match="X = 'a' is a DBReader, not a Tensor"):
        made.infer_specs(op, [TypeSpec("DBReader"), None])
    with pytest.raises(ShapeError, match=r"TestSchema: N is \(3\) in b and \(2\) in X"):
        made.infer_specs(op, [TensorSpec((2, 5), F), TensorSpec((3,), F)])
    with pytest.raises(ShapeError, match=r"X has rank 0 \(\), it must have at least 1 dimensions: \(N \*S\)"):
        made.infer_specs(op, [TensorSpec((), F), None])


def test_places_follow_the_device(made: OpSchema) -> None:
    op = made.view(operator_def("TestSchema", ["a"], ["y", "n"]))
    assert made.infer_places(op, CUDAPlace(1)) == ((CUDAPlace(1),), (CUDAPlace(1), CPUPlace()))


def test_names_that_are_taken() -> None:
    with pytest.raises(SchemaError, match="value_of cannot be the name of an argument"):
        schema("TestClash", "For tests.", args=[arg("value_of", int, 0)])
    with pytest.raises(SchemaError, match="random cannot be the name"):
        schema("TestClash", "For tests.", inputs=[blob("random")])


def test_patterns_remember_what_each_blob_knows() -> None:
    bindings = Bindings()
    match("A B", (2, None), "X", bindings)
    match("*S", (2, None), "X", bindings)
    match("*S", (None, 3), "Y", bindings)
    assert fill("*S 1 A", bindings) == (2, 3, 1, 2)
    with pytest.raises(ShapeError, match=r"S is \(2, 4\) in Z and \(2, 3\) in X"):
        match("*S", (2, 4), "Z", bindings)
    with pytest.raises(ShapeError, match=r"S is \(5, \?, 7\) in Z"):
        match("*S", (5, None, 7), "Z", bindings)
    with pytest.raises(ShapeError, match="dimension 1 must be 1"):
        match("N 1", (2, 3), "L", bindings)


def test_an_in_place_result_keeps_its_shape() -> None:
    """behaviours.md row 25."""
    import numpy as np

    from tazza.workspace import Workspace

    ws = Workspace()
    ws.feed("a", np.zeros(2, np.float32))
    ws.feed("m", np.zeros((3, 2), np.float32))
    with pytest.raises(ShapeError):
        ws.run_operator(operator_def("Sum", ["a", "m"], ["a"]))


def test_unknown_operators_propose_near_names() -> None:
    from tazza.errors import UnknownOperatorError

    with pytest.raises(UnknownOperatorError, match="unknown operator 'Rleu'") as caught:
        run_op("Rleu", 1.0)
    assert "did you mean Relu" in str(caught.value)


TABLE = Path(os.environ.get("TAZZA_SHARED", Path(__file__).parents[3] / "shared")) / "reference" / "ops.json"


@pytest.mark.skipif(not TABLE.is_file(), reason=f"there is no '{TABLE}'; TAZZA_SHARED can name the folder above it")
def test_what_is_private_in_caffe2_is_here() -> None:
    recorded = json.loads(TABLE.read_text())["operators"]
    known = SCHEMAS.keys() & recorded.keys()
    assert {type for type in known if recorded[type].get("private")} == {  # one has no schema there
        type for type in known if find_schema(type).private
    }


def test_private_operators_are_not_offered() -> None:
    made = schema("TestHidden", "For tests.", private=True, no_gradient=ends("test"))
    try:
        assert find_schema("TestHidden") is made
        with pytest.raises(UnknownOperatorError) as raised:
            find_schema("TestHiden")
        assert "TestHidden" not in str(raised.value)
    finally:
        SCHEMAS.unregister("TestHidden")


def test_an_open_type_is_unknown() -> None:
    """What may hold anything, or one of several types, is not called by the name of the declaration."""
    outputs = [
        blob("Y", type_name="*"),
        blob("Z", type_name=("Tensor", "DBReader")),
        blob("L", type_name="*", like="X"),
        blob("R", type_name="DBReader"),
    ]
    made = schema("TestOpen", "For tests.", inputs=[blob("X")], outputs=outputs)
    try:
        x = TensorSpec((2,), F)
        found = made.infer_specs(made.view(operator_def("TestOpen", ["x"], ["y", "z", "l", "r"])), [x]).specs
        assert found == (None, None, x, TypeSpec("DBReader"))
    finally:
        SCHEMAS.unregister("TestOpen")


MEANINGS = (PerTensor(0.5), PerChannel(0, (0.5, 0.25), (0, 0)), PerRow())


@pytest.mark.parametrize("wanted", [PLAIN, PER_TENSOR, PER_CHANNEL, PER_ROW, PLAIN | PER_ROW, PER_TENSOR | PER_CHANNEL])
@pytest.mark.parametrize("meaning", [None, *MEANINGS])
def test_a_hint_about_quantization_leads_there(wanted: frozenset[type], meaning: Quantization | None) -> None:
    """What it names takes what was found, and makes what is wanted; where there is no such operator it is silent."""
    if type(meaning) in wanted:
        return
    made = schema("TestMeaning", "For tests.", inputs=[blob("X", quantization=wanted)], outputs=[])
    op, spec = made.view(operator_def("TestMeaning", ["x"], [])), TensorSpec((2, 16), DataType.UINT8)
    try:
        with pytest.raises(DTypeError) as caught:
            made.infer_specs(op, [dataclasses.replace(spec, quantization=meaning)])
    finally:
        SCHEMAS.unregister("TestMeaning")
    hint = caught.value.hint
    back = isinstance(meaning, PerTensor | PerChannel) and type(None) in wanted
    there = back or (meaning is None and PerTensor in wanted)
    assert (hint is not None) == there
    if hint is not None:
        way = find_schema(hint.removeprefix("insert an "))
        assert type(meaning) in way.inputs[0].quantization
        assert way.outputs[0].quantization & wanted
