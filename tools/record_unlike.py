"""Record two more runs of genuine Caffe2 for operators whose recordings have no tensor with extents that differ.

Tensors of one element, vectors and squares hide swapped axes. What `record_golden.py` says of files and versions holds
here too; the runs are cases 50 and 51 of `tests/data/golden/<Op>.npz`, beside those that are there:

    python3.8 -m tools.record_unlike [FOLDER]
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tools.record_golden import FOLDER, NHWC, Call, caffe2, labels, numbers, record, signed
from tools.unlike_control import handed
from tools.unlike_extents import AGAIN, FLAT, SOLID, TRUTH, TWO
from tools.unlike_features import listed, merged, parted, trains
from tools.unlike_forms import labelled, repeated, said_otherwise
from tools.unlike_losses import judged, of_places
from tools.unlike_numbers import by_columns, drawn, one_by_one
from tools.unlike_regions import kept_boxes, moved_boxes, of_levels, pictures, regions
from tools.unlike_rows import in_few_bits, picked
from tools.unlike_segments import dense, divided, hashed, padded, ranged
from tools.unlike_shapes import looked_up, marked, masked, moved, put
from tools.unlike_statistics import counted, decoded, gated, multiplied, normalized, ranked, summed_up
from tools.unlike_texts import categories, texts
from tools.unlike_updates import fused_steps, shared_steps, steps_of_rows, tuned_steps
from tools.unlike_windows import locally_connected, of_detectron, pooled

FIRST = 50
"""The number of the first of these cases."""

VOLUME = (2, 3, 4, 5, 7)
"""(N, C, D, H, W)."""


def main() -> None:
    """Record all cases."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for operator, calls in [case for group in GROUPS for case in group()]:
        path = folder / f"{operator}.npz"
        stored: dict[str, Any] = {}
        if path.exists():
            with np.load(str(path)) as before:
                stored = {key: before[key] for key in before.files if int(key[4:6]) < FIRST}
        for number, call in enumerate(calls, FIRST):
            stored.update({f"case{number:02}/{key}": value for key, value in record(operator, call).items()})
        np.savez_compressed(str(path), **stored)
        print(operator, len(calls))


def pointwise() -> list[tuple[str, list[Call]]]:
    """Operators of one tensor, or of several of one shape."""
    pairs = [(signed(*shape), signed(*shape, seed=1)) for shape in (SOLID, FLAT)]
    one = [
        (name, [Call({"X": x}, ["Y"], {}) for x, _ in pairs])
        for name in ("Alias", "Ceil", "Cube", "HardSigmoid", "Negative")
    ]
    back = [
        (name, [Call({"Y": x, "dY": y}, ["dX"], {}) for x, y in pairs])
        for name in ("HardSigmoidGradient", "LeakyReluGradient")
    ]
    limits = {"min": -0.5, "max": 0.75}
    return [
        *one,
        *back,
        ("CubeGradient", [Call({"dY": y, "X": x}, ["dX"], {}) for x, y in pairs]),
        ("Sqrt", [Call({"X": np.abs(x)}, ["Y"], {}) for x, _ in pairs]),
        ("Clip", [Call({"X": x}, ["Y"], limits) for x, _ in pairs]),
        ("ClipGradient", [Call({"Y": x, "dY": y}, ["dX"], limits) for x, y in pairs]),
        ("Not", [Call({"X": x}, ["Y"], {}) for x in TRUTH]),
        ("Softmax", [Call({"X": x}, ["Y"], {"axis": axis}) for axis, (x, _) in enumerate(pairs)]),
        ("NormalizeL1", [Call({"X": x}, ["Y"], {"axis": axis}) for axis, (x, _) in enumerate(pairs)]),
    ]


def of_two() -> list[tuple[str, list[Call]]]:
    """Comparisons and logic, with a smaller tensor under the larger one too."""
    under: dict[str, Any] = {"broadcast": 1, "axis": 1}
    x, whole = signed(*SOLID).round(), np.arange(28).reshape(FLAT) % 5
    compared = [Call({"A": x, "B": x[1].copy()}, ["C"], under), Call({"A": whole, "B": whole[::-1].copy()}, ["C"], {})]
    logic = [
        Call({"A": TRUTH[0], "B": TRUTH[0][0].copy()}, ["C"], under),
        Call({"A": TRUTH[1], "B": ~TRUTH[1][::-1]}, ["C"], {}),
    ]
    return [("GE", compared), ("LT", compared), ("And", logic)]


