"""Options hold what they are declared to hold: a law over all fields of what a training is told."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tazza
from tazza.errors import ArgumentError
from tazza.fitting import Augmentation, FitOptions, Solver
from tazza.fitting.option import KINDS
from tests.fitting.conftest import pictures

OPTIONS = (FitOptions, Augmentation, Solver)
VALUES: dict[str, Any] = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "a fraction": 2.5,
    "more than 64 bits": 2**64,
    "a text": "3",
    "a colour": "rgba",
    "True": True,
    "None": None,
    "nothing": (),
    "numbers": (1, 2),
    "numbers by name": {1: 2},
    "an object": object(),
    "bytes": b"3",
}
RIGHT: dict[str, tuple[str, ...]] = {
    "int": (),
    "float": ("a fraction",),
    "bool": ("True",),
    "str": ("a text", "a colour"),
    "os.PathLike[str]": (),
    "Sequence[str]": ("nothing",),
    "Mapping[str, Any]": (),
    "None": ("None",),
}
"""Which values are of a type; 2**64 is of none."""
CASES = [
    (kind, each.name, name)
    for kind in OPTIONS
    for each in fields(kind)
    for name in VALUES
    if not {name} & {right for part in str(each.type).split(" | ") for right in RIGHT.get(part, ())}
]


def test_every_type_of_an_option_is_known() -> None:
    told = {part for kind in OPTIONS for each in fields(kind) for part in str(each.type).split(" | ")}
    assert told - {"Solver", "Augmentation"} == KINDS.keys() == RIGHT.keys()


@pytest.mark.parametrize(("kind", "name", "value"), CASES)
def test_another_kind_of_value_is_refused(kind: Any, name: str, value: str) -> None:
    with pytest.raises(ArgumentError, match=name):
        kind(**{name: VALUES[value]})


def test_numbers_of_other_libraries_are_taken() -> None:
    assert FitOptions(batch_size=np.int32(4), epochs=Fraction(1, 2)).steps_of(16) == 2  # pyright: ignore[reportArgumentType] -- as users do
    assert Augmentation(flip=np.bool_(True), zoom=np.float32(0.5), shift=np.uint8(2)).shift == 2  # pyright: ignore[reportArgumentType] -- as users do


@pytest.mark.parametrize(
    "given",
    [
        {"colors": "rgba"},
        {"patience": 1.5},
        {"solver_options": {"momentum": "0.9"}},
        {"solver_options": {"gamma": float("nan")}},
        {"solver_options": {"nesterov": object()}},
        {"net_options": None},
        {"shift": 8},
    ],
)
def test_a_training_with_bad_options_does_not_begin(given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        tazza.fit("mlp", pictures(20), **given)
