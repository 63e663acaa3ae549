"""What could go wrong in plans: threads, clones, values of before, failures half-way."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tazza.interop import Predictor
from tazza.nets.plan import PlanNet
from tazza.nets.plan.instance import Instance
from tazza.operator import operator_def
from tazza.proto import OperatorDef
from tazza.workspace import Workspace
from tests.nets.plans import Array, by_simple, convolutions, draw, feed_convolutions, plan


@pytest.fixture
def ws() -> Workspace:
    made = Workspace()
    feed_convolutions(made)
    return made


@pytest.mark.slow
def test_seats_that_start_at_once_do_not_move_each_others_weights() -> None:
    """Two threads bind the same weights for two shapes; each must read them as they lie when it runs."""
    ws = Workspace()
    feed_convolutions(ws)
    wanted = {batch: draw(batch, 8, 7, 6, seed=batch) for batch in (1, 9)}
    expected: dict[int, Array] = {}
    for batch, x in wanted.items():
        ws.feed("x", x)
        expected[batch] = by_simple(ws, convolutions(), "y")
    for _ in range(12):
        base = Workspace()
        feed_convolutions(base)
        net = plan(convolutions(), outputs=["y"], inputs=["x"])
        with Predictor(net, base, inputs=["x"]) as predictor, ThreadPoolExecutor(2) as pool:
            barrier = threading.Barrier(2)

            def first_runs(batch: int, predictor: Predictor = predictor, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                for _ in range(3):
                    found = predictor.run(x=wanted[batch])["y"]
                    np.testing.assert_allclose(found, expected[batch], rtol=2e-4, atol=2e-4)

            for done in [pool.submit(first_runs, batch) for batch in wanted]:
                done.result()


def test_a_clone_over_other_weights_has_constants_of_its_own() -> None:
    ops = [
        operator_def("Relu", ["W"], ["V"]),
        operator_def("FC", ["x", "V", "b"], ["f"]),
        operator_def("Relu", ["f"], ["y"]),
    ]
    places = [Workspace(), Workspace()]
    for seed, place in enumerate(places):
        for name, shape in (("x", (3, 6)), ("W", (5, 6)), ("b", (5,))):
            place.feed(name, draw(*shape, seed=seed))
    first = places[0].create_net(plan(ops, outputs=["y"], inputs=["x"]))
    assert isinstance(first, PlanNet)
    clone = first.clone(places[1])
    for _ in range(2):
        for net, place in ((first, places[0]), (clone, places[1])):
            net.run()
            np.testing.assert_allclose(place.fetch("y"), by_simple(place, ops, "y"), rtol=1e-5, atol=1e-5)


def test_a_program_is_used_only_for_the_values_that_it_was_compiled_for() -> None:
    ops = [operator_def("Relu", ["x"], ["r"]), operator_def("Reshape", ["r", "shape"], ["y", "old"])]
    ws = Workspace()
    ws.feed("shape", np.array([-1, 4]))
    for batch in [*range(1, 20), 1]:
        ws.feed("x", draw(batch * 3, 4))
        if batch == 1:
            ws.create_net(plan(ops, outputs=["y"], inputs=["x"]), overwrite=True)
        ws.run_net("n")
        assert ws.fetch("y").shape == (batch * 3, 4)
    ws.feed("shape", np.array([-1, 6]))
    ws.run_net("n")
    assert ws.fetch("y").shape == (2, 6)


def test_a_binding_that_failed_is_none(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    ws.create_net(plan([operator_def("Scale", ["x"], ["y"], scale=2.0)]))
    ws.run_net("n")
    ws.blob("x").reset()
    ws.feed("x", np.full((2, 3), 5, np.float32))

    def fails(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Instance, "_bind_output", fails)
        with pytest.raises(MemoryError):
            ws.run_net("n")
    ws.run_net("n")
    np.testing.assert_array_equal(ws.fetch("y"), np.full((2, 3), 10, np.float32))


def test_what_ran_is_not_run_again_when_a_later_operator_cannot_be_compiled() -> None:
    ws = Workspace()
    for name, shape in (("x", (2, 5)), ("W", (5, 5)), ("b", (5,)), ("s", (5,)), ("b2", (5,))):
        ws.feed(name, draw(*shape))
    ws.feed("w", np.ones(2, np.float32))
    ws.feed("sh", np.array([5, 2]))
    ops = [
        operator_def("FC", ["x", "W", "b"], ["f"]),
        operator_def("AffineChannel", ["f", "s", "b2"], ["g"]),
        operator_def("Scale", ["w"], ["w"], scale=2.0),
        operator_def("Print", ["w"], []),
        operator_def("Relu", ["g"], ["r"]),
        operator_def("Reshape", ["r", "sh"], ["y", "old"]),
    ]
    ws.create_net(plan(ops, outputs=["y"], inputs=["x", "sh", "w"]))
    ws.blob("s").tensor().numpy()
    ws.run_net("n")
    np.testing.assert_array_equal(ws.fetch("w"), [2, 2])
    ws.blob("b2").tensor().numpy()
    ws.feed("sh", np.array([10, 1]))
    ws.run_net("n")
    assert ws.fetch("y").shape == (10, 1)
    np.testing.assert_array_equal(ws.fetch("w"), [4, 4])


def test_operators_that_write_one_blob_draw_each_for_itself() -> None:
    def fill() -> OperatorDef:
        made = operator_def("UniformFill", [], ["t"], shape=[3])
        made.device_option.random_seed = 7
        return made

    ops = [fill(), operator_def("Relu", ["t"], ["a"]), fill(), operator_def("Relu", ["t"], ["b"])]
    ws = Workspace()
    ws.run_net_once(plan(ops, outputs=["a", "b"]))
    np.testing.assert_array_equal(ws.fetch("a"), ws.fetch("b"))


def test_a_timed_run_is_a_run() -> None:
    ws = Workspace()
    ws.feed("w", np.ones(3, np.float32))
    net = ws.create_net(plan([operator_def("Scale", ["w"], ["w"], scale=2.0)], inputs=["w"]))
    ws.run_net("n")
    version = ws.blob("w").tensor().storage.version
    net.explain(times=True)
    assert ws.blob("w").tensor().storage.version == version + 1
    np.testing.assert_array_equal(ws.fetch("w"), [4, 4, 4])