def sums() -> list[tuple[str, list[Call]]]:
    """Sums and means of everything, and their gradients."""
    both, slope = [signed(*SOLID), signed(*FLAT)], np.float32(1.5)
    whole = [np.arange(30, dtype=np.int32).reshape(SOLID), np.arange(28, dtype=np.int32).reshape(FLAT) - 9]
    return [
        ("AveragedLoss", [Call({"X": x}, ["loss"], {}) for x in both]),
        ("AveragedLossGradient", [Call({"X": x, "dloss": np.array(slope)}, ["dX"], {}) for x in both]),
        ("SumElementsInt", [Call({"X": x}, ["Y"], {}) for x in whole]),
        (
            "SumElementsGradient",
            [Call({"X": x, "dY": np.array([slope])}, ["dX"], {"average": i}) for i, x in enumerate(both)],
        ),
    ]


def fills() -> list[tuple[str, list[Call]]]:
    """Fills with given values."""

    def calls(values: list[Any]) -> list[Call]:
        return [Call({}, ["Y"], {"shape": shape, "values": values}) for shape in ([2, 3], [3, 1, 2])]

    scaled: dict[str, Any] = {"values": [1, -2, 3, 0, 2**30, -(2**30)], "Y_scale": 0.5, "Y_zero_point": 0}
    return [
        ("Int8GivenIntTensorFill", [Call({}, ["Y"], {"shape": shape, **scaled}) for shape in ([2, 3], [3, 1, 2])]),
        ("GivenTensorFill", calls([1.5, -2.0, 0.25, 3.0, 1e-30, -1e30])),
        ("GivenTensorDoubleFill", calls([1.5, -2.0, 0.25, 3.0, 1e-30, -1e30])),
        ("GivenTensorInt64Fill", calls([1, -2, 3, 0, 2**62, -(2**62)])),
        ("GivenTensorBoolFill", calls([True, False, False, True, True, False])),
        (
            "GivenTensorByteStringToUInt8Fill",
            [Call({}, ["Y"], {"shape": s, "values": ["abcdef"]}) for s in ([2, 3], [6])],
        ),
    ]


