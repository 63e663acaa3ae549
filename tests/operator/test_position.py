"""Of a wrong index, the message names an input by the letter that the schema gives it, and a place that it has."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import TazzaError
from tazza.operator import SCHEMAS, LocalBlobs, Operator, Role, find_schema
from tazza.tensor import Int8Tensor
from tazza.testing.value import Value, data_of
from tests import golden
from tests.operator.test_golden import feed

PLACE = re.compile(r"\b(\w+)\[([\d, ]+)\] (?:is|=) ")


def picking(type: str) -> set[str]:
    """Return the letters of inputs whose elements pick something."""
    return {spec.name for spec in SCHEMAS[type].inputs if spec.role is Role.INDEX}


def spoiled(given: Value, value: int) -> NDArray[Any] | None:
    """Return an index whose last element is another one; None where it has no element, or none that counts."""
    if isinstance(given, Int8Tensor) or given.size == 0 or given.dtype.kind != "i":
        return None
    wrong = given.copy()
    wrong.reshape(-1)[-1] = value
    return wrong


def said(recording: golden.Recording, position: int, wrong: NDArray[Any]) -> str:
    """Run a recording with another input, and return what it is refused with, if it is."""
    blobs, schema = LocalBlobs(), find_schema(recording.definition.type)
    letters = schema.view(recording.definition).input_letters
    for i, (name, letter) in enumerate(zip(recording.definition.input, letters, strict=True)):
        feed(blobs, name, schema.inputs_by_letter[letter].type_name, wrong if i == position else recording.inputs[i])
    try:
        with np.errstate(all="ignore"):
            Operator(recording.definition, blobs).run()
    except TazzaError as error:
        return error.message
    return ""


@pytest.mark.parametrize("type", sorted(name for name in golden.operators() if picking(name)))
@pytest.mark.parametrize("value", [-7, 99])
def test_a_wrong_index_is_named_by_its_letter(type: str, value: int) -> None:
    recording = max(golden.recordings(type), key=lambda one: sum(data_of(each).size for each in one.inputs))
    letters = find_schema(type).view(recording.definition).input_letters
    for position, letter in enumerate(letters):
        wrong = spoiled(recording.inputs[position], value) if letter in picking(type) else None
        if wrong is None:
            continue
        message = said(recording, position, wrong)
        for name, place in PLACE.findall(message):
            assert {name, name.rstrip("0123456789")} & set(letters), f"{message}; {type} has {letters}"
            if name == letter:
                inside = [int(i) < extent for i, extent in zip(place.split(","), wrong.shape, strict=False)]
                assert all(inside), f"{message}; {letter} has the shape {wrong.shape}"
