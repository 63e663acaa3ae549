"""Random fills: bit for bit what the genuine Caffe2 drew, over several runs of one operator; and what is refused."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from tazza.codegen import kernel
from tazza.codegen.kernel import unavailable
from tazza.errors import ArgumentError, SchemaError, ShapeError
from tazza.operator import operator_def, run_op
from tazza.proto import DeviceOption, NetDef
from tazza.runtime.native_code import Processor, processor
from tazza.workspace import Workspace
from tests.traced import at_most

RECORDED: list[tuple[str, dict[str, Any], int, int]] = [
    ("UniformFill", {"shape": [7, 143]}, 1, 0xB673F356),
    ("UniformFill", {"shape": [7, 143]}, 4294967295, 0xDF01EBE2),
    ("UniformFill", {"shape": [1001], "min": -0.3, "max": 5e6}, 1, 0x78AEDBAD),
    ("UniformFill", {"shape": [1001], "min": -0.3, "max": 5e6}, 4294967295, 0xC97A3EFB),
    ("UniformIntFill", {"shape": [13, 77], "min": -5, "max": 5}, 1, 0x29ADCF9B),
    ("UniformIntFill", {"shape": [13, 77], "min": -5, "max": 5}, 4294967295, 0xB6063918),
    ("UniformIntFill", {"shape": [1001], "min": -(2**31), "max": 2**31 - 1}, 1, 0x0C50CBC9),
    ("UniformIntFill", {"shape": [1001], "min": -(2**31), "max": 2**31 - 1}, 4294967295, 0x6836CF35),
    ("GaussianFill", {"shape": [1001]}, 1, 0x150FA16D),
    ("GaussianFill", {"shape": [1001]}, 4294967295, 0xF7CF2404),
    ("GaussianFill", {"shape": [3, 5], "mean": 1.5, "std": 0.1}, 1, 0xDFF7C0BB),
    ("GaussianFill", {"shape": [3, 5], "mean": 1.5, "std": 0.1}, 4294967295, 0x9BD51AB2),
    ("GaussianFill", {"shape": [1]}, 1, 0x280ED2D5),
    ("GaussianFill", {"shape": [1]}, 4294967295, 0xC16B4028),
    ("GaussianFill", {"shape": [512], "mean": -3.0, "std": 100.0}, 1, 0x9E99FF22),
    ("GaussianFill", {"shape": [512], "mean": -3.0, "std": 100.0}, 4294967295, 0xB71677A7),
    ("UniformFill", {"shape": [131075]}, 1, 0xC4E1AC2B),
    ("UniformIntFill", {"shape": [131075], "min": -5, "max": 5}, 1, 0xF807C28E),
    ("GaussianFill", {"shape": [131075]}, 1, 0xBAE95C06),
    ("XavierFill", {"shape": [20, 5, 3, 3]}, 1, 0x4C8017F6),
    ("XavierFill", {"shape": [20, 5, 3, 3]}, 4294967295, 0x4571736C),
    ("XavierFill", {"shape": [3]}, 1, 0xAE4B0FD9),
    ("XavierFill", {"shape": [3]}, 4294967295, 0x87FABBF1),
    ("MSRAFill", {"shape": [7, 5, 3, 3]}, 1, 0x14FB7A6D),
    ("MSRAFill", {"shape": [7, 5, 3, 3]}, 4294967295, 0xCF298A88),
    ("MSRAFill", {"shape": [2, 5]}, 1, 0x3D7C47C1),
    ("MSRAFill", {"shape": [2, 5]}, 4294967295, 0x54DB2DB0),
]
"""Operator, arguments, seed, and the CRC-32 of what three runs of one operator of Caffe2 1.8.1 gave."""


ONE = np.ones(1, np.float32)
ENGINES = ["reference", *(["native"] if unavailable() is None else [])]


def seeded(type: str, output: str, seed: int | None, engine: str = "", **arguments: Any) -> Any:
    """Return a fill with a seed in its device option."""
    device = DeviceOption() if seed is None else DeviceOption(random_seed=seed)
    return operator_def(type, [], [output], device=device, engine=engine, **arguments)


def drawn(definition: Any, runs: int) -> tuple[list[Any], Any]:
    """Return what runs of one operator give, by the engine that it names, and the state that they leave."""
    ws = Workspace()
    net = ws.create_net(NetDef(name="fill", op=[definition]))
    found: list[Any] = []
    for _ in range(runs):
        net.run()
        found.append(np.array(ws.fetch("y")))
    assert net.explain().rows[0].engine == definition.engine
    (generator,) = net.generators().values()
    return found, generator.state()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("type", "args", "seed", "crc"), RECORDED)
def test_equal_to_caffe2_to_the_last_bit(type: str, args: dict[str, Any], seed: int, crc: int, engine: str) -> None:
    found, _ = drawn(seeded(type, "y", seed, engine, **args), 3)
    assert zlib.crc32(b"".join(one.tobytes() for one in found)) == crc


@pytest.mark.skipif(len(ENGINES) < 2, reason="nothing can be compiled")
@pytest.mark.parametrize("type", ["UniformFill", "UniformIntFill", "GaussianFill", "XavierFill", "MSRAFill"])
@pytest.mark.parametrize("vector_bytes", [64, 32, 16])
def test_engines_leave_one_state(type: str, vector_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half pairs, ends of the twister's words and of what is drawn at a time lie anywhere; so do narrower vectors."""
    features = {64: processor().features, 32: "+avx2", 16: ""}[vector_bytes]
    monkeypatch.setattr(kernel, "processor", lambda: Processor(processor().name, features))
    for shape in ([0, 3], [1, 3], [7, 89], [5, 499], [3, 1664]):
        numbers, states = zip(*(drawn(seeded(type, "y", 5, engine, shape=shape), 3) for engine in ENGINES), strict=True)
        np.testing.assert_array_equal(*numbers)
        np.testing.assert_array_equal(*states)