def after(operator: str, inputs: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """Return what an operator of Caffe2 gives."""
    core, workspace, _ = caffe2()
    workspace.ResetWorkspace()
    for name, value in inputs.items():
        workspace.FeedBlob(name, value)
    workspace.RunOperatorOnce(core.CreateOperator(operator, list(inputs), ["Y"], **arguments))
    return workspace.FetchBlob("Y")


def convolutions() -> list[tuple[str, list[Call]]]:
    """Convolutions in both orders, with pads, strides, dilation and groups, and their gradients."""
    step: dict[str, Any] = {"kernels": [3, 2], "strides": [1, 2], "pads": [1, 0, 2, 1], "group": 2}
    x, w, b = signed(2, 4, 5, 7), signed(6, 2, 3, 2), signed(6)
    last = {"X": signed(2, 5, 7, 3), "W": signed(4, 3, 2, 3)}
    wide: dict[str, Any] = {"kernels": [3, 2], "dilations": [2, 3], **NHWC}
    deep: dict[str, Any] = {"kernels": [2, 3, 2], "strides": [1, 2, 3], "pads": [0, 1, 0, 1, 0, 1]}
    solid = {"X": signed(*VOLUME), "W": signed(2, 3, 2, 3, 2)}
    whole = [Call({"X": x, "W": w, "b": b}, ["Y"], step), Call({**last, "W": signed(4, 3, 2, 3)}, ["Y"], wide)]
    found: list[tuple[str, list[Call]]] = [("Conv", whole), ("Conv2D", whole)]
    cases: list[tuple[str, list[tuple[dict[str, Any], dict[str, Any]]]]] = [
        ("Conv", [({"X": x, "W": w}, step), (last, wide)]),
        ("Conv3D", [(solid, deep), ({**solid, "W": signed(4, 3, 1, 2, 3)}, {"kernels": [1, 2, 3]})]),
    ]
    for name, runs in cases:
        back: list[Call] = []
        for inputs, arguments in runs:
            y = after(name, inputs, arguments)
            back.append(Call({**inputs, "dY": signed(*y.shape)}, ["dW", "db", "dX"], arguments))
        found.append((f"{name}Gradient", back))
    return found


def windows() -> list[tuple[str, list[Call]]]:
    """Gradients of pooling, and patches of images as columns."""
    image, volume = signed(2, 3, 5, 7), signed(*VOLUME)
    step: dict[str, Any] = {"kernels": [3, 2], "strides": [1, 2], "pads": [1, 0, 1, 1]}
    deep: dict[str, Any] = {"kernels": [2, 3, 2], "strides": [1, 2, 3], "pads": [0, 1, 0, 1, 0, 1]}
    found: list[tuple[str, list[Call]]] = []
    for name, x, arguments in (("MaxPool", image, step), ("MaxPool3D", volume, deep), ("AveragePool3D", volume, deep)):
        turned = {**arguments, **NHWC}
        calls: list[Call] = []
        for value, options in ((x, arguments), (np.moveaxis(x, 1, -1).copy(), turned)):
            y = after(name, {"X": value}, options)
            calls.append(Call({"X": value, "Y": y, "dY": signed(*y.shape)}, ["dX"], options))
        found.append((f"{name}Gradient", calls))
    patches: dict[str, Any] = {"kernel_h": 3, "kernel_w": 2, "stride": 2, "pad": 1}
    last = np.moveaxis(image, 1, -1).copy()
    pairs: list[tuple[Any, dict[str, Any]]] = [(image, patches), (last, {**patches, **NHWC})]
    columns = [(after("Im2Col", {"X": value}, options), value, options) for value, options in pairs]
    found.append(("Im2Col", [Call({"X": value}, ["Y"], options) for value, options in pairs]))
    found.append(("Col2Im", [Call({"X": y, "Z": value}, ["Y"], options) for y, value, options in columns]))
    return found


def updates() -> list[tuple[str, list[Call]]]:
    """Operators that change parameters in place."""
    rate, half = np.array([0.1], np.float32), np.array([0.5], np.float32)
    calls = [
        Call(
            {"g": signed(*shape), "m": signed(*shape, seed=1), "lr": rate, "p": numbers(*shape)},
            ["g", "m", "p"],
            {"momentum": 0.9, "nesterov": i},
        )
        for i, shape in enumerate((SOLID, FLAT))
    ]
    rows = [
        Call({"X": signed(*shape), "w": half, "i": at, "A": signed(len(at), *shape[1:]), "v": rate}, ["X"], {})
        for shape, at in ((SOLID, AGAIN), (FLAT, TWO))
    ]
    means = [
        Call(
            {"g": signed(*shape), "s": numbers(*shape), "m": signed(*shape, seed=1), "lr": rate},
            ["step", "s", "m"],
            {"decay": 0.7, "momentum": 0.5 * i, "epsilon": 0.01},
        )
        for i, shape in enumerate((SOLID, FLAT))
    ]
    kept: list[tuple[str, list[Call]]] = [
        (name, [Call({"p": signed(*shape), "i": at}, ["p"], arguments) for shape, at in ((SOLID, AGAIN), (FLAT, TWO))])
        for name, arguments in (
            ("SparseNormalize", {"norm": 0.5}),
            ("SparseLpRegularizer", {"p": 1.0, "reg_lambda": 0.25}),
        )
    ]
    bounds = {"min": -0.25, "max": 0.5}
    beside = [
        Call({"p": signed(*shape), "i": at, "g": signed(len(at), *shape[1:])}, ["p"], bounds)
        for shape, at in ((SOLID, AGAIN), (FLAT, TWO))
    ]
    clipped = ("EnsureClipped", [*beside, Call({"p": signed(*SOLID)}, ["p"], bounds)])
    return [("MomentumSGDUpdate", calls), ("ScatterWeightedSum", rows), ("RmsProp", means), *kept, clipped]


def distances() -> list[tuple[str, list[Call]]]:
    """Numbers for pairs of rows, norms, and parts by indices."""
    found: list[tuple[str, list[Call]]] = []
    pairs = [(signed(*shape), signed(*shape, seed=1)) for shape in (SOLID, FLAT)]
    for name in ("SquaredL2Distance", "L1Distance", "DotProduct", "CosineSimilarity"):
        given: list[dict[str, Any]] = [{"X": x, "Y": y} for x, y in pairs]
        found.append((name, [Call(one, ["Z"], {}) for one in given]))
        back = [Call({**one, "dZ": signed(len(one["X"]))}, ["dX", "dY"], {}) for one in given]
        found.append((f"{name}Gradient", back))
    uneven: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"X": signed(4, 7), "Y": signed(4, 5)}, {"pad_value": 0.5}),
        ({"X": signed(5, 2), "Y": signed(5, 6)}, {"replicate": 1}),
    ]
    name = "DotProductWithPadding"
    found.append((name, [Call(inputs, ["Z"], args) for inputs, args in uneven]))
    back = [Call({**inputs, "dZ": signed(len(inputs["X"]))}, ["dX", "dY"], args) for inputs, args in uneven]
    found.append((f"{name}Gradient", back))
    norms: list[tuple[Any, dict[str, Any]]] = [(pairs[0][0], {"p": 1, "average": 1}), (pairs[1][0], {})]
    found.append(("LpNorm", [Call({"X": x}, ["Y"], args) for x, args in norms]))
    found.append(("LpNormGradient", [Call({"X": x, "dY": signed(1)}, ["dX"], args) for x, args in norms]))
    rows = np.array([[1, 0, 1, 1], [0, 0, 1, 0]])
    solid, deep = pairs[0][0], signed(2, 3, 5, 7)
    found.append(
        ("Gather", [Call({"D": solid, "I": rows}, ["Y"], {}), Call({"D": deep, "I": rows}, ["Y"], {"axis": 2})])
    )
    own: dict[str, Any] = {"match_outer": 1}
    found.append(("BatchGather", [Call({"D": solid, "I": rows}, ["Y"], {}), Call({"D": deep, "I": rows}, ["Y"], own)]))
    back = [
        Call({"D": solid, "I": rows, "dY": signed(2, 2, 4, 5)}, ["dD"], {}),
        Call({"D": deep, "I": rows, "dY": signed(2, 4, 5, 7)}, ["dD"], own),
    ]
    found.append(("BatchGatherGradient", back))
    return found


