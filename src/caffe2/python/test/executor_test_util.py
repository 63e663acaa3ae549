"""What tests of net types share: known nets that train, and whether two types leave the same bits."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from caffe2.python import brew, cnn, core, model_helper, optimizer, timeout_guard, workspace
from caffe2.python import hypothesis_test_util as hu
from caffe2.python.modeling.initializers import Initializer
from caffe2.python.models import resnet
from caffe2.python.test_util import TestCase

__all__ = [
    "CI_MAX_EXAMPLES",
    "CI_TIMEOUT",
    "ExecutorTestBase",
    "build_conv_model",
    "build_resnet50_dataparallel_model",
    "conv_model_generators",
    "executor_test_model_names",
    "executor_test_settings",
    "gen_test_resnet50",
    "run_resnet50_epoch",
]

cb: Any = import_module("caffe2.python.convnet_benchmarks")
data_parallel_model: Any = import_module("caffe2.python.data_parallel_model")
CI_MAX_EXAMPLES = 2
CI_TIMEOUT = 600
"""Seconds that one example may take."""
RESNET_EXTENT = 227


def executor_test_settings(func: Callable[..., Any]) -> Callable[..., Any]:
    """Take few examples, which may take long, where many machines wait for them."""
    if hu.is_sandcastle() or hu.is_travis():
        return hu.settings(max_examples=CI_MAX_EXAMPLES, deadline=CI_TIMEOUT * 1000)(func)
    return func


def gen_test_resnet50(_order: str, _cudnn_ws: int | None) -> tuple[Any, int]:
    """Return ResNet-50 with its loss, and height and width of its images."""
    model = cnn.CNNModelHelper(order="NCHW", name="resnet_50_test", cudnn_exhaustive_search=True)
    data, label = model.net.AddExternalInput("data"), model.net.AddExternalInput("label")
    resnet.create_resnet50(model, data, num_input_channels=3, num_labels=1000, label=label, is_test=False)
    return model, RESNET_EXTENT


def conv_model_generators() -> dict[str, Callable[..., tuple[Any, int]]]:
    """Return what makes each net, from the order of channels and a limit in MiB."""
    return {
        "AlexNet": cb.AlexNet,
        "OverFeat": cb.OverFeat,
        "VGGA": cb.VGGA,
        "Inception": cb.Inception,
        "MLP": cb.MLP,
        "Resnet50": gen_test_resnet50,
    }


def executor_test_model_names() -> list[str]:
    """Return which nets are tried: the smallest one where many machines wait for it."""
    return ["MLP"] if hu.is_sandcastle() or hu.is_travis() else sorted(conv_model_generators())


def build_conv_model(model_name: str, batch_size: int) -> Any:
    """Return a model that trains on random images and labels, which it makes itself."""
    makers = conv_model_generators()
    assert model_name in makers, f"there is no model {model_name}, there are {', '.join(sorted(makers))}"
    model, extent = makers[model_name]("NCHW", None)
    shape = [batch_size, extent] if model_name == "MLP" else [batch_size, 3, extent, extent]
    model.param_init_net.GaussianFill([], "data", shape=shape, mean=0.0, std=1.0)
    model.param_init_net.UniformIntFill([], "label", shape=[batch_size], min=0, max=999)
    model.AddGradientOperators(["loss"])
    counter = brew.iter(model, "iter")
    rate = model.net.LearningRate(counter, "LR", base_lr=-1e-8, policy="step", stepsize=10000, gamma=0.999)
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for parameter in model.params:
        model.net.WeightedSum([parameter, one, model.param_to_grad[parameter], rate], parameter)
    return model


def build_resnet50_dataparallel_model(
    num_gpus: int,
    batch_size: int,
    epoch_size: int,
    cudnn_workspace_limit_mb: int = 64,
    num_channels: int = 3,
    num_labels: int = 1000,
    weight_decay: float = 1e-4,
    base_learning_rate: float = 0.1,
    image_size: int = 227,
    use_cpu: bool = False,
) -> Any:
    """Return ResNet-50 on several devices, a share of each batch on each."""
    images = batch_size // num_gpus
    scope: dict[str, Any] = {"order": "NCHW", "use_cudnn": True, "cudnn_exhaustive_search": False}
    scope.update(ws_nbytes_limit=cudnn_workspace_limit_mb * 1024 * 1024, deterministic=True)
    train_model = model_helper.ModelHelper(name="test_resnet50", arg_scope=scope)

    def add_input(model: Any) -> None:
        fill = model.param_init_net
        fill.GaussianFill([], ["data"], shape=[images, num_channels, image_size, image_size], dtype="float")
        fill.ConstantFill([], ["label"], shape=[images], value=1, dtype=core.DataType.INT32)

    def add_forward(model: Any, loss_scale: float) -> list[Any]:
        initializers = {"WeightInitializer": Initializer, "BiasInitializer": Initializer}
        with brew.arg_scope([brew.conv, brew.fc], enable_tensor_core=0, **initializers):
            prediction = resnet.create_resnet50(model, "data", num_channels, num_labels, no_bias=True, no_loss=True)
        softmax, loss = model.SoftmaxWithLoss([prediction, "label"], ["softmax", "loss"])
        brew.accuracy(model, [softmax, "label"], "accuracy")
        return [model.Scale(loss, scale=loss_scale)]

    def add_optimizer(model: Any) -> Any:
        optimizer.add_weight_decay(model, weight_decay)
        steps = int(30 * epoch_size / batch_size)
        momentum: dict[str, Any] = {"momentum": 0.9, "nesterov": 1}
        return optimizer.build_multi_precision_sgd(
            model, base_learning_rate, policy="step", stepsize=steps, gamma=0.1, **momentum
        )

    data_parallel_model.Parallelize(
        train_model,
        input_builder_fun=add_input,
        forward_pass_builder_fun=add_forward,
        optimizer_builder_fun=add_optimizer,
        post_sync_builder_fun=_add_copies,
        devices=list(range(num_gpus)),
        rendezvous=None,
        optimize_gradient_memory=True,
        cpu_device=use_cpu,
        shared_model=use_cpu,
    )
    return train_model


def _add_copies(model: Any) -> None:
    """Let parameters of float16 have copies of float32."""
    for info in model.GetOptimizationParamInfo(model.GetParams()):
        if info.blob_copy is not None:
            model.param_init_net.HalfToFloat(info.blob, info.blob_copy[core.DataType.FLOAT])


def run_resnet50_epoch(
    train_model: Any, batch_size: int, epoch_size: int, skip_first_n_iter: int = 0
) -> tuple[int, float, Any, Any]:
    """Run such a model over an epoch; returns images and seconds of the runs that count, accuracy and loss."""
    prefix = f"{train_model._device_prefix}_{train_model._devices[0]}"  # pyright: ignore[reportPrivateUsage] -- Caffe2's
    runs = epoch_size // batch_size
    images, took_s = 0, 0.0
    for number in range(runs):
        with timeout_guard.CompleteInTimeOrDie(60.0 if number else 600.0):
            begin = time.monotonic()
            workspace.RunNet(train_model.net.Proto().name)
            once_s = time.monotonic() - begin
        if number >= skip_first_n_iter:
            images, took_s = images + batch_size, took_s + once_s
        print(f"Finished iteration {number + 1}/{runs} ({batch_size / once_s:.2f} images/sec)")
    accuracy, loss = (workspace.FetchBlob(f"{prefix}/{name}") for name in ("accuracy", "loss"))
    assert loss < 40, "Exploded gradients"
    return images, took_s, accuracy, loss


class ExecutorTestBase(TestCase):
    """Base of tests that run a net as two types."""

    def compare_executors(
        self, model: Any, ref_executor: str, test_executor: str, model_run_func: Callable[[], object]
    ) -> None:
        """Check that a model leaves the same bits in all blobs, by whichever of two net types it runs."""
        for net in (model.param_init_net, model.net):
            net.set_rand_seed(seed=0xCAFFE2)
        left = [self._left(model, kind, model_run_func) for kind in (ref_executor, test_executor)]
        for name, value in left[0].items():
            self.assertTrue(name in left[1], f"there is no blob {name} as {test_executor}")
            np.testing.assert_array_equal(left[1][name], value, f"blob {name} is another one as {test_executor}")

    def _left(self, model: Any, kind: str, model_run_func: Callable[[], object]) -> dict[str, Any]:
        """Return the arrays that a run leaves."""
        workspace.ResetWorkspace()
        workspace.RunNetOnce(model.param_init_net)
        model.Proto().type = kind
        workspace.CreateNet(model.net, overwrite=True)
        model_run_func()
        fetched = {str(name): workspace.FetchBlob(name) for name in workspace.Blobs()}
        return {name: value for name, value in fetched.items() if type(value) is np.ndarray}
