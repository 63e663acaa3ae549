"""Whole detectors against genuine Caffe2: mask_rcnn_2go, and Faster R-CNN on a feature pyramid, by every net type.

How many boxes there are is known when the net has run, and the masks of mask_rcnn_2go come from an `If` that declares
no outputs: what a net type works out about sizes, readers and writers has to see into it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tazza.interop import load, save_predictor
from tazza.interop.export import parameter_fill
from tazza.nets.simple_refcount import last_readers
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.detectors import DETECTORS, Detector, detector
from tests.net_types import one_of_each
from tests.recorded_nets import Blobs

MASKS, NOTHING = "mask_rcnn_2go", "mask_rcnn_2go_nothing"
TAKEN = ("data", "im_info")
FAST = ("simple", "plan", "async_scheduling")


def kinds() -> list[object]:
    """Return all net types, of which some are left to the slow tests."""
    return [pytest.param(kind, marks=() if kind in FAST else pytest.mark.slow) for kind in one_of_each()]


def made(net: NetDef, kind: str, kept: list[str]) -> NetDef:
    """Return a net of a type, which also gives other blobs."""
    found = NetDef.FromString(net.SerializeToString())
    found.type, found.num_workers = kind, 2
    found.external_output.extend(name for name in kept if name not in net.external_output)
    return found


def fetched(home: Workspace, names: list[str]) -> Blobs:
    """Return what blobs hold."""
    return {name: home.fetch(name) for name in names}


def parameters(found: Detector) -> Blobs:
    """Return all that a detector takes, but what comes with each image."""
    return {name: value for name, value in found.fed.items() if name not in TAKEN}


@pytest.mark.parametrize("name", DETECTORS)
def test_what_was_recorded_is_worth_it(name: str) -> None:
    boxes = len(detector(name).left["bbox_nms"])
    assert boxes == 0 if name == NOTHING else boxes >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.parametrize("kind", kinds())
def test_caffe2_gave_the_same(kind: str, name: str) -> None:
    """Two runs, so that what one leaves for the next counts too; a plan gives inner blobs where it is told to."""
    found = detector(name)
    net = made(found.net, kind, list(found.left) if kind == "plan" else [])
    gone = set(last_readers(net)) if kind == "simple_refcount" else set[str]()
    home = Workspace()
    for blob, value in found.fed.items():
        home.feed(blob, value)
    home.create_net(net)
    for _ in range(2):
        home.run_net(net.name)
        found.check(fetched(home, [blob for blob in found.left if blob not in gone]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAST)
def test_boxes_come_and_go(kind: str) -> None:
    """One net, with and without anything found: what the branch did not write is not what it wrote before."""
    some, none = detector(MASKS), detector(NOTHING)
    net, home = made(some.net, kind, []), Workspace()
    for turn, found in enumerate((some, none, some, none)):
        for blob, value in found.fed.items():
            home.feed(blob, value)
        if not turn:
            home.create_net(net)
        home.run_net(net.name)
        found.check(fetched(home, list(net.external_output)))


@pytest.mark.slow
@pytest.mark.parametrize("name", DETECTORS)
def test_through_a_predictor(name: str) -> None:
    """From an init net and a predict net, run twice; the outputs are those that the net declares, in their order."""
    found = detector(name)
    init = NetDef(name="init", op=[parameter_fill(blob, value) for blob, value in parameters(found).items()])
    with load(init, found.net) as predictor:
        assert sorted(predictor.inputs) == sorted(TAKEN)
        assert list(predictor.outputs) == list(found.net.external_output)
        for _ in range(2):
            found.check(predictor.run({blob: found.fed[blob] for blob in TAKEN}))


@pytest.mark.slow
def test_through_a_predictor_file(tmp_path: Path) -> None:
    found, home = detector(MASKS), Workspace()
    for blob, value in parameters(found).items():
        home.feed(blob, value)
    save_predictor(
        tmp_path / "detector.minidb",
        found.net,
        home,
        parameters=list(parameters(found)),
        outputs=list(found.net.external_output),
    )
    with load(tmp_path / "detector.minidb") as predictor:
        found.check(predictor.run({blob: found.fed[blob] for blob in TAKEN}))


@pytest.mark.slow
@pytest.mark.parametrize("name", [MASKS, "faster_rcnn_fpn"])
def test_images_of_other_sizes(name: str) -> None:
    """A predictor, whose plan is made anew for each size, gives what a simple net gives."""
    found, home = detector(name), Workspace()
    net = made(found.net, "simple", [])
    init = NetDef(name="init", op=[parameter_fill(blob, value) for blob, value in parameters(found).items()])
    for blob, value in parameters(found).items():
        home.feed(blob, value)
    with load(init, found.net) as predictor:
        for height, width in ((64, 96), (128, 64), (64, 96)):
            data = np.ascontiguousarray(found.fed["data"][:, :, :height, :width])
            info = np.tile(np.array([height, width, 1], np.float32), (len(data), 1))
            home.feed("data", data)
            home.feed("im_info", info)
            home.run_net_once(net)
            boxes = Detector(net, {}, fetched(home, list(net.external_output)))
            boxes.check(predictor.run({"data": data, "im_info": info}))
