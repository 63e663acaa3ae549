"""Operators on tensors without a net: kept, right, and with nothing of another call's."""

from __future__ import annotations

import doctest
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

import tazza.array as ta
from tazza.device import device_option
from tazza.errors import ArgumentError, BlobTypeError, ShapeError, UnknownOperatorError
from tazza.graph.text import parse_net
from tazza.operator import SCHEMAS, definition_hooks, engine, kernel, prefer_engines
from tazza.operator.engine import ENGINES
from tazza.operator.function import forget_function, register_function
from tazza.operator.kernel import KERNELS
from tazza.operator.prepared import COPIED_BYTES, KEPT
from tazza.ops.nn.relu import RELU
from tazza.tensor import Tensor, channels_last
from tazza.tensor.running import run_op

LARGE = COPIED_BYTES // 4 + 1


@pytest.fixture
def made() -> Iterator[list[str]]:
    """Give the types of operators that are made from now on."""
    types: list[str] = []

    def hook(definition: Any) -> None:
        types.append(definition.type)

    definition_hooks.append(hook)
    yield types
    definition_hooks.remove(hook)


def test_a_call_like_another_makes_no_operator(made: list[str]) -> None:
    def clip(x: Any, **arguments: Any) -> Tensor:
        return run_op("Clip", x, engine="reference", **arguments)

    clip(np.zeros(1, np.float32))  # the first call of a process loads what declares flags, on which kept ones depend
    made.clear()
    for value in (1, 2, 3):
        x = np.full((2, 3), -value, np.float32)
        assert np.all(clip(x, min=-2.0, max=9.0).plain() == max(-value, -2))
    assert len(made) == 1
    clip(np.zeros((2, 3), np.float32), min=-3.0, max=9.0)
    clip(np.zeros((3, 2), np.float32), min=-2.0, max=9.0)
    assert len(made) == 3
    for i in range(KEPT + 1):
        clip(np.zeros(1, np.float32), min=-1.0 - i)
    made.clear()
    clip(np.zeros((2, 3), np.float32), min=-2.0, max=9.0)
    assert made == ["Clip"], "the oldest was dropped"


@pytest.mark.parametrize("size", [5, LARGE])
def test_results_belong_to_the_caller(size: int) -> None:
    x = Tensor.from_numpy(np.arange(size, dtype=np.float32))
    first = run_op("Relu", x)
    x.numpy()[:] = -1
    second = run_op("Relu", x)
    assert np.array_equal(first.plain(), np.arange(size))
    assert np.all(second.plain() == 0)
    first.numpy()[:] = 7
    assert np.all(second.plain() == 0)
    assert np.all(x.plain() == -1)


def test_large_tensors_are_not_kept() -> None:
    x = Tensor.from_numpy(np.ones(LARGE, np.float32))
    y = run_op("Relu", x)
    tensors = [weakref.ref(x), weakref.ref(y)]
    del x, y
    gc.collect()
    assert [ref() for ref in tensors] == [None, None]


@pytest.mark.parametrize("extent", [3, LARGE])
def test_what_an_operator_overwrites_is_a_copy(extent: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, extent)).astype(np.float32)
    ones, zeros = np.ones(extent, np.float32), np.zeros(extent, np.float32)
    mean = Tensor.from_numpy(zeros)
    outputs = run_op("SpatialBN", x, ones, zeros, mean, ones, is_test=0, momentum=0.5, outputs=5)
    assert np.all(mean.plain() == 0)
    assert np.allclose(outputs[1].plain(), x.mean(0) / 2, atol=1e-5)
    again = run_op("SpatialBN", x, ones, zeros, mean, ones, is_test=0, momentum=0.5, outputs=5)
    assert np.array_equal(again[1].plain(), outputs[1].plain())


def test_rows_are_scattered_into_a_copy() -> None:
    x = np.array([1, 2, 3], np.float32)
    found = run_op("ScatterWeightedSum", x, [0.5], [2, 0], [10.0, 20.0], [1.0])
    assert found.plain().tolist() == [20.5, 2, 11.5]
    assert x.tolist() == [1, 2, 3]


def test_conv_in_any_layout() -> None:
    rng = np.random.default_rng(1)
    X, W = rng.standard_normal((2, 3, 5, 7)).astype(np.float32), rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    laid = Tensor(X.shape, layout=channels_last(X.shape))
    laid.array[...] = X
    expected = run_op("Conv", X, W, kernel=3, engine="reference").plain()
    for _ in range(2):
        assert np.allclose(run_op("Conv", laid, W, kernel=3).plain(), expected, atol=1e-4)


def test_what_an_operator_takes_beside_tensors() -> None:
    x = np.array([[-1, 2]], np.float32)
    assert run_op("Relu", ta.lazy(ta.asarray(x)) * 3).plain().tolist() == [[0, 6]]
    with pytest.raises(BlobTypeError, match="holds a QTensor"):
        run_op("Relu", ta.quantize(x, 4))


