"""BoxWithNMSLimit: one box after the other in plain Python; recorded runs are in `tests/data/golden`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

M, C = 11, 3
_RNG = np.random.default_rng(5)
SCORES = ((_RNG.permutation(M * C).reshape(M, C) + 1) / (M * C)).astype(np.float32)
_CENTER = _RNG.uniform(5, 40, (M, 1, 2)) + _RNG.normal(0, 2, (M, C, 2))
_SIZE = _RNG.uniform(10, 25, (M, 1, 2)) + _RNG.normal(0, 2, (M, C, 2))
BOXES = np.concatenate([_CENTER - _SIZE / 2, _CENTER + _SIZE / 2], 2).astype(np.float32)
SPLITS = np.array([6, 0, 5], np.float32)


def shared(a: Array, b: Array, plus: float) -> float:
    """Return intersection over union."""
    wide, high = (min(a[i + 2], b[i + 2]) - max(a[i], b[i]) + plus for i in (0, 1))
    both = max(wide, 0) * max(high, 0)
    return both / (sum((box[2] - box[0] + plus) * (box[3] - box[1] + plus) for box in (a, b)) - both)


def chosen(boxes: Array, scores: list[float], args: dict[str, Any]) -> list[tuple[float, int]]:
    """Return scores and rows of those that stay of a class."""
    plus, most = float(args.get("legacy_plus_one", 1)), args.get("nms", 0.3)
    left = {m: score for m, score in enumerate(scores) if score > args.get("score_thresh", 0.05)}
    stay: list[tuple[float, int]] = []
    while left:
        best = max(left, key=lambda m: left[m])
        stay.append((left.pop(best), best))
        for m in list(left):
            o = shared(boxes[best], boxes[m], plus)
            if not args.get("soft_nms_enabled"):
                left = {k: v for k, v in left.items() if k != m or o <= most}
                continue
            gaussian = args.get("soft_nms_method") == "gaussian"
            factor = math.exp(-o * o / args.get("soft_nms_sigma", 0.5)) if gaussian else 1 - o if o > most else 1
            left[m] *= factor
            if left[m] <= args.get("soft_nms_min_score_thres", 0.001):
                del left[m]
    return stay


def by_hand(scores: Array, boxes: Array, splits: Array | None = None, **args: Any) -> tuple[Array, ...]:
    """Return all outputs."""
    each = boxes.reshape(len(boxes), boxes.shape[1] // 4, 4).astype(np.float64)
    counts = [len(scores)] if splits is None else [int(n) for n in splits]
    shift = 0 if args.get("input_boxes_include_bg_cls", 1) else 1
    found: list[list[tuple[float, int, int, int]]] = []
    begin = 0
    for count in counts:
        own = slice(begin, begin + count)
        stay: list[tuple[float, int, int, int]] = []
        for c in range(1, scores.shape[1]):
            column = 0 if args.get("cls_agnostic_bbox_reg") else c - shift
            values = [float(score) for score in scores[own, c - shift]]
            stay += [(score, m, c, column) for score, m in chosen(each[own, column], values, args)]
        most = int(args.get("detections_per_im", 100))
        if 0 < most < len(stay):
            least: float = sorted((one[0] for one in stay), reverse=True)[most - 1]
            stay = [one for one in stay if one[0] >= least]
        found.append(stay)
        begin += count
    starts = np.cumsum([0, *counts])
    rows = [(i, *one) for i, stay in enumerate(found) for one in stay]
    sizes = [[sum(c == own for _, _, c, _ in stay) for own in range(scores.shape[1])] for stay in found]
    return (
        np.array([score for _, score, *_ in rows]),
        np.array([each[starts[i] + m, column] for i, _, m, _, column in rows]).reshape(-1, 4),
        np.array([c - (0 if args.get("output_classes_include_bg_cls", 1) else 1) for *_, c, _ in rows]),
        np.array([len(stay) for stay in found]),
        np.array([m for _, _, m, _, _ in rows]),
        np.array(sizes).reshape(len(found), scores.shape[1]),
    )


ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"nms": 0.6, "score_thresh": 0.25, "detections_per_im": 4, "output_classes_include_bg_cls": 0},
    {"legacy_plus_one": 0, "nms": 0.1, "detections_per_im": 0},
    {"soft_nms_enabled": 1},
    {"soft_nms_enabled": 1, "soft_nms_method": "gaussian", "soft_nms_sigma": 0.2, "detections_per_im": 5},
    {"soft_nms_enabled": 1, "nms": 0.2, "soft_nms_min_score_thres": 0.2},
]
WHOLE = BOXES.reshape(M, -1)


def case(args: dict[str, Any], boxes: Array = WHOLE, outputs: int = 6, splits: Array | None = SPLITS) -> Case:
    """Return a case with the scores above."""
    inputs = [SCORES, boxes] if splits is None else [SCORES, boxes, splits]
    wanted = by_hand(*inputs, **args)[:outputs]
    return Case("BoxWithNMSLimit", inputs, wanted, args, outputs=outputs, slack=4, gradient=False)


CASES = [case(args) for args in ARGUMENTS]
CASES.extend([case({}, outputs=outputs, splits=None) for outputs in (3, 4, 6)])
CASES.extend(
    [
        case({}, splits=SPLITS.astype(np.int32)),
        case({"cls_agnostic_bbox_reg": 1}, WHOLE[:, 4:8]),
        case({"input_boxes_include_bg_cls": 0}, WHOLE[:, 4:]),
        case({"score_thresh": 1.0}),
        Case(
            "BoxWithNMSLimit", [SCORES[:0], WHOLE[:0]], by_hand(SCORES[:0], WHOLE[:0])[:3], gradient=False, id="no box"
        ),
        Case(
            "BoxWithNMSLimit",
            [SCORES[:, :1], WHOLE[:, :4]],
            by_hand(SCORES[:, :1], WHOLE[:, :4]),
            outputs=6,
            gradient=False,
        ),
    ]
)


@on_all_engines(CASES)
def test_box_after_box(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_boxes_that_are_turned_by_nothing_are_upright_ones() -> None:
    flat = np.concatenate([_CENTER, _SIZE, np.zeros((M, C, 1))], 2).astype(np.float32)
    args: dict[str, Any] = {"nms": 0.45, "outputs": 6}
    turned = run_op("BoxWithNMSLimit", SCORES, flat.reshape(M, -1), SPLITS, rotated=1, **args)
    upright = run_op("BoxWithNMSLimit", SCORES, WHOLE, SPLITS, legacy_plus_one=0, **args)
    assert turned[1].shape == (len(upright[0]), 5)
    for i in (0, 2, 3, 4, 5):
        np.testing.assert_array_equal(turned[i], upright[i])


def test_what_is_no_number_is_not_above_the_threshold() -> None:
    scores = SCORES.copy()
    scores[0, 1] = np.nan
    keeps = run_op("BoxWithNMSLimit", scores, WHOLE, outputs=6, nms=1.0)[4]
    assert sorted(keeps[: M - 1]) == list(range(1, M))


def test_equal_scores_stay_in_the_order_of_classes() -> None:
    """Boxes that do not touch: of four equal ones for two places those of the first class stay."""
    boxes = np.array([[0, 0, 1, 1] * 3, [9, 9, 12, 12] * 3], np.float32)
    found = run_op("BoxWithNMSLimit", np.ones((2, 3), np.float32), boxes, outputs=6, detections_per_im=2)
    assert (found[2].tolist(), found[4].tolist()) == ([1, 1], [0, 1])


REFUSED: list[tuple[list[Any], dict[str, Any], type[TazzaError], str]] = [
    ([SCORES[0], WHOLE], {}, ShapeError, "scores has rank 1"),
    ([SCORES[:5], WHOLE], {}, ShapeError, "M is"),
    ([SCORES, WHOLE[:, :8]], {}, ShapeError, "boxes have 8 columns, 3 classes need 4 x 3"),
    ([SCORES, WHOLE], {"rotated": 1}, ShapeError, "boxes have 12 columns, 3 classes need 5 x 3"),
    ([SCORES, WHOLE], {"input_boxes_include_bg_cls": 0}, ShapeError, "3 classes need 4 x 2"),
    ([SCORES, WHOLE, SPLITS[:, None]], {}, ShapeError, r"splits have the shape \(3, 1\), they must be a list"),
    ([SCORES, WHOLE, SPLITS + 1], {}, NumericError, r"splits = \[7.0, 1.0, 6.0\] must be counts of 11 boxes"),
    ([SCORES, WHOLE, np.array([12, -1], "f")], {}, NumericError, r"splits = \[12.0, -1.0\]"),
    ([SCORES, WHOLE], {"soft_nms_method": "hard"}, ArgumentError, "soft_nms_method"),
    ([SCORES, WHOLE], {"outputs": 5}, TazzaError, "keeps without keeps_size"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("BoxWithNMSLimit", *inputs, outputs=args.pop("outputs", 3), **args)
