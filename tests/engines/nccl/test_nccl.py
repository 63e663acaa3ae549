"""Collectives of GPUs: numbers, places, types, by all types of net; a world of one where there is one GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import device_option, initialize_devices
from tazza.errors import ArgumentError, PlaceError, ShapeError, TazzaError, UnavailableError
from tazza.operator import operator_def
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import CUDAPlace
from tazza.workspace import Workspace
from tests.cuda_there import why_no_device

Array = NDArray[Any]
ONE_GPU = why_no_device() is None and CUDAPlace(1) not in initialize_devices().present
on_two = pytest.mark.skipif(ONE_GPU, reason="two GPUs are asked for")


def worlds() -> list[int]:
    """Return of how many GPUs worlds can be."""
    return [1] if ONE_GPU else [1, 2]


def values(count: int, *shape: int, kind: Any = np.float32) -> list[Array]:
    """Return numbers for each GPU, the same in every run."""
    draw = np.random.default_rng(count)
    return [draw.integers(-8, 8, shape).astype(kind) for _ in range(count)]


def collected(type: str, given: list[Array], outputs: list[str], net: str = "simple", **arguments: Any) -> list[Array]:
    """Run a collective on as many GPUs as there are inputs, twice; return the outputs, each from where it should be."""
    workspace = Workspace()
    names = [f"x{number}" for number in range(len(given))]
    for number, value in enumerate(given):
        workspace.feed(names[number], value, CUDAPlace(number))
    made = operator_def(type, names, outputs, **arguments)
    made.device_option.CopyFrom(device_option(CUDAPlace(0)))
    created = workspace.create_net(NetDef(name="n", type=net, op=[made]))
    created.run()
    if not set(names) & set(outputs):
        created.run()
    places = [workspace.blob(name).tensor().place for name in outputs]
    first = arguments.get("root", 0) if type == "NCCLReduce" else 0
    assert places == [CUDAPlace(first + number) for number in range(len(outputs))]
    return [np.asarray(workspace.fetch(name)) for name in outputs]


def alike(found: list[Array], wanted: list[Array]) -> None:
    """Assert that arrays are equal, one by one."""
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("count", worlds())
def test_sums_for_all(count: int, kind: Any) -> None:
    given = values(count, 3, 5, kind=kind)
    alike(collected("NCCLAllreduce", given, [f"y{n}" for n in range(count)]), [np.sum(given, axis=0)] * count)
    alike(collected("NCCLAllreduce", given, [f"x{n}" for n in range(count)]), [np.sum(given, axis=0)] * count)


@pytest.mark.parametrize("count", worlds())
def test_what_one_has_for_all(count: int) -> None:
    given = values(count, 4)
    for root in range(count):
        found = collected("NCCLBroadcast", given, [f"x{n}" for n in range(count)], root=root)
        alike(found, [given[root]] * count)


@pytest.mark.parametrize("count", worlds())
def test_a_sum_for_one(count: int) -> None:
    given = values(count, 4, 2)
    for root in range(count):
        alike(collected("NCCLReduce", given, ["y"], root=root), [np.sum(given, axis=0)])
    alike(collected("NCCLReduce", given, ["x0"]), [np.sum(given, axis=0)])


@pytest.mark.parametrize("count", worlds())
def test_all_behind_each_other(count: int) -> None:
    given = values(count, 3, 2)
    alike(collected("NCCLAllGather", given, [f"y{n}" for n in range(count)]), [np.stack(given)] * count)


@pytest.mark.parametrize("count", worlds())
def test_a_row_of_the_sum_for_each(count: int) -> None:
    given = values(count, count, 3)
    alike(collected("NCCLReduceScatter", given, [f"y{n}" for n in range(count)]), list(np.sum(given, axis=0)))


@pytest.mark.parametrize("net", ["simple", "dag", "async_scheduling", "plan"])
@pytest.mark.parametrize("count", worlds())
def test_what_stands_before_and_behind_on_other_gpus_is_ordered(net: str, count: int) -> None:
    workspace, ops = Workspace(), list[OperatorDef]()
    for n, value in enumerate(values(count, 40)):
        workspace.feed(f"x{n}", value, CUDAPlace(n))
        ops.append(operator_def("Scale", [f"x{n}"], [f"s{n}"], scale=2.0, device=device_option(CUDAPlace(n))))
    names = [f"s{n}" for n in range(count)]
    ops.append(operator_def("NCCLAllreduce", names, names, device=device_option(CUDAPlace(0))))
    for n in range(count):
        ops.append(operator_def("Scale", [f"s{n}"], [f"y{n}"], scale=3.0, device=device_option(CUDAPlace(n))))
    created = workspace.create_net(NetDef(name="n", type=net, op=ops))
    for _ in range(3):
        created.run()
        wanted = 6 * np.sum(values(count, 40), axis=0)
        alike([np.asarray(workspace.fetch(f"y{n}")) for n in range(count)], [wanted] * count)


def test_nothing_is_summed_at_once() -> None:
    assert collected("NCCLAllreduce", [np.zeros((0, 3), np.float32)], ["y"])[0].shape == (0, 3)


@on_two
@pytest.mark.parametrize(
    ("type", "shapes", "arguments", "error", "told"),
    [
        ("NCCLAllreduce", [(3,), (4,)], {}, ArgumentError, "the first input"),
        ("NCCLReduceScatter", [(3, 2), (3, 2)], {}, ShapeError, "3 rows for 2 GPUs"),
        ("NCCLBroadcast", [(3,), (3,)], {"root": 2}, ArgumentError, "root = 2"),
    ],
)
def test_what_does_not_fit(type: str, shapes: Any, arguments: Any, error: Any, told: str) -> None:
    given = [np.zeros(shape, np.float32) for shape in shapes]
    names = ["x0", "x1"] if type == "NCCLBroadcast" else ["y0", "y1"]
    with pytest.raises(error, match=told):
        collected(type, given, names, **arguments)


def test_each_input_lies_on_a_gpu_of_its_own() -> None:
    workspace = Workspace()
    workspace.feed("here", np.zeros(3, np.float32))
    for name in "ab":
        workspace.feed(name, np.zeros(3, np.float32), CUDAPlace(0))
    for names, told in ((["here", "a"], "lies at cpu"), (["a", "b"], "two inputs on cuda:0")):
        made = operator_def("NCCLAllreduce", names, names, device=device_option(CUDAPlace(0)))
        with pytest.raises(PlaceError, match=told):
            workspace.run_operator(made)
    with pytest.raises(UnavailableError, match="to stand on a GPU"):
        workspace.run_operator(operator_def("NCCLAllreduce", ["here"], ["here"]))
    assert issubclass(PlaceError, TazzaError)
