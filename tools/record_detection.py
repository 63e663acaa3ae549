"""Record runs of detectors by the genuine Caffe2 into `tests/data/detection`: whole nets, with weights drawn at random.

Needs what `tools/record_golden.py` needs, and the text of `mask_rcnn_2go` from Caffe2's model zoo:

    python3.8 -m tools.record_detection ZOO/mask_rcnn_2go-model-fp32-model.pbtxt [FOLDER]

A net is a text, `<net>.pbtxt`. Keys of `<case>.npz`: `net` the name of that text, `weights` what
`tests.drawn_weights` draws, `in/<blob>` what is fed beside them, `out/<blob>` what was found of these afterwards.

Weights are scaled so that numbers keep their spread from layer to layer (He's rule), those of the last layers so that
scores are decided: a detector that is sure of nothing finds nothing. A case is refused if fewer boxes survive than it
says, or if other boxes do when the image is off by one part in 10^5: which box is the better would hang on rounding
then, and no two computers need agree.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.drawn_weights import Drawn, as_text
from tools.record_golden import caffe2

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data" / "detection"
OFF = 1e-5
"""How far an image may be off without another box being found."""


class Case(NamedTuple):
    """A net, its weights, what is fed and recorded; how many boxes survive at least, and which output has them."""

    net: Any
    weights: Any
    fed: Any
    recorded: Any
    survive: int
    boxes: str


def main() -> None:
    """Record all cases."""
    zoo = Path(sys.argv[1])
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    text_format = import_module("google.protobuf.text_format")
    for name, case in [*mask_rcnn(zoo), *pyramids()]:
        (folder / f"{case.net.name}.pbtxt").write_text(text_format.MessageToString(case.net))
        np.savez_compressed(str(folder / f"{name}.npz"), **record(case))


def record(case: Case) -> Any:
    """Return the parts of one case.

    Raises:
        RuntimeError: too few boxes survive, or which ones do hangs on rounding.
    """
    found = run(case, case.fed)
    count = len(found[case.boxes])
    print(case.net.name, count, "boxes")
    if count < case.survive:
        raise RuntimeError(f"{count} boxes survive, at least {case.survive} have to")
    data = case.weights["data"].values("data")
    for sign in (1, -1):
        off = run(case, {**case.fed, "data": data + sign * Drawn(data.shape, OFF).values("noise")})
        for name in case.recorded:
            same = found[name].shape == off[name].shape
            if not same or np.abs(found[name] - off[name]).max(initial=0) > far(found[name]):
                raise RuntimeError(f"{name} is another one when the image is off by {OFF}")
    parts = {"net": np.array(case.net.name), "weights": np.array(as_text(case.weights))}
    parts.update({f"in/{name}": value for name, value in case.fed.items()})
    parts.update({f"out/{name}": value for name, value in found.items()})
    return parts


def far(values: Any) -> float:
    """Return by how much no number may differ when the image is a little off."""
    return 1e-3 * float(np.abs(values).max(initial=1))


def run(case: Case, fed: Any) -> Any:
    """Run a net in an empty workspace; returns what is recorded."""
    workspace = caffe2()[1]
    workspace.ResetWorkspace()
    for name, weight in case.weights.items():
        workspace.FeedBlob(name, weight.values(name))
    for name, value in fed.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(case.net)
    return {name: workspace.FetchBlob(name) for name in case.recorded}


def background(ahead: float) -> Any:
    """Return biases of classes, of which the background has one ahead of the others."""
    return np.array([ahead] + [0.0] * (CLASSES - 1), np.float32)


def anchors(*sides: float) -> Any:
    """Return boxes of three ratios around the first place, for each side."""
    halves = [(side * ratio / 2, side / ratio / 2) for side in sides for ratio in (0.7, 1.0, 1.4)]
    return np.array([(-w, -h, w, h) for w, h in halves], np.float32)


def conv(outputs: int, inputs: int, kernel: int = 1, scale: float = 1.0) -> Drawn:
    """Return weights of a convolution whose outputs have the spread of its inputs, times `scale`."""
    return Drawn((outputs, inputs, kernel, kernel), scale / float(np.sqrt(inputs * kernel * kernel)))


def fc(outputs: int, inputs: int, scale: float = 1.0) -> Drawn:
    """Return the same of a layer without places."""
    return Drawn((outputs, inputs), scale / float(np.sqrt(inputs)))


def bias(outputs: int, scale: float = 0.1, offset: float = 0.0) -> Drawn:
    """Return biases."""
    return Drawn((outputs,), scale, offset)


# -- mask_rcnn_2go -----------------------------------------------------------------------------------------------------

CLASSES = 5
"""With the background."""
MASKS = 2
"""Of each box; with one for each class the recording would be large."""
WIDTHS = {
    r"conv0.*": 16, r"xif0_.*": 16, r"xif1_.*": 32, r"xif2_.*": 48, r"xif3_[0-3].*": 96, r"xif3_[4-6].*": 128,
    r".*\[(rpn|bbox|mask)\].*": 128,
}  # fmt: skip
"""Channels that each stage gives; within a stage there are as many as its depthwise convolution has groups."""
HEADS = {
    "rpn_cls_logits": conv(9, 128, 1, 2.0),
    "rpn_bbox_pred": conv(36, 128, 1, 0.3),
    "mask_fcn_logits": conv(MASKS, 128, 1, 2.0),
    "cls_score": fc(CLASSES, 128, 3.0),
    "bbox_pred": fc(4 * CLASSES, 128),
}
SURE = 3.4
"""What the background has ahead of the classes: by this some boxes are left out, and not all."""


def mask_rcnn(path: Path) -> Any:
    """Yield the net with boxes, and with none, so that its branch without operators runs."""
    net = caffe2()[2].NetDef()
    import_module("google.protobuf.text_format").Merge(path.read_text(), net)
    net.name = "mask_rcnn_2go"
    weights = {**mask_rcnn_weights(net), "data": Drawn((1, 3, 128, 160), 1.0)}
    fed = {
        "im_info": np.array([[128, 160, 1.25]], np.float32),
        "anchor": anchors(24, 40, 64),
        "cls_score_b": background(SURE),
    }
    outputs = list(net.external_output)
    yield "mask_rcnn_2go", Case(net, weights, fed, ["rois", "cls_prob", "bbox_pred", *outputs], 20, "bbox_nms")
    yield "mask_rcnn_2go_nothing", Case(net, weights, {**fed, "cls_score_b": background(50.0)}, outputs, 0, "bbox_nms")


def mask_rcnn_weights(net: Any) -> Any:
    """Return the weights of all convolutions and layers."""
    inner = next(argument.n for op in net.op for argument in op.arg if argument.name == "else_net")
    ops = [*net.op, *inner.op]
    groups = groups_behind(ops)
    channels: Any = {"data": 3}
    weights: Any = {}
    for op in ops:
        inputs = channels.get(op.input[0], 0) if op.input else 0
        outputs = inputs
        if op.type in {"Conv", "FC"}:
            weight = op.input[1]
            head = HEADS.get(op.output[0])
            made = conv_weight(op, inputs, groups) if head is None else head
            weights[weight], outputs = made, made.shape[0]
            weights.update({name: bias(outputs) for name in op.input[2:]})
        channels.update({name: outputs for name in op.output})
    return weights


def groups_behind(ops: Any) -> Any:
    """Return how many groups the depthwise convolution that reads a blob has, which may be made larger between."""
    found: Any = {}
    for op in reversed(ops):
        group = [argument.i for argument in op.arg if argument.name == "group"]
        if group or op.type == "ResizeNearest":
            found[op.input[0]] = group[0] if group else found[op.output[0]]
    return found


def conv_weight(op: Any, inputs: int, groups: Any) -> Drawn:
    """Return the weights of a convolution; those before a rectifier make up for what it cuts off."""
    arguments = {argument.name: argument.i for argument in op.arg}
    if "group" in arguments:
        return conv(inputs, 1, 3)
    outputs = groups.get(op.output[0]) if "_pw_" in op.input[1] else None
    if outputs is None:
        outputs = next(width for pattern, width in WIDTHS.items() if re.fullmatch(pattern, op.input[1]))
    return conv(outputs, inputs, arguments["kernel"], 1.4 if "_pw_" in op.input[1] else 0.7)


# -- Faster R-CNN on a feature pyramid ---------------------------------------------------------------------------------

BACKBONE = {2: (3, 16), 3: (16, 24), 4: (24, 32), 5: (32, 40)}
"""Channels that come into and go out of each stage, which halves the places; the first quarters them."""
WIDTH, POOLED, HIDDEN = 24, 5, 48
IMAGES = 2
LEVELS = (2, 3, 4, 5)


class Pyramid:
    """Builds the net, and notes the weights that it needs."""

    def __init__(self, name: str) -> None:
        """Begin with an empty net."""
        self.net = caffe2()[2].NetDef(name=name)
        self.weights: Any = {"data": Drawn((IMAGES, 3, 128, 160), 1.0)}

    def add(self, kind: str, inputs: Any, outputs: Any, **arguments: Any) -> str:
        """Append an operator; returns its first output."""
        self.net.op.extend([caffe2()[0].CreateOperator(kind, inputs, outputs, **arguments)])
        return outputs[0]

    def conv(self, x: str, y: str, weight: Drawn, names: str = "", **arguments: Any) -> str:
        """Append a convolution that keeps the places, but for its stride; returns its output."""
        names = names or y
        self.weights.update({f"{names}_w": weight, f"{names}_b": bias(weight.shape[0])})
        kernel = weight.shape[2]
        return self.add("Conv", [x, f"{names}_w", f"{names}_b"], [y], kernel=kernel, pad=kernel // 2, **arguments)

    def layer(self, x: str, y: str, weight: Drawn) -> str:
        """Append a layer; returns its output."""
        self.weights.update({f"{y}_w": weight, f"{y}_b": bias(weight.shape[0])})
        return self.add("FC", [x, f"{y}_w", f"{y}_b"], [y])

    def relu(self, x: str) -> str:
        """Append a rectifier in place."""
        return self.add("Relu", [x], [x])

    def features(self) -> None:
        """Append the backbone and the pyramid: fpn2 ... fpn5, and fpn6 for proposals alone."""
        x = self.relu(self.conv("data", "stem", conv(BACKBONE[2][0], 3, 3, 1.4), stride=2))
        for level, (inputs, outputs) in BACKBONE.items():
            x = self.relu(self.conv(x, f"c{level}", conv(outputs, inputs, 3, 1.4), stride=2))
        above = ""
        for level in reversed(LEVELS):
            inner = self.conv(f"c{level}", f"inner{level}", conv(WIDTH, BACKBONE[level][1]))
            if above:
                larger = self.add("ResizeNearest", [above], [f"larger{level}"], width_scale=2.0, height_scale=2.0)
                inner = self.add("Sum", [inner, larger], [f"sum{level}"])
            self.conv(inner, f"fpn{level}", conv(WIDTH, WIDTH, 3))
            above = inner
        self.add("MaxPool", ["fpn5"], ["fpn6"], kernel=1, pad=0, stride=2)

    def proposals(self) -> None:
        """Append the region proposal network: one set of weights for all levels."""
        for level in (*LEVELS, 6):
            x = self.relu(self.conv(f"fpn{level}", f"rpn{level}", conv(WIDTH, WIDTH, 3, 1.4), "rpn"))
            scores = self.conv(x, f"rpn_logits{level}", conv(3, WIDTH, 1, 2.0), "rpn_logits")
            self.conv(x, f"rpn_deltas{level}", conv(12, WIDTH, 1, 0.3), "rpn_deltas")
            self.add("Sigmoid", [scores], [f"rpn_probs{level}"])
            self.add(
                "GenerateProposals",
                [f"rpn_probs{level}", f"rpn_deltas{level}", "im_info", f"anchor{level}"],
                [f"rois_rpn{level}", f"scores_rpn{level}"],
                spatial_scale=2.0**-level, nms_thresh=0.7, min_size=0.0, pre_nms_topN=200, post_nms_topN=40,
            )  # fmt: skip

    def distribute(self, *, at_once: bool) -> None:
        """Append what gives each proposal to a level, by one operator or by two."""
        proposed = [f"{kind}_rpn{level}" for kind in ("rois", "scores") for level in (*LEVELS, 6)]
        levels = [f"rois{level}" for level in LEVELS]
        collect = {"rpn_min_level": 2, "rpn_max_level": 6, "rpn_post_nms_topN": 60}
        spread = {"roi_min_level": 2, "roi_max_level": 5, "roi_canonical_scale": 56, "roi_canonical_level": 4}
        if at_once:
            both = [*levels, "restore"]
            self.add("CollectAndDistributeFpnRpnProposals", proposed, ["rois", *both], **collect, **spread)
        else:
            self.add("CollectRpnProposals", proposed, ["rois"], **collect)
            self.add("DistributeFpnProposals", ["rois"], [*levels, "restore"], **spread)

    def head(self) -> None:
        """Append what looks at the proposals of each level, says what is there, and which boxes are given."""
        for level in LEVELS:
            self.add(
                "RoIAlign", [f"fpn{level}", f"rois{level}"], [f"seen{level}"],
                spatial_scale=2.0**-level, pooled_h=POOLED, pooled_w=POOLED, sampling_ratio=2,
            )  # fmt: skip
        self.add("Concat", [f"seen{level}" for level in LEVELS], ["by_level", "by_level_split"], axis=0)
        x = self.add("BatchPermutation", ["by_level", "restore"], ["seen"])
        x = self.relu(self.layer(x, "fc6", fc(HIDDEN, WIDTH * POOLED * POOLED, 1.4)))
        x = self.relu(self.layer(x, "fc7", fc(HIDDEN, HIDDEN, 1.4)))
        self.add("Softmax", [self.layer(x, "cls_score", fc(CLASSES, HIDDEN, 3.0))], ["cls_prob"])
        self.layer(x, "bbox_pred", fc(4 * CLASSES, HIDDEN))
        self.add(
            "BBoxTransform", ["rois", "bbox_pred", "im_info"], ["boxes", "splits"],
            weights=[10.0, 10.0, 5.0, 5.0], apply_scale=0, correct_transform_coords=1,
        )  # fmt: skip
        outputs = ["score_nms", "bbox_nms", "class_nms", "batch_splits", "keeps", "keeps_size"]
        self.add("BoxWithNMSLimit", ["cls_prob", "boxes", "splits"], outputs, score_thresh=0.05, nms=0.5)
        self.net.external_output.extend(outputs)


def pyramids() -> Any:
    """Yield the detector with proposals distributed at once, and by two operators."""
    fed: Any = {f"anchor{level}": anchors(8.0 * 2 ** (level - 2)) for level in (*LEVELS, 6)}
    fed["cls_score_b"] = background(SURE)
    fed["im_info"] = np.array([[128, 160, 1.25], [120, 150, 0.8]], np.float32)
    for name, at_once in (("faster_rcnn_fpn", True), ("faster_rcnn_fpn_apart", False)):
        made = Pyramid(name)
        made.features()
        made.proposals()
        made.distribute(at_once=at_once)
        made.head()
        made.net.external_input.extend([*fed, *made.weights])
        recorded = ["rois", "restore", "cls_prob", "bbox_pred", *made.net.external_output]
        yield name, Case(made.net, made.weights, fed, recorded, 20, "bbox_nms")


if __name__ == "__main__":
    main()
