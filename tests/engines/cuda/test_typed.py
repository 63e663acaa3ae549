"""Expressions over elements of any types on a device: their types, numbers of the host, what is not compiled."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tazza.codegen.block import Slot
from tazza.codegen.whole import WHOLE
from tazza.device import current_context
from tazza.engines.cuda import pointwise as cuda
from tazza.engines.cuda.launch import GridLaunch, Held
from tazza.engines.cuda.typed import typed_launch, types_of
from tazza.engines.native import pointwise as native
from tazza.errors import DTypeError, UnsupportedError
from tazza.operator import SCHEMAS, Expression, Unsupported, operator_def
from tazza.operator.kernel import taken
from tazza.tensor import CPUPlace, CUDAPlace, DataType, Place, Tensor, TensorSpec
from tazza.tensor.offer import answered
from tests.engines.cuda.test_threads import run, there

CPU, DEVICE = CPUPlace(), CUDAPlace(0)
NAMES = {"a": DataType.INT32, "b": DataType.INT32, "x": DataType.FLOAT}


def test_types() -> None:
    texts = [Expression.parse(text) for text in ("a + b", "a < b", "where(a < b, x, x)")]
    assert types_of(texts, NAMES) == [DataType.INT32, DataType.BOOL, DataType.FLOAT]
    for text, reason in (("a + 1", "has no type"), ("a + x", "is not compiled"), ("a / b", "is not compiled")):
        with pytest.raises(UnsupportedError, match=reason):
            types_of([Expression.parse(text)], NAMES)


def launch(text: str, sources: list[DataType], target: DataType) -> GridLaunch:
    """Return the launch of an expression over five elements."""
    given = [(dtype, Slot(f"a{k}")) for k, dtype in enumerate(sources)]
    return typed_launch((Expression.parse(text),), given, [(target, Slot("y"))], [(5, (1,) * (len(sources) + 1))])


@pytest.mark.parametrize("dtype", sorted(WHOLE - {DataType.BOOL}, key=str), ids=str)
def test_numbers_of_formulas_have_the_type_of_what_they_meet(dtype: DataType) -> None:
    X, Y = there(np.array([0, 1, 2, 100, 120]).astype(dtype.numpy)), there(np.zeros(5, dtype.numpy))
    run(launch("where(a0 < 3, a0 * 2, a0 - 1) + 7", [dtype], dtype), a0=X, y=Y)
    np.testing.assert_array_equal(Y.plain(), [7, 9, 11, 106, 126])


def test_integers_are_not_cut() -> None:
    """As on the CPU, whose words these are."""
    both = DataType.INT64, DataType.INT32
    for computed, target in (both, both[::-1]):
        with pytest.raises(UnsupportedError, match=f"it computes {computed}, not {target}"):
            launch("a0 + a0", [computed], target)
        with pytest.raises(UnsupportedError, match=f"it computes {computed}, not {target}"):
            launch("a0 + 1", [computed], target)
    with pytest.raises(UnsupportedError, match=r"0\.5 is no int32"):
        launch("a0 * 0.5", [DataType.INT32], DataType.INT32)
    X, Y = there(np.array([0, 3, 2, -1, 0], np.int32)), there(np.zeros(5, bool))
    run(launch("a0 + a0", [DataType.INT32], DataType.BOOL), a0=X, y=Y)
    np.testing.assert_array_equal(Y.plain(), [False, True, True, True, False])


def prepared(type: str, place: Place, given: list[TensorSpec], made: DataType) -> str:
    """Return why an operator's formula is not compiled for a place, or nothing."""
    op = SCHEMAS[type].view(operator_def(type, [f"x{k}" for k in range(len(given))], ["y"]))
    inputs, output = [replace(spec, place=place) for spec in given], TensorSpec(given[0].shape, made, place)
    prepare = cuda.prepare_formula if place == DEVICE else native.prepare_formula
    try:
        answer = answered(lambda: taken(prepare(op, current_context(place), inputs, [output])))
    except DTypeError as error:  # the schema says it before
        return error.message
    return answer.reason if isinstance(answer, Unsupported) else ""


def test_both_devices_take_the_same_formulas_of_integers() -> None:
    """Each operator of one or two blobs whose formula it is, in each type."""
    compared = 0
    for type in SCHEMAS:
        schema = SCHEMAS[type]
        required = any(one.required for one in schema.args.values())
        plain = len(schema.outputs) == 1 and not any(one.variadic for one in (*schema.inputs, *schema.outputs))
        if schema.formulas is None or required or not plain or len(schema.inputs) > 2:
            continue
        for dtype, made in itertools.product((DataType.INT32, DataType.INT64, DataType.UINT8), repeat=2):
            given = [TensorSpec((2, 3), dtype)] * len(schema.inputs)
            answers = [prepared(type, place, given, made) for place in (CPU, DEVICE)]
            assert (answers[0] == "") >= (answers[1] == ""), (type, dtype, made, answers)
            compared += not any(answers)
    assert compared > 10


def test_a_number_of_the_host_and_what_is_repeated() -> None:
    X, Y = there(np.arange(6, dtype=np.int64).reshape(2, 3)), there(np.zeros((2, 3), np.int64))
    row, n = there(np.array([10, 20, 30], np.int64)), Tensor.from_numpy(np.array([7], np.int64))
    sources = [(DataType.INT64, Slot("x")), (DataType.INT64, Slot("row")), (DataType.INT64, Held(Slot("n")))]
    axes = [(2, (3, 0, 0, 3)), (3, (1, 1, 0, 1))]
    launch = typed_launch((Expression.parse("a0 * a2 + a1"),), sources, [(DataType.INT64, Slot("y"))], axes)
    run(launch, x=X, row=row, n=n, y=Y)
    np.testing.assert_array_equal(Y.plain(), [[10, 27, 44], [31, 48, 65]])
