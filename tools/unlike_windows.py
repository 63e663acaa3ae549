"""Calls that `record_unlike` records: layers whose filters differ by place, pools by norms, convolutions cut off at 0.

Images of Detectron's module are among them, whose library has one operator that runs without a GPU.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tools.record_golden import NHWC, Call, signed

IMAGE = signed(2, 3, 5, 7)
LAST = np.moveaxis(IMAGE, 1, -1).copy()
LINE, VOLUME = signed(2, 3, 7), signed(2, 3, 4, 5, 7)
ALL = ["dW", "db", "dX"]


def locally_connected() -> list[tuple[str, list[Call]]]:
    """Filters for each place, in all forms of arguments and gradients."""
    step = {"kernels": [3, 2], "strides": [1, 2], "pads": [1, 0, 2, 1]}
    wide = {"kernels": [3, 2], "dilations": [2, 3], **NHWC}
    deep = {"kernels": [2, 3, 2], "strides": [1, 2, 3], "pads": [0, 1, 0, 1, 0, 1]}
    flat = {"kernels": [3], "strides": [2], "pads": [1, 2]}
    plane, turned = signed(6, 4, 6, 3, 3, 2), signed(1, 4, 6, 3, 2, 3)
    solid, line = signed(4, 2, 3, 2, 3, 2, 3, 2), signed(4, 5, 3, 3)
    of_plane: list[tuple[Any, Any, Any, dict[str, Any]]] = [
        (IMAGE, plane, (2, 6, 6, 4), step),
        (LAST, turned, (2, 1, 4, 6), wide),
    ]
    of_solid: list[tuple[Any, Any, Any, dict[str, Any]]] = [(VOLUME, solid, (2, 2, 4, 2, 3), deep)]
    of_line: list[tuple[Any, Any, Any, dict[str, Any]]] = [(LINE, line, (2, 5, 4), flat)]
    rows = {"LC": of_plane, "LC1D": of_line, "LC2D": of_plane, "LC3D": of_solid}
    found: list[tuple[str, list[Call]]] = []
    for name, runs in rows.items():
        forward: list[Call] = []
        for x, w, _, args in runs:
            b = signed(*w.shape[: w.ndim // 2])
            forward += [Call({"X": x, "W": w, "b": b}, ["Y"], args), Call({"X": x, "W": w}, ["Y"], args)]
        given = [({"X": x, "W": w, "dY": signed(*shape)}, args) for x, w, shape, args in runs]
        back = [Call(inputs, ALL, args) for inputs, args in given]
        back += [Call(inputs, ["dW", "dX"], {**args, "no_bias": 1}) for inputs, args in given]
        back += [Call(inputs, ["dW", "db"], {**args, "no_gradient_to_input": 1}) for inputs, args in given]
        found += [(name, forward), (f"{name}Gradient", back)]
    whole = Call({"X": IMAGE, "W": signed(1, 1, 4, 3, 5, 7)}, ["Y"], {"global_pooling": 1})
    found[0][1].append(whole)
    return found


def pooled() -> list[tuple[str, list[Call]]]:
    """Pools by norms, and convolutions with a rectifier behind."""
    step = {"kernels": [3, 2], "strides": [1, 2], "pads": [1, 0, 1, 1], "p": 3.0}
    cases: list[tuple[Any, dict[str, Any], Any]] = [
        (IMAGE, step, (2, 3, 5, 4)),
        (LAST, {**step, **NHWC, "p": 1.0}, (2, 5, 4, 3)),
        (IMAGE, {"kernel": 2, "p": 0.5}, (2, 3, 4, 6)),
        (IMAGE, {"kernel": 2, "p": -1.0}, (2, 3, 4, 6)),
        (IMAGE, {"global_pooling": 1}, (2, 3, 1, 1)),
    ]
    back = [
        Call({"X": x, "Y": np.abs(signed(*shape, seed=2)) + np.float32(0.5), "dY": signed(*shape)}, ["dX"], args)
        for x, args, shape in cases
    ]
    odd = signed(1, 1, 3, 4)
    odd[0, 0, 1, 2] = np.nan
    convolved: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"X": IMAGE, "W": signed(4, 3, 3, 2), "b": signed(4)}, {"kernels": [3, 2], "pad": 1}),
        ({"X": LAST, "W": signed(4, 2, 2, 3)}, {"kernel": 2, "stride": 2, **NHWC}),
        ({"X": LINE, "W": signed(6, 1, 3), "b": signed(6)}, {"kernels": [3], "group": 3}),
        ({"X": odd, "W": signed(2, 1, 1, 2)}, {"kernels": [1, 2]}),
    ]
    return [
        ("LpPool", [Call({"X": x}, ["Y"], args) for x, args, _ in cases]),
        ("LpPoolGradient", back),
        ("ConvRelu", [Call(inputs, ["Y"], args) for inputs, args in convolved]),
    ]


def of_detectron() -> list[tuple[str, list[Call]]]:
    """Images with each pixel repeated; the gradients of this library run on a GPU alone."""
    library = Path(str(import_module("torch").__file__)).parent / "lib" / "libcaffe2_detectron_ops_gpu.so"
    import_module("caffe2.python.dyndep").InitOpsLibrary(str(library))
    larger: list[tuple[Any, dict[str, Any]]] = [
        (IMAGE, {}),
        (signed(2, 3, 5), {"scale": 3}),
        (IMAGE[:0], {"scale": 2}),
        (IMAGE, {"scale": 1}),
    ]
    return [("UpsampleNearest", [Call({"X": x}, ["Y"], args) for x, args in larger])]
