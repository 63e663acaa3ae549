"""What engines write units of recurrent nets from: texts that say what the reference kernels compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.operator import Expression, OpSchema, run_op
from tazza.ops.recurrent.gru_unit import GRU_UNITS
from tazza.ops.recurrent.lstm_unit import LSTM_UNITS
from tazza.ops.recurrent.step_unit import Unit

BIAS, N, D = 0.75, 3, 5
UNITS = [*LSTM_UNITS, *GRU_UNITS]


@pytest.mark.parametrize(("schema", "unit"), UNITS, ids=[schema.type for schema, _ in UNITS])
def test_texts_say_what_the_definition_computes(schema: OpSchema, unit: Unit) -> None:
    count, draw = len(unit.gates), np.random.default_rng(0)
    letters = [letter for letter in schema.inputs_by_letter if letter not in ("seq_lengths", "unused")]
    given: dict[str, Any] = {
        letter: draw.standard_normal((1, N, D * count if letter == "gates" else D), np.float32) for letter in letters
    }
    given["timestep"] = np.array([2], np.int32)
    values = {letter: given[letter] for letter in unit.read} | {"bias": np.float32(BIAS)}
    values |= dict(zip(unit.gates, np.split(given["gates"], count, axis=2), strict=True))
    for name, text in unit.texts.items():
        values[name] = Expression.parse(text).evaluate(values)
    found = {letter: values[letter] for letter in unit.written}
    if "dgates" in schema.outputs_by_letter:
        slopes = [np.broadcast_to(values[f"d{gate}"], (1, N, D)) for gate in unit.gates]
        found["dgates"] = np.concatenate(slopes, axis=2)
    how: dict[str, Any] = {"sequence_lengths": 0, "forget_bias": BIAS, "engine": "reference"}
    wanted = run_op(schema.type, *given.values(), outputs=len(found), **how)
    for letter, one in zip(schema.outputs_by_letter, wanted if len(found) > 1 else [wanted], strict=True):
        np.testing.assert_allclose(np.broadcast_to(found[letter], one.shape), one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("schema", "unit"), UNITS, ids=[schema.type for schema, _ in UNITS])
def test_what_an_ended_sequence_hands_on_is_read(schema: OpSchema, unit: Unit) -> None:
    assert {*unit.kept.values()} <= {*unit.read} <= {*schema.inputs_by_letter}
    assert {*unit.written} == {*schema.outputs_by_letter} - {"dgates"}
