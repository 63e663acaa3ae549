"""What options hold, told by the types that their fields are declared with: whole numbers, finite ones, texts."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tazza.errors import ArgumentError
from tazza.runtime.files import one_line

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

WHOLE_MAX = 2**63
"""Whole numbers are below: what nets keep has 64 bits."""


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, and no truth, that 64 bits hold."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return -WHOLE_MAX <= int(value) < WHOLE_MAX


def is_number(value: object) -> bool:
    """Whether a value is a finite number, and no truth."""
    if is_whole(value):
        return True
    return isinstance(value, Real) and not isinstance(value, bool | Integral) and math.isfinite(value)


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(each, str) for each in values)


KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("true or false", lambda value: isinstance(value, bool | np.bool_)),
    "int": ("a whole number", is_whole),
    "float": ("a finite number", is_number),
    "str": ("a text", lambda value: isinstance(value, str)),
    "os.PathLike[str]": ("a path", lambda value: isinstance(value, os.PathLike)),
    "Sequence[str]": (
        "texts in a row",
        lambda value: isinstance(value, Sequence) and not isinstance(value, str) and _are_texts(cast("Any", value)),
    ),
    "Mapping[str, Any]": (
        "values by name",
        lambda value: isinstance(value, Mapping) and _are_texts(cast("Mapping[Any, Any]", value)),
    ),
}
"""What a type in a declaration stands for, and whether a value is of it."""


def default_of(options: type[DataclassInstance], name: str) -> Any:
    """Return the default of a field.

    >>> from tazza.fitting import Augmentation
    >>> default_of(Augmentation, "shift")
    0
    """
    return next(each.default for each in fields(options) if each.name == name)


def check_types(options: DataclassInstance) -> None:
    """Check that every field holds what it is declared to hold; fields of other types are left to themselves.

    Raises:
        ArgumentError: one holds something else, or a number that is not finite.
    """
    for each in fields(options):
        kinds = [KINDS[kind] for kind in str(each.type).split(" | ") if kind in KINDS]
        value = getattr(options, each.name)
        if kinds and not any(is_one(value) for _, is_one in kinds):
            raise ArgumentError(f"{each.name} = {one_line(repr(value))}", hint=" or ".join(told for told, _ in kinds))