def test_random_numbers_are_those_of_a_new_operator() -> None:
    seeded = device_option(random_seed=7)
    first, second = (run_op("UniformFill", shape=[4], device=seeded).plain() for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(*(run_op("UniformFill", shape=[4]).plain() for _ in range(2)))


def test_state_is_not_kept() -> None:
    assert [run_op("Iter").plain().tolist() for _ in range(2)] == [[1], [1]]
    counter = np.array([5])
    assert run_op("Iter", counter).plain().tolist() == [6]
    assert counter.tolist() == [5]


def test_threads() -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        for i in range(40):
            x = np.full((2, 3 + i % 2), seed + i, np.float32)
            if not np.all(run_op("Mul", x, x).plain() == (seed + i) ** 2):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


def test_an_operator_may_call_another_of_its_kind() -> None:
    def countdown(X: Tensor) -> Tensor:
        left = X.plain()
        return run_op("TestCountdown", left - 1) if np.any(left > 0) else X

    register_function(countdown, "TestCountdown")
    try:
        run_op("TestCountdown", [2.0])
        assert run_op("TestCountdown", [3.0]).plain().tolist() == [0]
    finally:
        forget_function("TestCountdown")


def test_a_preference_is_heeded() -> None:
    engine("test of preferences", "adds 1")

    @kernel(RELU, engine="test of preferences")
    def plus_one(X: Any, Y: Any) -> None:
        Y[...] = X + 1

    try:
        x = np.zeros(2, np.float32)
        run_op("Relu", x)
        prefer_engines(["test of preferences"], operator="Relu")
        assert run_op("Relu", x).plain().tolist() == [1, 1]
        prefer_engines([], operator="Relu")
        assert run_op("Relu", x).plain().tolist() == [0, 0]
        assert run_op("Relu", x, engine="test of preferences").plain().tolist() == [1, 1]
    finally:
        prefer_engines([], operator="Relu")
        KERNELS.unregister(("Relu", "cpu", "test of preferences"))
        ENGINES.unregister("test of preferences")


def test_mistakes_are_those_of_the_operator_and_leave_nothing() -> None:
    x = np.ones((2, 3), np.float32)
    for _ in range(2):
        with pytest.raises(ShapeError, match="in operator MatMul"):
            run_op("MatMul", x, x)
        with pytest.raises(ArgumentError, match="no argument 'alpha'"):
            run_op("Relu", x, alpha=1.0)
        with pytest.raises(UnknownOperatorError, match="Rellu"):
            run_op("Rellu", x)
        with pytest.raises(BlobTypeError):
            run_op("Relu", b"text")
    assert run_op("MatMul", x, x, trans_b=1).plain().tolist() == [[3, 3], [3, 3]]


@pytest.mark.slow  # what the tests above show of some operators, on each
def test_the_examples_of_all_operators_twice() -> None:
    """A kept operator gives what a new one gives: each example is run two times, the second with what was kept."""

    def told(result: Tensor) -> Any:
        return np.array(result.plain()) if result.spec.quantization is None else result.fetched()

    def run(type: str, *inputs: Any, **arguments: Any) -> Any:
        options: dict[str, Any] = {"engine": "reference"} | arguments
        results = run_op(type, *inputs, **options)
        plain = [told(one) if isinstance(one, Tensor) else one for one in _listed(results)]
        return tuple(plain) if isinstance(results, tuple) else plain[0]

    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    failures: list[str] = []
    for name in sorted(SCHEMAS.keys()):
        examples = parser.get_examples(SCHEMAS[name].example, name)
        for _ in range(2):
            names = {"run": run, "np": np, "net": parse_net}
            runner.run(doctest.DocTest(examples, names, name, None, 0, None), out=failures.append)
    assert not failures, "".join(failures)


def _listed(results: Any) -> list[Any]:
    return list(cast("tuple[Any, ...]", results)) if isinstance(results, tuple) else [results]


def double(X: Tensor) -> Tensor:
    """Y = 2 X."""
    return X * 2


def negative(X: Tensor) -> Tensor:
    """Y = -X."""
    return -X


def test_what_was_registered_anew_runs() -> None:
    x = np.ones(3, np.float32)
    try:
        register_function(double, "TestAnew")
        assert [run_op("TestAnew", x).tolist() for _ in range(2)] == [[2, 2, 2]] * 2
        register_function(negative, "TestAnew", priority=1)
        assert run_op("TestAnew", x).tolist() == [-1, -1, -1]
        forget_function("TestAnew")
        register_function(double, "TestAnew")
        assert run_op("TestAnew", x).tolist() == [2, 2, 2]
    finally:
        forget_function("TestAnew")
    with pytest.raises(UnknownOperatorError):
        run_op("TestAnew", x)


def test_zeros_of_both_signs_are_two_arguments(made: list[str]) -> None:
    x = np.ones(3, np.float32)
    signs = [bool(np.signbit(run_op("Scale", x, scale=zero).plain()).all()) for zero in (0.0, -0.0, 0.0)]
    assert signs == [False, True, False]
    assert made == ["Scale", "Scale"]
