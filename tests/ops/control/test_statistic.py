"""Statistics by name: registries, that of the process, and what operators put there; by plain sums."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tazza.errors import ArgumentError, DTypeError, NumericError, ShapeError
from tazza.nets import create_net
from tazza.operator import operator_def, run_op
from tazza.ops.control import statistic
from tazza.ops.control.statistic import LAST, StatRegistry
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences, recorded

PUTS = ("AveragePut", "IncrementPut", "StdDevPut")
NOW = 1_700_000_000_000_000_000


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a registry of the process that knows nothing, and a clock that stands still."""
    monkeypatch.setattr(statistic, "OF_PROCESS", StatRegistry())
    monkeypatch.setattr(statistic, "wall_ns", lambda: NOW)


def keys(*names: bytes) -> np.ndarray[Any, Any]:
    return np.array(names, object)


EXPORT = operator_def("StatRegistryExport", ["r"], ["k", "v", "t"])
KEPT = operator_def("StatRegistryExport", ["r"], ["k", "v", "t"], reset=0)
UPDATE = operator_def("StatRegistryUpdate", ["k", "v", "r"], [])
GIVEN = {"k": keys(b"cups", b"spoons", b"cups"), "v": np.array([2, 5, 40])}
TIMES = np.array([NOW, NOW])
CASES = [
    recorded("statistics"),
    Sequence(
        "a registry",
        (
            Step(operator_def("StatRegistryCreate", [], ["r"])),
            Step(UPDATE, {}, GIVEN),
            Step(KEPT, {"k": keys(b"cups", b"spoons"), "v": np.array([42, 5]), "t": TIMES}),
            Step(UPDATE, {}, {"k": keys(b"spoons").reshape(1, 1), "v": np.array([-1])}),
            Step(EXPORT, {"k": keys(b"cups", b"spoons"), "v": np.array([42, 4]), "t": TIMES}),
            Step(EXPORT, {"k": keys(b"cups", b"spoons"), "v": np.array([0, 0])}),
            Step(operator_def("StatRegistryCreate", [], ["r"])),
            Step(EXPORT, {"k": keys(), "v": np.zeros(0, np.int64), "t": np.zeros(0, np.int64)}),
        ),
    ),
]


@on_sequences(CASES)
def test_registries(case: Sequence) -> None:
    check_op(case)


def test_that_of_the_process() -> None:
    run_op("StatRegistryUpdate", *GIVEN.values())
    found = run_op("StatRegistryExport", outputs=3)
    assert [one.tolist() for one in found] == [[b"cups", b"spoons"], [42, 5], [NOW, NOW]]


def put(type: str, values: list[Any], **arguments: Any) -> dict[str, int]:
    """Return what one operator leaves that puts one value after the other."""
    home = Workspace()
    home.feed("x", values[0])
    net = create_net(NetDef(name="n", type="simple", op=[operator_def(type, ["x"], [], **arguments)]), home)
    for value in values:
        home.feed("x", value)
        net.run()
    net.close()
    return statistic.OF_PROCESS.export(reset=True)


@pytest.mark.parametrize("dtype", ["f", "d", "e", "i", "q", "b", "B", "h", "H"])
def test_values_are_summed(dtype: str) -> None:
    values = [np.array([value, 99], dtype) for value in (5, 2, 9)]
    assert put("IncrementPut", values) == {"x/stat_value": 16}
    found = put("AveragePut", values, stat_name="s", magnitude_expand=100)
    assert found.items() >= {"s/stat_value/sum": 1600, "s/stat_value/count": 3}.items()
    found = put("StdDevPut", values)
    above = {"x/stat_value/sumoffset": -3 + 4, "x/stat_value/sumsqoffset": 9 + 16}
    assert found.items() >= {"x/stat_value/sum": 16, "x/stat_value/count": 3, **above}.items()


@pytest.mark.parametrize(
    ("value", "arguments", "wanted"),
    [
        (1.9, {}, 1),
        (-1.9, {}, -1),
        (0.7, {"magnitude_expand": 10}, 7),
        (1e30, {"bound": 1}, LAST),
        (-np.inf, {"bound": 1}, -LAST - 1),
        (np.nan, {"bound": 1}, 0),
        ([], {"default_value": 2.5, "magnitude_expand": 10}, 25),
    ],
)
def test_a_value_becomes_a_whole_number(value: Any, arguments: dict[str, Any], wanted: int) -> None:
    found = put("IncrementPut", [np.array(value, np.float32)], **arguments)
    assert found == {"x/stat_value": wanted}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=st.one_of(st.floats(), st.sampled_from([2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 255.5, -0.5])),
    dtype=st.sampled_from([np.uint8, np.int32, np.int64]),
    bound=st.booleans(),
)
def test_what_counts_for_no_element_is_a_number_of_its_type_or_an_error(value: float, dtype: Any, bound: bool) -> None:
    value = float(np.float32(np.clip(value, -3e38, 3e38)))
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    within = least - 1 < value < most + 1
    if not within and not bound:
        with pytest.raises(NumericError, match="default_value"):
            put("IncrementPut", [np.zeros(0, dtype)], default_value=value)
        return
    wanted = int(value) if within else 0 if math.isnan(value) else least if value < 0 else most
    statistic.OF_PROCESS.export(reset=True)
    assert put("IncrementPut", [np.zeros(0, dtype)], default_value=value, bound=bound) == {"x/stat_value": wanted}


def test_names_are_there_before_values() -> None:
    with pytest.raises(ShapeError, match=r"(?s)'in0' has 0 elements.*default_value"):
        run_op("AveragePut", np.zeros(0), stat_name="s")
    assert statistic.OF_PROCESS.export(reset=True) == {"s/stat_value/sum": 0, "s/stat_value/count": 0}


@pytest.mark.parametrize("type", PUTS)
def test_what_leaves_64_bits_is_refused(type: str) -> None:
    for value in (np.float32(1e30), np.float32(np.inf), np.float64(np.nan)):
        with pytest.raises(NumericError, match=r"(?s)times magnitude_expand = 1 is not within 64 bits.*bound=1"):
            run_op(type, np.array([value]))
    with pytest.raises(NumericError, match="magnitude_expand = 4"):
        run_op(type, np.array([2**62]), magnitude_expand=4)


def test_refused() -> None:
    registry = StatRegistry()
    registry.add({"cups": LAST})
    with pytest.raises(NumericError, match="'cups' would be"):
        run_op("StatRegistryUpdate", keys(b"cups", b"spoons"), np.array([1, 1]), registry)
    assert registry.export(reset=False) == {"cups": LAST}
    with pytest.raises(ShapeError, match="there are 2 keys for 1 values"):
        run_op("StatRegistryUpdate", keys(b"a", b"b"), np.array([1]), registry)
    with pytest.raises(DTypeError, match="X is bool"):
        run_op("AveragePut", np.array([True]))
    with pytest.raises(ArgumentError, match="magnitude_expand"):
        run_op("AveragePut", np.array([1.0]), magnitude_expand=0)


def test_threads_lose_nothing() -> None:
    def act() -> None:
        for _ in range(200):
            statistic.OF_PROCESS.add({"n": 1})

    threads = [threading.Thread(target=act) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statistic.OF_PROCESS.export(reset=False) == {"n": 600}