def sequences() -> list[tuple[str, list[Call]]]:
    """Steps of sequences, some of which have ended; sequences side by side; masks; columns with a scale."""
    state = {"H_prev": signed(1, 5, 3), "gates": signed(1, 5, 9, seed=2)}
    lengths, step = {"seq_lengths": labels(0, 4, 2, 1, 3)}, {"timestep": labels(2)}
    slopes = {letter: signed(1, 5, 3, seed=3 + i) for i, letter in enumerate(("H", "dH"))}
    ragged, even = {**state, **lengths, **step}, {**state, **step}
    steps: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (ragged, {}),
        (ragged, {"drop_states": 1}),
        (even, {"sequence_lengths": 0}),
    ]
    uneven = {"lengths": labels(2, 0, 3)}
    rows, whole = {"X": signed(3, 4, 2), "lengths": labels(1, 4, 2)}, {"X": signed(2, 3, 4)}
    masks: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (rows, {"mode": "sequence"}),
        (rows, {"mode": "sequence", "repeat_from_axis": 2, "grad": 1}),
        (rows, {"mode": "window", "radius": 1, "fill_val": 0.5}),
        ({**whole, "lengths": labels(1, 4, 2)}, {"mode": "sequence", "axis": 2, "batch": 0}),
        *((whole, {"mode": mode, "axis": 2}) for mode in ("upper", "lower", "upperdiag", "lowerdiag")),
    ]
    segments = {"lengths": labels(1, 0, 3, 2), "data": signed(6, 2)}
    packed: list[tuple[list[str], dict[str, Any]]] = [
        (["packed"], {}),
        (["packed"], {"max_length": 2, "pad_minf": True}),
        (["packed", "mask"], {"max_length": 5, "return_presence_mask": True}),
    ]
    apart = [
        Call({"lengths": labels(1, 0, 3, 2), "packed": signed(4, T, 5)}, ["data"], args)
        for T, args in ((3, {}), (2, {"max_length": 2}))
    ]
    columns = [(signed(*shape), shape[axis:], {"axis": axis}) for shape, axis in ((SOLID, 1), (SOLID, 2), (FLAT, 1))]
    scaled = [
        (x, {"w": signed(math.prod(own), seed=1), "b": signed(math.prod(own), seed=2)}, args)
        for x, own, args in columns
    ]
    back = [Call({"dY": x[::-1].copy(), "X": x, "w": by["w"]}, ["dX", "dw", "db"], args) for x, by, args in scaled]
    return [
        ("GRUUnit", [Call(inputs, ["H"], args) for inputs, args in steps]),
        ("GRUUnitGradient", [Call({**inputs, **slopes}, ["dH_prev", "dgates"], args) for inputs, args in steps]),
        ("PackRNNSequence", [Call({"rows": signed(5, 2), **uneven}, ["steps"], {})]),
        ("UnpackRNNSequence", [Call({"steps": signed(3, 3, 2), **uneven}, ["rows"], {})]),
        ("SequenceMask", [Call(inputs, ["Y"], args) for inputs, args in masks]),
        ("PackSegments", [Call(segments, outputs, args) for outputs, args in packed]),
        ("UnpackSegments", apart),
        ("ElementwiseLinear", [Call({"X": x, **by}, ["Y"], args) for x, by, args in scaled]),
        ("ElementwiseLinearGradient", back),
        ("NegateGradient", [Call({"X": signed(*shape)}, ["Y"], {}) for shape in (SOLID, FLAT)]),
    ]


