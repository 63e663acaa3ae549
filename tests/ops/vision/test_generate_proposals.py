"""GenerateProposals: box after box in plain Python and float64; recorded runs are in `tests/data/golden`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, ShapeError
from tazza.models import Net
from tazza.operator import find_schema, operator_def, run_op
from tazza.workspace import Workspace
from tests.check import engines_of, run

Array = NDArray[Any]
Box = tuple[float, float, float, float]


def network(N: int, A: int, H: int, W: int, seed: int) -> list[Array]:
    """Return what a proposal network gives: scores that all differ, deltas, images, anchors."""
    rng = np.random.default_rng([N, A, H, W, seed])
    scores = rng.permutation(N * A * H * W).reshape(N, A, H, W) / (N * A * H * W)
    size, center = rng.uniform(10, 40, (A, 2)), rng.uniform(0, 8, (A, 2))
    anchors = np.concatenate([center - size / 2, center + size / 2], 1)
    images = np.stack([rng.uniform(40, 90, N), rng.uniform(40, 90, N), rng.uniform(0.5, 2, N)], 1)
    return [x.astype(np.float32) for x in (scores, rng.normal(0, 0.4, (N, 4 * A, H, W)), images, anchors)]


def shared(a: Box, b: Box, plus: float) -> float:
    """Return intersection over union."""
    wide, high = min(a[2], b[2]) - max(a[0], b[0]) + plus, min(a[3], b[3]) - max(a[1], b[1]) + plus
    both = max(wide, 0) * max(high, 0)
    either = sum((box[2] - box[0] + plus) * (box[3] - box[1] + plus) for box in (a, b)) - both
    return both / either if either else math.nan


def by_hand(inputs: list[Array], **args: Any) -> list[list[float]]:
    """Return image, box and score of all that stay."""
    scores, deltas, images, anchors = (x.astype(np.float64) for x in inputs)
    plus = float(args.get("legacy_plus_one", 1))
    found: list[list[float]] = []
    for n in range(len(scores)):
        height, width, scale = images[n]
        boxes: list[tuple[float, Box]] = []
        for a, h, w in np.ndindex(*scores.shape[1:]):
            x1, y1, x2, y2 = anchors[a] + np.array([w, h, w, h]) / args.get("spatial_scale", 1 / 16)
            dx, dy, dw, dh = deltas[n, 4 * a : 4 * a + 4, h, w]
            sx, sy = x2 - x1 + plus, y2 - y1 + plus
            cx, cy = x1 + sx / 2 + dx * sx, y1 + sy / 2 + dy * sy
            sx, sy = (s * math.exp(min(d, math.log(62.5))) for s, d in ((sx, dw), (sy, dh)))
            box = (cx - sx / 2, cy - sy / 2, cx + sx / 2 - plus, cy + sy / 2 - plus)
            ends = (math.floor(width) - plus, math.floor(height) - plus) * 2
            cut = tuple(min(max(value, 0.0), float(end)) for value, end in zip(box, ends, strict=True))
            boxes.append((float(scores[n, a, h, w]), (cut[0], cut[1], cut[2], cut[3])))
        boxes.sort(reverse=True)
        first = args.get("pre_nms_topN", 6000)
        least = args.get("min_size", 16.0) * scale
        kept: list[tuple[float, Box]] = []
        for score, box in boxes[: first if first > 0 else None]:
            sx, sy = box[2] - box[0] + plus, box[3] - box[1] + plus
            inside = box[0] + sx / 2 < width and box[1] + sy / 2 < height
            alone = all(shared(box, other, plus) <= args.get("nms_thresh", 0.7) for _, other in kept)
            if sx >= least and sy >= least and inside and alone:
                kept.append((score, box))
        most = args.get("post_nms_topN", 300)
        found += [[n, *box, score] for score, box in kept[: most if most > 0 else None]]
    return found


ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"nms_thresh": 0.3, "min_size": 4.0, "spatial_scale": 0.125},
    {"nms_thresh": 0.9, "min_size": 0.0, "pre_nms_topN": 30, "post_nms_topN": 11},
    {"nms_thresh": 0.5, "legacy_plus_one": 0, "spatial_scale": 0.25},
    {"pre_nms_topN": 0, "post_nms_topN": -1, "min_size": 0.0, "nms_thresh": 0.95},
    {"min_size": 1000.0},
]


@pytest.mark.parametrize("engine", engines_of("GenerateProposals"))
@pytest.mark.parametrize("args", ARGUMENTS)
@pytest.mark.parametrize("seed", [0, 1])
def test_box_after_box(args: dict[str, Any], seed: int, engine: str) -> None:
    inputs = network(2, 3, 5, 4, seed)
    names = ["in0", "in1", "in2", "in3"]
    (rois, probs), operator = run(operator_def("GenerateProposals", names, ["rois", "probs"], **args), inputs, engine)
    wanted = np.array(by_hand(inputs, **args)).reshape(-1, 6)
    assert operator.choices[-1].engine == engine
    np.testing.assert_allclose(rois, wanted[:, :5], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(probs, wanted[:, 5], rtol=1e-6)
    assert rois.dtype == probs.dtype == np.float32


@pytest.mark.parametrize("engine", engines_of("GenerateProposals"))
@pytest.mark.parametrize("plus", [0, 1])
def test_boxes_that_are_cut_down_to_lines(plus: int, engine: str) -> None:
    """They have no area, or are thinner than a pixel; of those without, whatever the threshold, the first stays."""
    inputs = network(2, 3, 5, 4, 0)
    inputs[1][:, ::4] -= 1.5  # to the left
    args: dict[str, Any] = {"min_size": 0.0, "legacy_plus_one": plus, "nms_thresh": 0.8}
    rois, probs = run_op("GenerateProposals", *inputs, engine=engine, **args)
    wanted = np.array(by_hand(inputs, **args)).reshape(-1, 6)
    assert (wanted[:, 1] == wanted[:, 3]).sum() > 1
    np.testing.assert_allclose(rois, wanted[:, :5], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(probs, wanted[:, 5], rtol=1e-6)


@pytest.mark.parametrize("engine", engines_of("GenerateProposals"))
@pytest.mark.parametrize("count", [1, 8, 9, 33])
def test_many_boxes_that_cover_each_other(count: int, engine: str) -> None:
    """Rows of boxes of all lengths around those of vectors, each a pixel beside the one before."""
    inputs = [np.linspace(1, 0.1, count, dtype="f").reshape(1, 1, 1, count), np.zeros((1, 4, 1, count), "f")]
    inputs += [np.array([[50, 500, 1]], "f"), np.array([[0, 0, 19, 19]], "f")]
    args: dict[str, Any] = {"spatial_scale": 1.0, "nms_thresh": 0.58}
    rois, _ = run_op("GenerateProposals", *inputs, engine=engine, **args)
    np.testing.assert_array_equal(rois[:, 1], [x for x in range(count) if x % 6 == 0])  # 14 / 26 is below it


@pytest.mark.parametrize("net_type", ["simple", "dag", "plan"])
@pytest.mark.parametrize("engine", engines_of("GenerateProposals"))
def test_sizes_change_from_run_to_run(net_type: str, engine: str) -> None:
    """In a net, with a reader behind: what has another size in each run is whole in each."""
    net = Net(f"proposals_{net_type}_{engine}")
    net.add("GenerateProposals", ["s", "d", "im", "a"], ["rois", "probs"], engine=engine, min_size=4.0)
    net.add("Scale", "probs", "twice", scale=2.0)
    net.add_external_output("rois", "twice")
    net.proto.type, net.proto.num_workers = net_type, 2
    ws = Workspace()
    sizes: set[int] = set()
    for seed in range(6):
        inputs = network(1 + seed % 2, 3, 5, 4, seed)
        for name, value in zip(("s", "d", "im", "a"), inputs, strict=True):
            ws.feed(name, value)
        if seed == 0:
            ws.create_net(net.proto)
        ws.run_net(net.name)
        wanted = np.array(by_hand(inputs, min_size=4.0)).reshape(-1, 6)
        np.testing.assert_allclose(ws.fetch("rois"), wanted[:, :5], rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(ws.fetch("twice"), 2 * wanted[:, 5], rtol=1e-6)
        sizes.add(len(wanted))
    assert len(sizes) > 3


@pytest.mark.parametrize("engine", engines_of("GenerateProposals"))
def test_a_delta_that_is_no_number_is_named(engine: str) -> None:
    inputs = network(2, 3, 5, 4, 0)
    inputs[1][1, 7, 4, 2] = np.nan
    names = ["in0", "in1", "in2", "in3"]
    with pytest.raises(NumericError, match=r"deltas\[1, 7, 4, 2\] is NaN"):
        run(operator_def("GenerateProposals", names, ["rois", "probs"]), inputs, engine)


@pytest.mark.parametrize(
    ("position", "shape", "text"),
    [
        (1, (2, 11, 5, 4), r"deltas have the shape \(2, 11, 5, 4\), scores \(2, 3, 5, 4\)"),
        (2, (2, 4), r"im_info has the dimensions \(2, 4\), dimension 1 must be 3"),
        (3, (3, 5), r"deltas have the shape \(2, 12, 5, 4\), scores \(2, 3, 5, 4\)"),
        (3, (3, 6), "anchors have 6 columns, they must have 4, or 5 where boxes may be turned"),
        (3, (2, 4), r"A is \(2\) in anchors and \(3\) in scores"),
    ],
)
def test_shapes_that_do_not_fit(position: int, shape: tuple[int, ...], text: str) -> None:
    inputs = network(2, 3, 5, 4, 0)
    inputs[position] = np.zeros(shape, "f")
    with pytest.raises(ShapeError, match=text):
        run_op("GenerateProposals", *inputs)


@pytest.mark.parametrize("type", ["GenerateProposals", "GenerateProposalsCPP"])
def test_boxes_that_are_turned_by_nothing_are_upright_ones(type: str) -> None:
    """Of center and size, and with a fifth delta of 0; none reaches beyond the image."""
    scores, deltas, images, anchors = network(2, 3, 5, 4, 0)
    images[:, :2] = 900
    flat = np.concatenate(
        [(anchors[:, :2] + anchors[:, 2:]) / 2 + 300, anchors[:, 2:] - anchors[:, :2], 0 * anchors[:, :1]], 1
    )
    moved = np.insert(deltas.reshape(2, 3, 4, 5, 4), 4, 0, axis=2).reshape(2, 15, 5, 4)
    args: dict[str, Any] = {"nms_thresh": 0.5, "legacy_plus_one": 0}
    upright = run_op(type, scores, deltas, images, anchors + 300, engine="reference", **args)
    turned = run_op(type, scores, moved, images, flat, engine="reference", **args)
    np.testing.assert_array_equal(turned[1], upright[1])
    centers, sizes = turned[0][:, 1:3], turned[0][:, 3:5]
    np.testing.assert_allclose(
        np.concatenate([centers - sizes / 2, centers + sizes / 2], 1), upright[0][:, 1:], rtol=1e-5
    )
    assert not turned[0][:, 5].any()
    assert len(turned[1]) > 10


def test_angles_come_back_within_their_bounds() -> None:
    scores, images = np.ones((1, 1, 1, 1), np.float32), np.array([[90, 90, 1]], np.float32)
    anchors, deltas = np.array([[40, 40, 20, 30, 80]], np.float32), np.zeros((1, 5, 1, 1), np.float32)
    deltas[0, 4] = np.deg2rad(25)
    ways: list[tuple[dict[str, Any], float]] = [({}, -75), ({"angle_bound_on": 0}, 105)]
    ways.append(({"angle_bound_lo": 0, "angle_bound_hi": 180}, 105))
    for args, wanted in ways:
        rois, _ = run_op("GenerateProposals", scores, deltas, images, anchors, engine="reference", **args)
        np.testing.assert_allclose(rois, [[0, 40, 40, 20, 30, wanted]], rtol=1e-5)
    with pytest.raises(ArgumentError, match="angle_bound_lo = -90 and angle_bound_hi = 0 are 90 degrees apart"):
        run_op("GenerateProposals", scores, deltas, images, anchors, angle_bound_hi=0)


@pytest.mark.parametrize("scale", [0.0, -0.5])
def test_a_scale_that_is_none_is_refused_before_any_run(scale: float) -> None:
    with pytest.raises(ArgumentError, match="must be above 0"):
        find_schema("GenerateProposals").view(
            operator_def("GenerateProposals", list("sdia"), list("rp"), spatial_scale=scale)
        )
