"""Nets of 2012 to 2014 with random data, and how long a pass through them takes.

    python -m caffe2.python.convnet_benchmarks --model AlexNet --cpu --batch_size 16

A function makes a model of an order of axes, and says how large its images are. All end in `loss`, over 1000 classes.

Sources: Krizhevsky: One weird trick for parallelizing convolutional neural networks, 2014 (AlexNet); Sermanet et al.:
OverFeat, 2014; Simonyan, Zisserman: Very deep convolutional networks, 2014, column A (VGGA); Szegedy et al.: Going
deeper with convolutions, 2015 (Inception).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from caffe2.python import brew, model_helper, workspace
from tazza.runtime.files import write_bytes_atomically

CLASSES = 1000
XAVIER: tuple[str, dict[str, Any]] = ("XavierFill", {})
CONSTANT: tuple[str, dict[str, Any]] = ("ConstantFill", {})


def _model(name: str, order: str, cudnn_ws: int | None) -> Any:
    settings: dict[str, Any] = {"order": order, "use_cudnn": True, "cudnn_exhaustive_search": True}
    if cudnn_ws:
        settings["ws_nbytes_limit"] = cudnn_ws
    return model_helper.ModelHelper(name=name, arg_scope=settings)


class _Chain:
    """Adds one layer behind the other; `blob` is what came out of the last one, `depth` its channels."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.blob: Any = "data"
        self.depth = 3

    def conv(self, name: str, depth: int, kernel: int, **more: int) -> None:
        made = brew.conv(self.model, self.blob, name, self.depth, depth, kernel, XAVIER, CONSTANT, **more)
        self.blob, self.depth = brew.relu(self.model, made, name), depth

    def max_pool(self, name: str, kernel: int, **more: Any) -> None:
        self.blob = brew.max_pool(self.model, self.blob, name, kernel=kernel, stride=2, **more)

    def fc(self, name: str, depth: int, size: int = 1) -> None:
        """Add a layer on images of that size, with a rectifier unless it gives the scores."""
        made = brew.fc(self.model, self.blob, name, self.depth * size * size, depth, XAVIER, CONSTANT)
        self.blob, self.depth = made if depth == CLASSES else brew.relu(self.model, made, name), depth

    def loss(self) -> Any:
        """Add the loss on what is predicted; returns the model."""
        return _add_loss(self.model, brew.softmax(self.model, self.blob, "pred"))


def _add_loss(model: Any, scores: Any) -> Any:
    each = model.net.LabelCrossEntropy([scores, "label"], "xent")
    model.net.AveragedLoss(each, "loss")
    return model


def MLP(order: str, cudnn_ws: int | None) -> tuple[Any, int]:
    """Return a model of three chains of 20 layers on rows of 256 numbers, and that number; any order is NCHW."""
    del order, cudnn_ws
    size, depth, width = 256, 20, 3
    settings = {"order": "NCHW", "use_cudnn": True, "cudnn_exhaustive_search": False}
    model = model_helper.ModelHelper(name="MLP", arg_scope=settings)
    ends: list[Any] = ["data"] * width
    for at in range(1, depth + 1):
        ends = [brew.fc(model, end, f"fc_{at}_{chain}", size, size, XAVIER, XAVIER) for chain, end in enumerate(ends)]
    total = brew.sum(model, ends, ["sum"])
    return _add_loss(model, brew.fc(model, total, "last", size, CLASSES, XAVIER, XAVIER)), size


def AlexNet(order: str, cudnn_ws: int | None) -> tuple[Any, int]:
    """Return AlexNet in one column, and the size of its images."""
    net = _Chain(_model("alexnet", order, cudnn_ws))
    net.conv("conv1", 64, 11, stride=4, pad=2)
    net.max_pool("pool1", 3)
    net.conv("conv2", 192, 5, pad=2)
    net.max_pool("pool2", 3)
    for name, depth in (("conv3", 384), ("conv4", 256), ("conv5", 256)):
        net.conv(name, depth, 3, pad=1)
    net.max_pool("pool5", 3)
    net.fc("fc6", 4096, 6)
    net.fc("fc7", 4096)
    net.fc("fc8", CLASSES)
    return net.loss(), 224