def choices() -> list[tuple[str, list[Call]]]:
    """Choices by a condition, and places of what is largest or smallest."""
    pairs = [(signed(*shape), signed(*shape, seed=1)) for shape in (SOLID, FLAT)]
    rows: dict[str, Any] = {"broadcast_on_rows": 1}
    edges = {"bin_edges": [-0.75, 0.0, 0.25, 1.5]}
    return [
        ("Histogram", [Call({"X": x, "more": y}, ["Y"], edges) for x, y in pairs]),
        ("IsMemberOf", [Call({"X": np.array(np.round(4 * x), "i")}, ["Y"], {"value": [1, -2]}) for x, _ in pairs]),
        ("ThresholdedRelu", [Call({"X": x}, ["Y"], {"alpha": 0.25}) for x, _ in pairs]),
        ("ThresholdedReluGradient", [Call({"Y": x, "dY": y}, ["dX"], {"alpha": 0.25}) for x, y in pairs]),
        (
            "Where",
            [
                Call({"C": TRUTH[0], "X": pairs[0][0], "Y": pairs[0][1]}, ["Z"], {}),
                Call({"C": TRUTH[1][:, 1].copy(), "X": pairs[1][0], "Y": pairs[1][1]}, ["Z"], rows),
            ],
        ),
        *(
            (name, [Call({"X": signed(*shape)}, ["Y"], {}) for shape in (SOLID, (4, 7, 2))])
            for name in ("RowwiseMax", "ColwiseMax")
        ),
        *(
            (name, [Call({"X": x}, ["Y"], {"axis": 1, "keepdims": 1 - i}) for i, (x, _) in enumerate(pairs)])
            for name in ("ArgMax", "ArgMin")
        ),
    ]


GROUPS = (
    handed,
    pointwise,
    of_two,
    sums,
    fills,
    convolutions,
    windows,
    updates,
    distances,
    sequences,
    shared_steps,
    choices,
    steps_of_rows,
    repeated,
    said_otherwise,
    labelled,
    marked,
    masked,
    looked_up,
    put,
    moved,
    one_by_one,
    by_columns,
    drawn,
    in_few_bits,
    picked,
    merged,
    parted,
    listed,
    fused_steps,
    tuned_steps,
    trains,
    dense,
    padded,
    ranged,
    divided,
    hashed,
    multiplied,
    summed_up,
    normalized,
    gated,
    ranked,
    counted,
    locally_connected,
    pooled,
    of_detectron,
    regions,
    moved_boxes,
    kept_boxes,
    of_levels,
    pictures,
    decoded,
    judged,
    of_places,
    texts,
    categories,
)
"""All cases, by what they are about."""

if __name__ == "__main__":
    main()