@pytest.mark.parametrize(("low", "high"), [(-(2**31), 2**31 - 2), (3, 2**31 - 1), (0, 1), (-1, 2**30)])
def test_remainders_of_any_span(low: int, high: int) -> None:
    definitions = [seeded("UniformIntFill", "y", 9, engine, shape=[4001], min=low, max=high) for engine in ENGINES]
    first, *others = (drawn(definition, 1)[0] for definition in definitions)
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("type", ["UniformFill", "UniformIntFill", "GaussianFill"])
def test_a_large_fill_takes_little_beside_it(type: str) -> None:
    definition, ws = seeded(type, "y", 1, shape=[3_000_000]), Workspace()
    ws.run_operator(definition)
    with at_most(2 * 12_000_000):
        ws.run_operator(seeded(type, "z", 1, shape=[3_000_000]))
    np.testing.assert_array_equal(ws.fetch("z"), ws.fetch("y"))


def test_each_operator_has_a_generator_that_goes_on() -> None:
    net = NetDef(name="g", op=[seeded("GaussianFill", output, 7, shape=[3]) for output in "ab"])
    ws = Workspace()
    ws.create_net(net)
    ws.run_net("g")
    a, b = ws.fetch("a"), ws.fetch("b")
    ws.run_net("g")
    second = ws.fetch("a")
    ws.run_net_once(net)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a, ws.fetch("a"))
    assert not np.array_equal(a, second)
    six = run_op("GaussianFill", device=DeviceOption(random_seed=7), shape=[6])
    np.testing.assert_array_equal(np.concatenate([a, second]), six)


def test_without_a_seed_every_operator_differs() -> None:
    first, second = (run_op("UniformFill", shape=[5]) for _ in range(2))
    assert not np.array_equal(first, second)