def OverFeat(order: str, cudnn_ws: int | None) -> tuple[Any, int]:
    """Return the fast OverFeat, and the size of its images."""
    net = _Chain(_model("overfeat", order, cudnn_ws))
    net.conv("conv1", 96, 11, stride=4)
    net.max_pool("pool1", 2)
    net.conv("conv2", 256, 5)
    net.max_pool("pool2", 2)
    for name, depth in (("conv3", 512), ("conv4", 1024), ("conv5", 1024)):
        net.conv(name, depth, 3, pad=1)
    net.max_pool("pool5", 2)
    net.fc("fc6", 3072, 6)
    net.fc("fc7", 4096)
    net.fc("fc8", CLASSES)
    return net.loss(), 231


def VGGA(order: str, cudnn_ws: int | None) -> tuple[Any, int]:
    """Return the VGG of eleven layers, and the size of its images."""
    net = _Chain(_model("vgga", order, cudnn_ws))
    for at, depth in enumerate((64, 128, 256, 256, 512, 512, 512, 512), 1):
        net.conv(f"conv{at}", depth, 3, pad=1)
        if at in (1, 2, 4, 6, 8):
            net.max_pool(f"pool{at}", 2)
    net.fc("fcix", 4096, 7)
    net.fc("fcx", 4096)
    net.fc("fcxi", CLASSES)
    return net.loss(), 231


INCEPTIONS: dict[str, tuple[int, Sequence[int], Sequence[int], int]] = {
    "inc3": (64, (96, 128), (16, 32), 32),
    "inc4": (128, (128, 192), (32, 96), 64),
    "inc5": (192, (96, 208), (16, 48), 64),
    "inc6": (160, (112, 224), (24, 64), 64),
    "inc7": (128, (128, 256), (24, 64), 64),
    "inc8": (112, (144, 288), (32, 64), 64),
    "inc9": (256, (160, 320), (32, 128), 128),
    "inc10": (256, (160, 320), (32, 128), 128),
    "inc11": (384, (192, 384), (48, 128), 128),
}
"""Channels of each block: of 1 x 1, of 3 x 3 and its reduction, of 5 x 5 and its reduction, behind the pool."""
POOLED_BEFORE = {"inc5": "pool5", "inc10": "pool9"}


