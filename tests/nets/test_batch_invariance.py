"""Nets that ask that an image gets the same bits in any batch: simple ones, plans, slices, predictors, nets within."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tazza.engines.onednn.primitive import UNFREED
from tazza.interop.predictor import Predictor
from tazza.models.zoo import CLASSIFIERS
from tazza.nets.plan import slicing
from tazza.nets.plan.slicing import CACHE_KB
from tazza.operator import make_argument, operator_def
from tazza.proto import NetDef
from tazza.runtime.flags import kernel_flags
from tazza.runtime.invariance import BATCH_INVARIANT
from tazza.runtime.threads import NUM_THREADS
from tazza.workspace import Workspace
from tests.nets.plans import Array, draw

SMALL: dict[str, dict[str, Any]] = {
    "lenet": {"size": 28},
    "mlp": {"size": 28},
    "squeezenet": {"size": 64, "classes": 5},
    "mobilenet_v2": {"size": 32, "width": 0.25, "classes": 5},
}
RUNS = ((0, 17), (0, 1), (0, 2), (3, 1), (0, 3), (2, 5), (8, 8), (0, 16), (16, 1))
Runner = Callable[[Array], Array]


def model(name: str) -> tuple[Workspace, NetDef]:
    """Return parameters and the net that predicts."""
    made = CLASSIFIERS[name].inference(**SMALL[name])
    ws = Workspace()
    ws.run_net_once(made.init_net.proto)
    net = NetDef()
    net.CopyFrom(made.net.proto)
    net.name = "n"
    return ws, net


def of_type(kind: str) -> Callable[[Workspace, NetDef], Runner]:
    """Return what makes a runner of a net of a type that asks for it by its argument."""

    def make(ws: Workspace, net: NetDef) -> Runner:
        net.type = kind
        net.arg.append(make_argument(BATCH_INVARIANT.name, 1))
        ws.feed("data", np.zeros((1, 1, 1, 1), np.float32))
        ws.create_net(net)

        def run(x: Array) -> Array:
            ws.feed("data", x)
            ws.run_net("n")
            return ws.fetch(net.external_output[-1])

        return run

    return make


def predicting(ws: Workspace, net: NetDef) -> Runner:
    """Return a runner of a predictor."""
    predictor = Predictor(net, ws, inputs=["data"], batch_invariant=True)
    return lambda x: predictor.run(data=x)[predictor.outputs[-1]]


MAKERS = {"simple": of_type("simple"), "plan": of_type("plan"), "dag": of_type("dag"), "predictor": predicting}


def check(run: Runner, images: Array) -> None:
    """Compare the answers for each image in several batches, as if much had been made since the first one."""
    with UNFREED.override(2**30):
        whole = run(images)
    assert len({row.tobytes() for row in whole}) > 1, "all answers are alike, which shows nothing"
    for first, count in RUNS:
        with UNFREED.override(0):
            got = run(images[first : first + count].copy())
        assert got.tobytes() == whole[first : first + count].tobytes(), f"{count} images from {first} on"


ALL = [
    *(("lenet", kind) for kind in MAKERS),
    *(
        pytest.param(name, kind, marks=pytest.mark.slow)
        for name in SMALL
        if name != "lenet"
        for kind in ("simple", "plan")
    ),
]
"""Nets and kinds; predictors run plans, and the slices below are those of one."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), ALL)
def test_answers_do_not_depend_on_neighbours(name: str, kind: str) -> None:
    ws, net = model(name)
    channels = 1 if name in ("lenet", "mlp") else 3
    images = draw(17, channels, SMALL[name]["size"], SMALL[name]["size"], seed=5)
    with NUM_THREADS.override(2):
        check(MAKERS[kind](ws, net), images)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_slices_do_not_either(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    for name in ("LAUNCH_NS", "WORTH_NS"):
        monkeypatch.setattr(slicing, name, 0.001)
    ws, net = model("squeezenet")
    with CACHE_KB.override(100), NUM_THREADS.override(threads):
        predictor = Predictor(net, ws, inputs=["data"], batch_invariant=True)
        check(lambda x: predictor.run(data=x)[predictor.outputs[-1]], draw(17, 3, 64, 64, seed=5))
        predictor.run(data=draw(16, 3, 64, 64, seed=5))
        assert any(row.slices > 1 for row in predictor.net.explain().rows)


def fully_connected(ws: Workspace, flag: bool) -> bool:
    """Whether FC 512 -> 64 gives the same bits for a row alone and within 8."""
    ws.feed("W", draw(64, 512, seed=1))
    ws.feed("b", draw(64, seed=2))
    x, found = draw(8, 512, seed=3), list[bytes]()
    with BATCH_INVARIANT.override(flag):
        for rows in (x, x[3:4]):
            ws.feed("x", rows)
            ws.run_operator(operator_def("FC", ["x", "W", "b"], ["y"]))
            found.append(ws.fetch("y")[3 if len(rows) > 1 else 0].tobytes())
    return found[0] == found[1]


def test_the_flag_asks_for_all_nets() -> None:
    assert fully_connected(Workspace(), flag=True)
    with BATCH_INVARIANT.override(True):
        assert dict(kernel_flags())[BATCH_INVARIANT.name] is True


def test_an_argument_of_false_is_none() -> None:
    ws = Workspace()
    ws.feed("x", draw(2, 3))
    ws.create_net(NetDef(name="no", op=[operator_def("Relu", ["x"], ["y"])], arg=[make_argument("batch_invariant", 0)]))
    assert not ws.net("no").batch_invariant


def test_explain_tells_what_runs_image_by_image() -> None:
    ws, net = model("lenet")
    with Predictor(net, ws, inputs=["data"], batch_invariant=True) as predictor:
        predictor.run(data=draw(3, 1, 28, 28))
        assert any(row.implementation.endswith("image by image") for row in predictor.net.explain().rows)