def test_scales_and_ranges() -> None:
    """Xavier counts the elements over the first dimension, MSRA those over the second; int ranges include the end."""
    device = DeviceOption(random_seed=3)
    msra = run_op("MSRAFill", shape=[200, 50, 3, 3], device=device)
    assert round(float(msra.std()) * (200 * 9 / 2) ** 0.5, 1) == 1.0
    xavier = run_op("XavierFill", shape=[200, 50, 3, 3], device=device)
    assert round(float(abs(xavier).max()) * (50 * 9 / 3) ** 0.5, 2) == 1.0
    assert set(run_op("UniformIntFill", shape=[999], min=0, max=3, device=device).tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("type", ["UniformFill", "UniformIntFill", "GaussianFill", "XavierFill", "MSRAFill"])
def test_shapes(type: str) -> None:
    assert run_op(type, shape=[0, 3]).shape == (0, 3)
    assert run_op(type, np.zeros((2, 3)), extra_shape=[5]).shape == (2, 3, 5)
    assert run_op(type, np.array([2, 3]), input_as_shape=1).shape == (2, 3)


def test_range_from_blobs() -> None:
    device, X = DeviceOption(random_seed=3), np.zeros((2, 3), np.float32)
    drawn = run_op("UniformFill", X, ONE * 2, np.float32(3), device=device)
    np.testing.assert_array_equal(drawn, run_op("UniformFill", X, min=2.0, max=3.0, device=device))
    assert run_op("UniformFill", X, ONE * 2, ONE * 2).tolist() == [[2, 2, 2]] * 2, "a range of one number, as in Caffe2"
    assert run_op("UniformIntFill", X, np.int32(5), np.int32(5)).tolist() == [[5, 5, 5]] * 2
    assert run_op("UniformIntFill", X, np.int32(2), np.array([3], np.int32), device=device).tolist() == [
        [2, 2, 3],
        [3, 2, 2],
    ]


@pytest.mark.parametrize(("type", "dtype"), [("UniformFill", np.float32), ("UniformIntFill", np.int32)])
def test_nothing_is_drawn_from_an_empty_range(type: str, dtype: type[Any]) -> None:
    """As in Caffe2: the first extent is 0, and back again when the inputs change."""
    low, high = np.array(5, dtype), np.array(3, dtype)
    drawn = run_op(type, np.array([2, 7]), low, high, input_as_shape=1)
    assert drawn.shape == (0, 7)
    assert run_op(type, np.zeros((2, 7), np.float32), low, high, extra_shape=[4]).shape == (0, 7, 4)
    assert run_op(type, np.array([2, 7]), high, low, input_as_shape=1).shape == (2, 7)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("UniformFill", [], {"min": 1.0, "max": 1.0}, ArgumentError, "min = 1.0 is not below max = 1.0"),
    ("UniformFill", [], {"min": 2.0}, ArgumentError, "min = 2.0 is not below max = 1.0"),
    ("UniformFill", [], {"min": 0}, ArgumentError, "'min' wants float"),
    ("UniformFill", [ONE, ONE], {}, SchemaError, "does not take 2 inputs"),
    ("UniformFill", [ONE, ONE, ONE * 2], {"max": 3.0}, ArgumentError, "max are given as arguments and as inputs"),
    ("UniformFill", [np.zeros((), np.float32), ONE * 2, ONE], {}, ArgumentError, "min = 2.0 is above max = 1.0"),
    ("UniformFill", [ONE, np.zeros(2, np.float32), ONE], {}, ShapeError, "low has 2 elements, it must have 1"),
    ("UniformIntFill", [], {"min": 3, "max": 2}, ArgumentError, "min = 3 is not below max = 2"),
    ("UniformIntFill", [], {"max": 2**31}, ArgumentError, "'max' = 2147483648 is above its maximum"),
    ("GaussianFill", [], {"std": -1.0}, ArgumentError, "'std' = -1.0 is below its minimum"),
    ("XavierFill", [], {}, ShapeError, "Y has 0 dimensions, fan-in is its size over dimension 0"),
    ("MSRAFill", [], {"shape": [3]}, ShapeError, "Y has 1 dimensions, fan-out is its size over dimension 1"),
    ("MSRAFill", [ONE], {"shape": [3, 2]}, ArgumentError, "is given, and an input too"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