def _InceptionModule(
    model: Any,
    input_blob: Any,
    input_depth: int,
    output_name: str,
    conv1_depth: int,
    conv3_depths: Sequence[int],
    conv5_depths: Sequence[int],
    pool_depth: int,
) -> Any:
    """Add a block of four branches, and return what joins them."""

    def branch(source: Any, *layers: tuple[str, int, int]) -> Any:
        net = _Chain(model)
        net.blob, net.depth = source, input_depth
        for name, depth, kernel in layers:
            padding = {"pad": kernel // 2} if kernel > 1 else {}
            net.conv(f"{output_name}:{name}", depth, kernel, **padding)
        return net.blob

    branches = [branch(input_blob, ("conv1", conv1_depth, 1))]
    for kernel, (reduced, depth) in ((3, conv3_depths), (5, conv5_depths)):
        branches.append(branch(input_blob, (f"conv{kernel}_reduce", reduced, 1), (f"conv{kernel}", depth, kernel)))
    pooled = brew.max_pool(model, input_blob, f"{output_name}:pool", kernel=3, stride=1, pad=1)
    branches.append(branch(pooled, ("pool_proj", pool_depth, 1)))
    return brew.concat(model, branches, output_name)


def Inception(order: str, cudnn_ws: int | None) -> tuple[Any, int]:
    """Return GoogLeNet without its side branches, and the size of its images."""
    net = _Chain(_model("inception", order, cudnn_ws))
    net.conv("conv1", 64, 7, stride=2, pad=3)
    net.max_pool("pool1", 3, pad=1)
    net.conv("conv2a", 64, 1)
    net.conv("conv2", 192, 3, pad=1)
    net.max_pool("pool2", 3, pad=1)
    for name, (one, three, five, pool) in INCEPTIONS.items():
        if name in POOLED_BEFORE:
            net.max_pool(POOLED_BEFORE[name], 3, pad=1)
        net.blob = _InceptionModule(net.model, net.blob, net.depth, name, one, three, five, pool)
        net.depth = one + three[1] + five[1] + pool
    net.blob = brew.average_pool(net.model, net.blob, "pool11", kernel=7, stride=1)
    net.fc("fc", CLASSES)
    return net.loss(), 224


def AddParameterUpdate(model: Any) -> None:
    """Add steps of plain descent, with a rate so small that nothing changes much."""
    counted = brew.iter(model, "iter")
    rate = model.net.LearningRate(counted, "LR", base_lr=-1e-8, policy="step", stepsize=10000, gamma=0.999)
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for param in model.params:
        model.net.WeightedSum([param, one, model.param_to_grad[param], rate], param)


def Benchmark(model_gen: Callable[[str, int | None], tuple[Any, int]], arg: argparse.Namespace) -> None:
    """Make a model, and run it as the options of `GetArgumentParser` say; the times are printed.

    Raises:
        FileError: the nets are to be written to the present folder, and cannot be.
    """
    model, size = model_gen(arg.order, arg.cudnn_ws)
    model.Proto().type = arg.net_type
    model.Proto().num_workers = arg.num_workers
    _add_data(model, size, arg)
    if arg.forward_only:
        print(f"{arg.model}: running forward only.")
    else:
        print(f"{arg.model}: running forward-backward.")
        model.AddGradientOperators(["loss"])
        AddParameterUpdate(model)
        if arg.order == "NHWC":
            print("NHWC with cuDNN may not be there, and end this program.")
    if not arg.cpu:
        model.param_init_net.RunAllOnGPU()
        model.net.RunAllOnGPU()
    if arg.engine:
        for op in model.net.Proto().op:
            op.engine = arg.engine
    if arg.dump_model:
        _dump(model, arg)
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    workspace.BenchmarkNet(model.net.Proto().name, arg.warmup_iterations, arg.iterations, arg.layer_wise_benchmark)


def _add_data(model: Any, size: int, arg: argparse.Namespace) -> None:
    """Let the initializing net make random images, or rows for `--model MLP`, and labels."""
    image = [3, size, size] if arg.order == "NCHW" else [size, size, 3]
    shape = [arg.batch_size, *([size] if arg.model == "MLP" else image)]
    model.param_init_net.GaussianFill([], "data", shape=shape, mean=0.0, std=1.0)
    model.param_init_net.UniformIntFill([], "label", shape=[arg.batch_size], min=0, max=CLASSES - 1)


def _dump(model: Any, arg: argparse.Namespace) -> None:
    """Write both nets as text."""
    for net, name in ((model.net, arg.model), (model.param_init_net, f"{arg.model}_init_batch_{arg.batch_size}")):
        write_bytes_atomically(Path(f"{name}.pbtxt"), str(net.Proto()).encode())


def GetArgumentParser() -> argparse.ArgumentParser:
    """Return what reads the options of a run."""
    parser = argparse.ArgumentParser(description="Caffe2 benchmark.")
    parser.add_argument("--batch_size", type=int, default=128, help="images of a batch")
    parser.add_argument("--model", type=str, help="what to run: AlexNet, OverFeat, VGGA, Inception, MLP")
    parser.add_argument("--order", type=str, default="NCHW", help="order of the axes")
    parser.add_argument("--cudnn_ws", type=int, help="bytes that cuDNN may use for itself")
    parser.add_argument("--iterations", type=int, default=10, help="runs that are timed")
    parser.add_argument("--warmup_iterations", type=int, default=10, help="runs before")
    parser.add_argument("--forward_only", action="store_true", help="without gradients")
    parser.add_argument("--layer_wise_benchmark", action="store_true", help="time each operator as well")
    parser.add_argument("--cpu", action="store_true", help="on the CPU, not on a GPU")
    parser.add_argument("--engine", type=str, default="", help="engines that every operator prefers")
    parser.add_argument("--dump_model", action="store_true", help="write the nets as text")
    parser.add_argument("--net_type", type=str, default="dag")
    parser.add_argument("--num_workers", type=int, default=2)
    parser.add_argument("--use-nvtx", default=False, action="store_true")
    parser.add_argument("--htrace_span_log_path", type=str)
    return parser


MODELS: dict[str, Callable[[str, int | None], tuple[Any, int]]] = {
    "AlexNet": AlexNet,
    "OverFeat": OverFeat,
    "VGGA": VGGA,
    "Inception": Inception,
    "MLP": MLP,
}

if __name__ == "__main__":
    options, more = GetArgumentParser().parse_known_args()
    if options.model not in MODELS:
        GetArgumentParser().error(f"--model has to be one of {', '.join(MODELS)}")
    workspace.GlobalInit(["caffe2", "--caffe2_log_level=0", *more])
    Benchmark(MODELS[options.model], options)
