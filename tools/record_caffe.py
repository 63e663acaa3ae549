"""Record what genuine Caffe2 makes of nets of Caffe 1; run by the Python that has it, from the folder of the project.

    PYTHON_OF_CAFFE2 tools/record_caffe.py tests/data/caffe

Of each layer of `LAYERS` the operators and parameters, or the class of the error; of `deploy.prototxt`, with parameters
that a seed gives, both nets and the blobs of a run. Caffe itself is not needed: its messages are those of tazza.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
import types
from pathlib import Path
from typing import Any, cast

import numpy as np

MESSAGES = Path(__file__).resolve().parent.parent / "src/tazza/interop/caffe/caffe_pb2.py"
BLOBS = ("conv1", "norm1", "pool1", "conv2", "sum", "concat", "up", "pool2", "prob")

WINDOWS = (
    *("kernel_size: 3", "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 2"),
    *(
        "kernel_size: 3 pad: 1 stride: 2",
        "kernel_size: 3 stride: 2 pad_h: 1 pad_w: 0",
        "kernel_size: 3 pad_h: 1 pad_w: 1",
    ),
    *(
        "kernel_size: 3 kernel_h: 2 kernel_w: 2",
        "kernel_size: 3 pad: 1 pad_h: 0",
        "kernel_size: 3 stride: 2 stride_h: 3",
    ),
)
CONVOLUTIONS = ("", "group: 2", "dilation: 2", "dilation: 2 dilation: 3", "engine: CUDNN", "axis: 2")
POOLS = ("", "pool: AVE", "global_pooling: true", "pool: AVE global_pooling: true", "pool: STOCHASTIC")
PARAMETERS: dict[str, list[tuple[int, ...]]] = {
    "Convolution": [(4, 3, 3, 3), (4,)],
    "Deconvolution": [(3, 4, 3, 3), (4,)],
    "InnerProduct": [(4, 6), (4,)],
    "InstanceNorm": [(3,), (3,)],
    "BatchNorm": [(3,), (3,), (1,)],
    "Scale": [(3,), (3,)],
    "PReLU": [(3,)],
}
SETTINGS: dict[str, tuple[str, ...]] = {
    "Input": ("input_param { shape { dim: 1 } }",),
    "Data": ("data_param { batch_size: 2 }",),
    "VideoData": ("",),
    "Convolution": tuple(f"convolution_param {{ num_output: 4 {one} }}" for one in WINDOWS)
    + tuple(f"convolution_param {{ num_output: 4 kernel_size: 3 {one} }}" for one in CONVOLUTIONS),
    "Deconvolution": (
        *(f"convolution_param {{ num_output: 4 {one} }}" for one in WINDOWS),
        *("convolution_param { kernel_size: 3 bias_term: false }", "convolution_param { kernel_size: 3 group: 2 }"),
    ),
    "Pooling": tuple(f"pooling_param {{ {one} }}" for one in WINDOWS)
    + tuple(f"pooling_param {{ {one} }}" for one in POOLS),
    "LRN": ("", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.25 k: 2 }", "lrn_param { norm_region: WITHIN_CHANNEL }"),
    "InnerProduct": ("inner_product_param { num_output: 4 }", "inner_product_param { axis: 2 }"),
    "Dropout": ("", "dropout_param { dropout_ratio: 0.25 }"),
    "Accuracy": ("", "accuracy_param { top_k: 5 }"),
    "Eltwise": (
        "",
        "eltwise_param { operation: SUM }",
        "eltwise_param { operation: PROD }",
        "eltwise_param { coeff: 2 }",
    ),
    "Scale": ("", "scale_param { axis: 2 bias_term: true }", "scale_param { num_axes: 2 }"),
    "Reshape": ("reshape_param { shape { dim: 0 dim: -1 } }", "reshape_param { shape { dim: 1 dim: 2 dim: 3 } }"),
    "Flatten": ("", "flatten_param { axis: 0 }", "flatten_param { axis: 2 }", "flatten_param { end_axis: 2 }"),
    "ROIPooling": ("", "roi_pooling_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.5 }"),
    "Reduction": ("reduction_param { axis: -1 }", "reduction_param { operation: MEAN axis: -2 }"),
    **dict.fromkeys(("ReLU", "Softmax", "SoftmaxWithLoss", "Concat", "TanH", "Sigmoid", "PReLU"), ("",)),
    **dict.fromkeys(("InstanceNorm", "Nobody"), ("",)),
    "BatchNorm": ("", "batch_norm_param { eps: 0.5 use_global_stats: true }"),
}
TWO_INPUTS = ("SoftmaxWithLoss", "Accuracy", "Eltwise", "Concat", "ROIPooling")


def layer_text(kind: str, setting: str) -> str:
    """Return a layer, with two inputs where its type takes two."""
    second = ' bottom: "z"' if kind in TWO_INPUTS else ""
    return f'name: "n" type: "{kind}" bottom: "x"{second} top: "y" {setting}'.strip()


LAYERS = [layer_text(kind, setting) for kind, settings in SETTINGS.items() for setting in settings]
"""A layer each."""


def parameters(kind: str) -> list[Any]:
    """Return the parameters of a layer."""
    shapes = PARAMETERS.get(kind, [])
    return [np.linspace(0.5, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape) for shape in shapes]


def argument(one: Any) -> Any:
    """Return the value of an argument."""
    for field in ("i", "f", "s"):
        if one.HasField(field):
            value = getattr(one, field)
            return value.decode() if field == "s" else float(f"{value:.9g}") if field == "f" else value
    return list(one.ints) or list(one.floats)


def operator_line(op: Any) -> list[Any]:
    """Return an operator as plain values."""
    return [op.type, list(op.input), list(op.output), [[one.name, argument(one)] for one in op.arg]]


def plain(proto: Any) -> list[Any]:
    """Return name, shape and numbers of a parameter."""
    return [proto.name, list(proto.dims), [float(f"{value:.9g}") for value in proto.float_data]]


def translated(translator: Any, layer: Any, *, is_test: bool) -> Any:
    """Return what a layer becomes, or the name of the error."""
    try:
        ops, made = translator.TranslatorRegistry.TranslateLayer(layer, parameters(layer.type), is_test)
    except Exception as error:
        return type(error).__name__
    return [[operator_line(op) for op in ops], [plain(proto) for proto in made]]


def trained(net: Any, messages: Any) -> Any:
    """Return the layers of `deploy.prototxt` with parameters."""
    shapes = {
        "conv1": [(8, 3, 3, 3), (8,)],
        "bn1": [(8,), (8,), (1,)],
        "scale1": [(8,), (8,)],
        "conv2": [(6, 4, 3, 1), (6,)],
        "prelu2": [(6,)],
        "conv3": [(6, 8, 1, 1)],
        "up": [(12, 4, 4, 4), (4,)],
        "fc": [(5, 12 * 4 * 4), (5,)],
    }
    random = np.random.RandomState(3)
    weights = messages.NetParameter(name=net.name)
    for layer in net.layer:
        made = weights.layer.add(name=layer.name, type=layer.type)
        for shape in shapes.get(layer.name, []):
            values = random.uniform(0.1, 0.5, shape) - (0.25 if len(shape) > 1 else 0)
            blob = made.blobs.add(data=values.astype(np.float32).ravel())
            blob.shape.dim.extend(shape)
    return weights


def data() -> Any:
    """Return a batch of images."""
    return np.random.RandomState(4).uniform(-1, 1, (2, 3, 12, 13)).astype(np.float32)


def messages_of_caffe() -> Any:
    """Let the messages be imported as those of an installed Caffe."""
    spec = importlib.util.spec_from_file_location("caffe.proto.caffe_pb2", MESSAGES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    for name in ("caffe", "caffe.proto"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["caffe.proto.caffe_pb2"] = cast("Any", sys.modules["caffe.proto"]).caffe_pb2 = module
    spec.loader.exec_module(module)
    return module


def run(net: Any, params: Any) -> dict[str, Any]:
    """Return blobs of a run, without the Slice that Caffe2 makes and then refuses: it is over two axes."""
    from caffe2.python import utils, workspace

    for proto in params.protos:
        workspace.FeedBlob(proto.name, utils.Caffe2TensorToNumpyArray(proto))
    workspace.FeedBlob("data", data())
    kept = [op for op in net.op if op.type != "Slice"]
    del net.op[:]
    net.op.extend(kept)
    workspace.RunNetOnce(net)
    return {name: workspace.FetchBlob(name) for name in BLOBS}


def main(folder: Path) -> None:
    """Record all."""
    messages = messages_of_caffe()
    from google.protobuf import text_format

    from caffe2.python import caffe_translator

    logging.disable(logging.CRITICAL)
    found: dict[str, Any] = {}
    for text in LAYERS:
        layer = text_format.Parse(text, messages.LayerParameter())
        found[text] = [translated(caffe_translator, layer, is_test=test) for test in (False, True)]
    net = text_format.Parse((folder / "deploy.prototxt").read_text(), messages.NetParameter())
    made, params = caffe_translator.TranslateModel(net, trained(net, messages), is_test=True)
    found["net"] = [[operator_line(op) for op in made.op], [plain(proto)[:2] for proto in params.protos]]
    (folder / "translated.json").write_text(json.dumps(found, separators=(",", ":")).replace('],"name:', '],\n"name:'))
    np.savez_compressed(str(folder / "blobs.npz"), **run(made, params))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
