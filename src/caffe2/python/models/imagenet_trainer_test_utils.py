"""What tests of nets for images ask of shared names: blobs before and after, and the numbers of both nets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from caffe2.python import cnn, core, memonger, workspace

__all__ = [
    "count_blobs",
    "count_shared_blobs",
    "has_blob",
    "test_forward_only",
    "test_forward_only_fast_simplenet",
    "test_shared_grads",
]

EXTENT = 227
IMAGES = 4


def _blobs(proto: Any) -> set[str]:
    return {name for op in proto.op for name in (*op.input, *op.output)}


def has_blob(proto: Any, needle: str) -> bool:
    """Whether an operator of a net names a blob."""
    return needle in _blobs(proto)


def count_blobs(proto: Any) -> int:
    """Return how many blobs the operators of a net name."""
    return len(_blobs(proto))


def count_shared_blobs(proto: Any) -> int:
    """Return how many of them have a name that is shared."""
    return sum("_shared" in name for name in _blobs(proto))


def _model(create_model: Callable[..., Any], data_blob: str, num_labels: int, **options: Any) -> tuple[Any, Any]:
    """Return a model in the scope of the first device, and what its builder returned."""
    model = cnn.CNNModelHelper(order="NCHW", name="test", cudnn_exhaustive_search=True)
    with core.NameScope("gpu_0"):
        data = model.net.AddExternalInput(data_blob)
        if "label_blob" in options:
            options["label"] = model.net.AddExternalInput(options.pop("label_blob"))
        return model, create_model(model, data, num_input_channels=3, num_labels=num_labels, **options)


def _feed_images(data_blob: str) -> None:
    workspace.FeedBlob(data_blob, np.random.rand(IMAGES, 3, EXTENT, EXTENT).astype(np.float32))


def test_shared_grads(
    with_shapes: bool,
    create_model: Callable[..., Any],
    conv_blob: str,
    last_out_blob: str,
    data_blob: str = "gpu_0/data",
    label_blob: str = "gpu_0/label",
    num_labels: int = 1000,
) -> list[tuple[Any, Any]]:
    """Return pairs of a training net with shared gradients and without: blobs, results, gradients of `conv_blob`."""
    model, (_, loss) = _model(create_model, data_blob, num_labels, label_blob=label_blob, is_test=False)
    gradient = model.AddGradientOperators([loss])[conv_blob]
    inputs = {data_blob: [IMAGES, 3, EXTENT, EXTENT], label_blob: [IMAGES]}
    shapes, _ = workspace.InferShapesAndTypes([model.param_init_net, model.net], inputs)
    shared = memonger.share_grad_blobs(
        model.net,
        ["gpu_0/loss"],
        set(model.param_to_grad.values()),
        "gpu_0/",
        share_activations=True,
        dont_share_blobs={str(gradient)},
        blob_shapes=shapes if with_shapes else None,
    )
    workspace.RunNetOnce(model.param_init_net)
    _feed_images(data_blob)
    workspace.FeedBlob(label_blob, (np.random.rand(IMAGES) * num_labels).astype(np.int32))
    found: list[tuple[Any, Any]] = []
    for net in (model.net, shared):
        workspace.RunNetOnce(net)
        found.append((workspace.FetchBlob(last_out_blob), workspace.FetchBlob(gradient)))
        workspace.FeedBlob(gradient, np.array([0.0]))
    (result, slope), (shared_result, shared_slope) = found
    counts = count_blobs(shared), count_blobs(model.net.Proto())
    return [counts, (result, shared_result), (slope, shared_slope)]


def test_forward_only(
    create_model: Callable[..., Any], last_out_blob: str, data_blob: str = "gpu_0/data", num_labels: int = 1000
) -> list[Any]:
    """Return of a net that runs in parallel: blobs with shared names and without, how many are shared, both results."""
    model, _ = _model(create_model, data_blob, num_labels, is_test=True)
    shared = memonger.optimize_inference_for_dag(model.net, [data_blob], "gpu_0/")
    return _compared(model, shared, data_blob, last_out_blob)


def test_forward_only_fast_simplenet(
    create_model: Callable[..., Any], last_out_blob: str, data_blob: str = "gpu_0/data", num_labels: int = 1000
) -> list[Any]:
    """Return the same of a net that runs in order."""
    model, _ = _model(create_model, data_blob, num_labels, is_test=True)
    net = model.net.Proto()
    begin = time.monotonic()
    shared = memonger.optimize_inference_fast(net, {data_blob, last_out_blob, *net.external_input})
    print(f"Optimization took {time.monotonic() - begin} secs")
    return _compared(model, shared, data_blob, last_out_blob)


def _compared(model: Any, shared: Any, data_blob: str, last_out_blob: str) -> list[Any]:
    workspace.RunNetOnce(model.param_init_net)
    _feed_images(data_blob)
    results: list[Any] = []
    for net in (model.net, shared):
        workspace.RunNetOnce(net)
        results.append(workspace.FetchBlob(last_out_blob))
    counts = count_blobs(shared), count_blobs(model.net.Proto())
    return [counts, count_shared_blobs(shared), tuple(results)]
