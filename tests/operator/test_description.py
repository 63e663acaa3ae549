"""What is told of an operator type is what its schema, the registries and its code say."""

from __future__ import annotations

import dataclasses
import json

from tazza.operator import SCHEMAS, find_schema
from tazza.operator.description import describe, families, family_doc


def test_letters() -> None:
    top_k = describe(find_schema("TopK"))
    assert [(one.kind, one.role, one.marks) for one in top_k.inputs] == [
        ("float32", "data", ()),
        ("int64", "shape", ("optional", "on the host")),
    ]
    relu = describe(find_schema("ReluGradient"))
    assert [(one.kind, one.shape) for one in (*relu.inputs, *relu.outputs)] == [
        ("float32", "*S"),
        ("type of Y", "*S"),
        ("like Y", None),
    ]
    assert describe(find_schema("Alias")).inputs[0].kind == "any type"
    assert "any number" in describe(find_schema("Sum")).inputs[0].marks


def test_arguments() -> None:
    found = {one.name: one for one in describe(find_schema("Conv")).arguments}
    assert (found["kernels"].types, found["kernels"].default, found["kernels"].range) == (
        ("list[int]",),
        "[]",
        (">= 1",),
    )
    assert found["legacy_pad"].default == "0"
    assert found["order"].range == ("one of NCHW, NHWC, nchw, nhwc",)


def test_gradient_and_places() -> None:
    assert describe(find_schema("Relu")).gradient == "yes"
    ends = describe(find_schema("ReluGradient"))
    assert (ends.gradient, ends.gradient_reason) == ("ends", "second derivatives are not built")
    assert ends.in_place == {"dX": ("dY",)}
    assert describe(find_schema("Iter")).must_in_place == {"t_next": ("t",)}


def test_training() -> None:
    assert describe(find_schema("Dropout")).training.startswith(
        "draws, keeps statistics or looks at the batch unless is_test"
    )
    assert describe(find_schema("CTC")).training.endswith("; slopes then alone")
    assert describe(find_schema("Relu")).training == ""


def test_every_family_says_what_it_is() -> None:
    found = families()
    assert sum(map(len, found.values())) == len(SCHEMAS)
    assert [name for name, schemas in found.items() if not family_doc(schemas[0])] == []


def test_a_description_is_plain_data() -> None:
    for type in ("Conv", "If", "SparseLengthsSum", "LearningRate"):
        assert json.loads(json.dumps(dataclasses.asdict(describe(SCHEMAS[type]))))["type"] == type
