"""Problems of operators that overwrite rows, which the tables of families have no cases of: one for each kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.operator import find_schema, operator_def
from tazza.operator.index import index
from tazza.proto import OperatorDef

R, D = 5, 3
"""Rows of a table, and their elements."""
INDICES, LENGTHS = (4, 0, 4, 2, 0, 4), (3, 0, 2, 1)
ONE_A_ROW: Mapping[str, str] = {"RowWiseSparseAdagrad": "M", "RowWiseSparseAdam": "V"}
"""Start of a type's name -> the state that has one number for each row."""

TYPES = sorted(type for type in index()["kernels"]["cuda"]["cuda"] if find_schema(type).must_in_place)


def problem(type: str) -> tuple[OperatorDef, list[NDArray[Any]]]:
    """Return an operator, and what it reads; indices stand there several times."""
    schema, random = find_schema(type), np.random.default_rng(len(type))
    alone = next((letter for start, letter in ONE_A_ROW.items() if type.startswith(start)), "")
    given: dict[str, NDArray[Any]] = {
        "indices": np.array(INDICES, np.int64),
        "LENGTHS": np.array(LENGTHS, np.int32),
        "iter": np.array([6], np.int64),
        "dW": random.standard_normal((len(INDICES), D)),
        "X": random.standard_normal((len(INDICES), D)),
        "dY": random.standard_normal((len(LENGTHS), D)),
    }
    letters = [letter for letter in schema.inputs_by_letter if not schema.inputs_by_letter[letter].optional]
    inputs: list[NDArray[Any]] = []
    for letter in letters:
        kept = any(letter in over for over in schema.must_in_place.values())
        shape = ((R,) if letter == alone else (R, D)) if kept else (1,)
        values = given.get(letter, np.abs(random.standard_normal(shape)) + 0.1)
        inputs.append(values.astype(np.float32) if values.dtype.kind == "f" else values)
    over = {out: str(letter) for out, (letter,) in schema.must_in_place.items()}
    outputs = [over.get(spec.name, f"new_{spec.name}") for spec in schema.outputs if not spec.optional]
    return operator_def(type, letters, outputs), inputs
