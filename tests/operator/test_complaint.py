"""Errors that an operator's own code makes are found in it: in its rules, its kernel, and what these call."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tazza.errors import TazzaError
from tazza.operator import SCHEMAS, find_schema, run_op
from tazza.operator.complaint import complaints_of


def told(type: str) -> dict[str, str]:
    """Return the error of each message."""
    return {one.message: one.error for one in complaints_of(find_schema(type))}


def test_a_rule_of_arguments() -> None:
    assert told("ReluN") == {"n = <n>, it must be above 0": "ArgumentError"}


def test_what_is_required() -> None:
    """`op.require` is a ShapeError, its text may have a name; what the rule calls counts too."""
    found = told("Conv")
    assert found["<M> output channels do not divide into <group> groups"] == "ShapeError"
    assert any(message.startswith("<letters[1]> has the kernel size") for message in found)
    assert any(message.startswith("the kernel covers <cover> elements") for message in found)


def test_a_kernel_behind_a_wrapper() -> None:
    assert "NumericError" in told("SparseLengthsSum").values()


def test_a_kernel_that_is_a_class() -> None:
    (closed,) = (message for message, error in told("EnqueueBlobs").items() if error == "ClosedError")
    assert closed.startswith("the queue <queue> is closed, and ")


def test_an_operator_that_refuses_nothing_more() -> None:
    assert told("Relu") == {}


@pytest.mark.parametrize(
    ("type", "inputs", "arguments", "part"),
    [
        ("ReluN", [np.ones(2, np.float32)], {"n": -1.0}, "it must be above 0"),
        ("TopK", [np.ones((2, 3), np.float32)], {"k": 0}, "it must be at least 1"),
        ("SoftmaxWithLoss", [np.ones((2, 3), np.float32), np.array([0, 7], np.int32)], {}, "is not in [0, <classes>)"),
    ],
)
def test_what_is_told_is_what_is_raised(type: str, inputs: list[Any], arguments: dict[str, Any], part: str) -> None:
    (message,) = [each for each in told(type) if part in each]
    with pytest.raises(TazzaError) as raised:
        run_op(type, *inputs, **arguments)
    assert type_name(raised.value) == told(type)[message]


def type_name(error: TazzaError) -> str:
    """Return the name of an error's class."""
    return error.__class__.__name__


@pytest.mark.slow
def test_no_message_shows_code() -> None:
    """Of no operator: no braces, no call, no attribute of something."""
    code = re.compile(r"[{}]|\w\(|<[^<>]*\w\.[a-z_]+>")
    messages = {one.message for type in SCHEMAS for one in complaints_of(find_schema(type))}
    assert len(messages) > 100
    assert sorted(filter(code.search, messages)) == []


def test_what_depends_on_the_operator_stands_in_words() -> None:
    assert "<argument> = <axis> is not an axis of <letter>, which has <rank> dimensions <dims>" in told("Softmax")
