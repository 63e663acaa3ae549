"""Updates of rows, compiled: the numbers of the reference, on any number of threads; nothing by a wrong index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.codegen.kernel import unavailable
from tazza.errors import NumericError
from tazza.operator import KERNELS, SCHEMAS, OpSchema, find_schema, kernel_key, operator_def
from tazza.ops.optimizer.fused_adagrad import fused_updates
from tazza.ops.optimizer.rows import ON_ROWS
from tazza.runtime.threads import NUM_THREADS
from tests.check import run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
ROW_WISE = "RowWiseSparseAdagrad"
OF_ONE = {"RowWiseSparseAdagrad": "M", "RowWiseSparseAdam": "V"}
"""Updates with one number for each row, and where it stands."""
R, K = 9, 40


def compiled() -> list[str]:
    """Return the updates of rows that this engine has."""
    for type in SCHEMAS:
        find_schema(type)
    return sorted(type for type in (*ON_ROWS, *OF_ONE, *fused_updates.rows) if kernel_key(type, "native") in KERNELS)


COMPILED = compiled()


def inputs_of(schema: OpSchema, width: int) -> dict[str, Array]:
    """Return parameters, their state, K indices of which many stand there several times, and a gradient."""
    random = np.random.default_rng(width)
    found: dict[str, Array] = {}
    for letter in schema.inputs_by_letter:
        if letter == "indices":
            found[letter] = random.integers(0, R, K)
        elif letter == "lr":
            found[letter] = np.array([-0.1], np.float32)
        elif letter == "iter":
            found[letter] = np.array([4])
        elif letter == "LENGTHS":
            found[letter] = np.array([3, 0, K - 8, 5], np.int32)
        elif letter == "dY":
            found[letter] = random.standard_normal((4, width)).astype(np.float32)
        elif letter == "dW":
            found[letter] = random.standard_normal((K, width)).astype(np.float32)
        else:
            shape = (R,) if OF_ONE.get(schema.type.partition("Fused")[0]) == letter else (R, width)
            found[letter] = random.random(shape).astype(np.float32)
    return found


def updated(type: str, inputs: dict[str, Array], engine: str, **args: Any) -> list[Array]:
    """Return all outputs, from copies."""
    schema = find_schema(type)
    over = {out: str(letters[0]) for out, letters in schema.must_in_place.items()}
    outputs = [over.get(spec.name, spec.name) for spec in schema.outputs if not spec.optional]
    definition = operator_def(type, list(inputs), outputs, **args)
    return run(definition, [value.copy() for value in inputs.values()], engine)[0]


@pytest.mark.parametrize("type", COMPILED)
@pytest.mark.parametrize("width", [1, 3, 16, 64, 67])
def test_it_is_the_reference(type: str, width: int) -> None:
    inputs = inputs_of(find_schema(type), width)
    for one, other in zip(updated(type, inputs, "native"), updated(type, inputs, "reference"), strict=True):
        np.testing.assert_allclose(one, other, rtol=3e-6, atol=3e-6)


def test_each_update_with_a_formula_of_whole_parameters_is_compiled() -> None:
    fused = (type for type, row in fused_updates.rows.items() if not row.reducer.weighted)
    assert set(COMPILED) == {*OF_ONE, *fused, *(type for type, of in ON_ROWS.items() if of.dense.formulas is not None)}


@pytest.mark.parametrize("type", COMPILED)
def test_threads_change_no_bit(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = inputs_of(find_schema(type), 20)
    monkeypatch.setattr(kernel, "THREAD_NS", 0.01)
    results: list[list[Array]] = []
    for count in (1, 2, 3, 7):
        with NUM_THREADS.override(count):
            results.append(updated(type, inputs, "native"))
    for other in results[1:]:
        for one, first in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(one, first)


@pytest.mark.parametrize("type", COMPILED)
@pytest.mark.parametrize("index", [-1, R])
def test_a_wrong_index_changes_nothing(type: str, index: int) -> None:
    schema = find_schema(type)
    inputs = inputs_of(schema, 5)
    inputs["indices"][K - 1] = index
    before = {letter: value.copy() for letter, value in inputs.items()}
    over = {out: str(letters[0]) for out, letters in schema.must_in_place.items()}
    outputs = [over.get(spec.name, spec.name) for spec in schema.outputs if not spec.optional]
    with pytest.raises(NumericError, match=rf"indices\[{K - 1}\]"):
        run(operator_def(type, list(inputs), outputs), list(inputs.values()), "native")
    for letter, value in inputs.items():
        np.testing.assert_array_equal(value, before[letter])


def test_weight_decay_and_rows_of_nothing() -> None:
    inputs = inputs_of(find_schema(ROW_WISE), 6)
    for one, other in zip(
        updated(ROW_WISE, inputs, "native", weight_decay=0.3, epsilon=0.1),
        updated(ROW_WISE, inputs, "reference", weight_decay=0.3, epsilon=0.1),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=3e-6)
    empty = inputs_of(find_schema(ROW_WISE), 0)
    _, M = updated(ROW_WISE, empty, "native")
    np.testing.assert_array_equal(M, empty["M"])
