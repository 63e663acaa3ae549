"""Train a ResNeXt or a ShuffleNet on images of a database, on several devices in step.

python -m caffe2.python.examples.imagenet_trainer --train_data images.lmdb --use_cpu --num_layers 18

With `--train_data null` the images are noise, which shows how fast it trains. Behind each epoch the model is written to
`FILE_STORE_PATH/SAVE_MODEL_NAME_EPOCH.mdl`, and that of the epoch before is removed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import (
    brew,
    core,
    data_parallel_model,
    experiment_util,
    model_helper,
    optimizer,
    timeout_guard,
    workspace,
)
from caffe2.python.examples._imagenet_arguments import arguments
from caffe2.python.modeling.initializers import Initializer, PseudoFP16Initializer
from caffe2.python.models import resnet, shufflenet
from caffe2.python.predictor import predictor_exporter, predictor_py_utils
from caffe2.python.predictor_constants import predictor_constants
from tazza.errors import ArgumentError

__all__ = ["AddImageInput", "AddNullInput", "LoadModel", "RunEpoch", "SaveModel", "Train", "log", "main"]

log = logging.getLogger("Imagenet_trainer")
log.setLevel(logging.DEBUG)

MOMENTUM = 0.9
EPOCHS_A_RATE = 30
"""After so many epochs the learning rate is a tenth of what it was."""
EXPLODED = 40
"""A loss that no training comes back from."""
NOISE = "null"
Builder = Callable[..., Any]


def AddImageInput(
    model: Any,
    reader: Any,
    batch_size: int,
    img_size: int,
    dtype: str,
    is_test: bool,
    mean_per_channel: Any = None,
    std_per_channel: Any = None,
) -> None:
    """Read `data` (batch_size, 3, img_size, img_size), cropped, and mirrored by chance while it trains, and `label`."""
    data, _ = brew.image_input(
        model,
        reader,
        ["data", "label"],
        batch_size=batch_size,
        output_type=dtype,
        use_gpu_transform=core.IsGPUDeviceType(model._device_type),
        use_caffe_datum=True,
        mean_per_channel=mean_per_channel,
        std_per_channel=std_per_channel,
        mean=128.0,  # of all channels, where none of each is given
        std=128.0,
        scale=256,
        crop=img_size,
        mirror=1,
        is_test=is_test,
    )
    model.StopGradient(data, data)


def AddNullInput(model: Any, reader: Any, batch_size: int, img_size: int, dtype: str) -> None:
    """Fill `data` with noise and `label` with 1, once; nothing is read."""
    del reader
    net, shape = model.param_init_net, [batch_size, 3, img_size, img_size]
    if dtype == "float16":
        net.FloatToHalf(net.GaussianFill([], "data_fp16", shape=shape), "data")
    else:
        net.GaussianFill([], "data", shape=shape)
    net.ConstantFill([], "label", shape=[batch_size], value=1, dtype=core.DataType.INT32)


def _first(model: Any) -> str:
    return f"{model._device_prefix}_{model._devices[0]}"


def SaveModel(args: Any, train_model: Any, epoch: int, use_ideep: bool) -> None:
    """Write the first device's model to `FILE_STORE_PATH/SAVE_MODEL_NAME_EPOCH.mdl`, a minidb."""
    data, label, softmax = (f"{_first(train_model)}/{name}" for name in ("data", "label", "softmax"))
    kept = {str(one) for one in data_parallel_model.GetCheckpointParams(train_model)} - {data, label}
    meta = predictor_exporter.PredictorExportMeta(
        predict_net=train_model.net.Proto(),
        parameters=sorted(kept),  # noise is filled once, as parameters are
        inputs=[data],
        outputs=[softmax],
        shapes={softmax: (1, args.num_labels), data: (args.num_channels, args.image_size, args.image_size)},
    )
    predictor_exporter.save_to_db(
        db_type="minidb",
        db_destination=str(_saved(args, epoch)),
        predictor_export_meta=meta,
        use_ideep=use_ideep,
    )


def _saved(args: Any, epoch: int) -> Path:
    return Path(args.file_store_path) / f"{args.save_model_name}_{epoch}.mdl"


def LoadModel(path: str, model: Any, use_ideep: bool) -> None:
    """Read the parameters that `SaveModel` wrote to the first device of `model`, and the number of iterations."""
    log.info("Loading path: %s", path)
    meta = predictor_exporter.load_from_db(path, "minidb")
    kind: int = caffe2_pb2.IDEEP if use_ideep else model._device_type
    option = core.DeviceOption(kind, 0)
    net = core.Net(predictor_py_utils.GetNet(meta, predictor_constants.GLOBAL_INIT_NET_TYPE))
    net.Proto().device_option.CopyFrom(option)
    workspace.RunNetOnce(net)
    done = workspace.FetchBlob("optimizer_iteration")
    workspace.FeedBlob("optimizer_iteration", done, device_option=core.DeviceOption(caffe2_pb2.CPU, 0))


def RunEpoch(
    args: Any,
    epoch: int,
    train_model: Any,
    test_model: Any,
    total_batch_size: int,
    num_shards: int,
    expname: str,
    explog: Any,
) -> int:
    """Train for an epoch, test if there is a test model, log how it went; returns the number of the next epoch.

    Raises:
        AssertionError: the loss is beyond what training comes back from.
    """
    del expname
    log.info("Starting epoch %d/%d", epoch, args.num_epochs)
    batches = int(args.epoch_size / total_batch_size / num_shards)
    accuracy = loss = float("nan")
    for at in range(batches):
        accuracy, loss = _run_batch(
            args, train_model, f"{at + 1}/{batches} of epoch {epoch}", at == 0, total_batch_size
        )
    top1, top5 = _test(args, test_model, total_batch_size) if test_model is not None else (-1, -1)
    (rate,) = data_parallel_model.GetLearningRateBlobNames(train_model)[:1]
    explog.log(
        input_count=epoch * batches * total_batch_size,
        batch_count=batches - 1 + epoch * batches,
        additional_values={
            "accuracy": accuracy,
            "loss": loss,
            "learning_rate": workspace.FetchBlob(rate),
            "epoch": epoch,
            "top1_test_accuracy": top1,
            "top5_test_accuracy": top5,
        },
    )
    assert loss < EXPLODED, "Exploded gradients :("
    return epoch + 1


def _run_batch(args: Any, model: Any, which: str, is_first: bool, total_batch_size: int) -> tuple[Any, Any]:
    began = time.time()
    with timeout_guard.CompleteInTimeOrDie(args.first_iter_timeout if is_first else args.timeout):
        workspace.RunNet(model.net.Proto().name)
    log.info("Finished iteration %s (%.2f images/sec)", which, total_batch_size / (time.time() - began))
    accuracy, loss = (workspace.FetchBlob(f"{_first(model)}/{name}") for name in ("accuracy", "loss"))
    log.info("Training loss: %s, accuracy: %s", loss, accuracy)
    return accuracy, loss


def _test(args: Any, model: Any, total_batch_size: int) -> tuple[float, float]:
    """Return how often the right label is the first one, and among the first five."""
    found: list[list[float]] = []
    for _ in range(int(args.test_epoch_size / total_batch_size)):
        workspace.RunNet(model.net.Proto().name)
        for device in model._devices:
            names = (f"{model._device_prefix}_{device}/{name}" for name in ("accuracy", "accuracy_top5"))
            found.append([float(workspace.FetchBlob(name)) for name in names])
    if not found:
        raise ArgumentError(f"test_epoch_size is {args.test_epoch_size}, less than a batch of {total_batch_size}")
    top1, top5 = np.mean(found, axis=0)
    return float(top1), float(top5)


class _Nets:
    """What the nets of one training are made with."""

    def __init__(self, args: Any, devices: list[int], batch_size: int) -> None:
        self.args, self.devices, self.batch_size = args, devices, batch_size

    def model(self, name: str, *, is_test: bool) -> Any:
        """Return an empty model."""
        scoped = {"order": "NCHW", "use_cudnn": True, "cudnn_exhaustive_search": True}
        if is_test:
            return model_helper.ModelHelper(name=name, arg_scope=scoped, init_params=False)
        scoped["ws_nbytes_limit"] = self.args.cudnn_workspace_limit_mb * 1024 * 1024
        return model_helper.ModelHelper(name=name, arg_scope=scoped)

    def reader(self, model: Any, name: str, db: str) -> Any:
        """Return what reads a database, each rank its own part of the training images; nothing for noise."""
        if db == NOISE:
            return None
        share = {} if name == "test_reader" else {"num_shards": self.args.num_shards, "shard_id": self.args.shard_id}
        return model.CreateDB(name, db=db, db_type=self.args.db_type, **share)

    def input(self, reader: Any, *, is_test: bool) -> Builder:
        """Return what adds the input of a device."""
        given = self.args
        sizes = self.batch_size, given.image_size, given.dtype

        def build(model: Any) -> None:
            if reader is None:
                AddNullInput(model, None, *sizes)
            else:
                channels = given.image_mean_per_channel, given.image_std_per_channel
                AddImageInput(model, reader, *sizes, is_test, *channels)

        return build

    def forward(self, model: Any, loss_scale: float) -> list[Any]:
        """Add the net, its loss, and how often the right label is the first, or among the first five."""
        given = self.args
        half = given.dtype == "float16"
        kind = PseudoFP16Initializer if half else Initializer
        scoped = {"WeightInitializer": kind, "BiasInitializer": kind, "enable_tensor_core": given.enable_tensor_core}
        with brew.arg_scope([brew.conv, brew.fc], **scoped, float16_compute=given.float16_compute):
            scores = self._scores(model)
        if half:
            scores = model.net.HalfToFloat(scores, scores + "_fp32")
        softmax, loss = model.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
        loss = model.Scale(loss, scale=loss_scale)
        brew.accuracy(model, [softmax, "label"], "accuracy", top_k=1)
        brew.accuracy(model, [softmax, "label"], "accuracy_top5", top_k=5)
        return [loss]

    def _scores(self, model: Any) -> Any:
        given = self.args
        sizes = {"num_input_channels": given.num_channels, "num_labels": given.num_labels, "no_loss": True}
        if given.model == "shufflenet":
            return shufflenet.create_shufflenet(model, "data", **sizes)
        return resnet.create_resnext(
            model,
            "data",
            **sizes,
            num_layers=given.num_layers,
            num_groups=given.resnext_num_groups,
            num_width_per_group=given.resnext_width_per_group,
            no_bias=True,
        )

    def optimizer(self, model: Any) -> Any:
        """Add updates with momentum and weight decay."""
        given = self.args
        step = int(EPOCHS_A_RATE * given.epoch_size / (self.batch_size * len(self.devices)) / given.num_shards)
        rates: dict[str, Any] = {"momentum": MOMENTUM, "nesterov": 1, "policy": "step", "stepsize": step, "gamma": 0.1}
        if given.float16_compute:
            return optimizer.build_fp16_sgd(model, given.base_learning_rate, weight_decay=given.weight_decay, **rates)
        optimizer.add_weight_decay(model, given.weight_decay)
        return optimizer.build_multi_precision_sgd(model, given.base_learning_rate, **rates)

    @staticmethod
    def synced(model: Any) -> None:
        """Make the copies in float32 of parameters in float16 anew."""
        for info in model.GetOptimizationParamInfo(model.GetParams()):
            if info.blob_copy is not None:
                model.param_init_net.HalfToFloat(info.blob, info.blob_copy[core.DataType.FLOAT])

    def parallel(self, model: Any, reader: Any, *, is_test: bool, rendezvous: Any = None) -> None:
        """Add a net for each device."""
        given = self.args
        more: dict[str, Any] = {"param_update_builder_fun": None}
        if not is_test:
            more = {
                "optimizer_builder_fun": self.optimizer,
                "rendezvous": rendezvous,
                "optimize_gradient_memory": False,
                "ideep": given.use_ideep,
                "shared_model": given.use_cpu,
                "combine_spatial_bn": given.use_cpu,
            }
        data_parallel_model.Parallelize(
            model,
            input_builder_fun=self.input(reader, is_test=is_test),
            forward_pass_builder_fun=self.forward,
            post_sync_builder_fun=self.synced,
            devices=self.devices,
            use_nccl=given.use_nccl,
            cpu_device=given.use_cpu,
            **more,
        )


def _rendezvous(args: Any) -> dict[str, Any] | None:
    """Return what ranks need to meet: a folder that all see, or a Redis server."""
    if args.num_shards <= 1:
        return None
    store = "store_handler"
    if args.redis_host is not None:
        kind = "RedisStoreHandlerCreate"
        where: dict[str, Any] = {"host": str(args.redis_host), "port": args.redis_port}
    else:
        kind, where = "FileStoreHandlerCreate", {"path": args.file_store_path}
    made = core.CreateOperator(kind, [], [store], prefix=args.run_id, **where)
    workspace.RunOperatorOnce(made)
    return {
        "kv_handler": store,
        "shard_id": args.shard_id,
        "num_shards": args.num_shards,
        "engine": "GLOO",
        "transport": args.distributed_transport,
        "interface": args.distributed_interfaces,
        "exit_nets": None,
    }


def Train(args: Any) -> None:
    """Build the nets, and train for `num_epochs` from the epoch that a model is loaded from.

    Raises:
        AssertionError: the batch cannot be divided among the devices.
    """
    name = args.model if args.model == "shufflenet" else f"{args.model}{args.num_layers}"
    devices = list(range(args.num_gpus)) if args.gpus is None else [int(one) for one in args.gpus.split(",")]
    log.info("Running on GPUs: %s", devices)
    total = args.batch_size
    batch_size = total // len(devices)
    assert batch_size * len(devices) == total, "Number of GPUs must divide batch size"
    a_batch = total * args.num_shards
    args.epoch_size = int(args.epoch_size / a_batch) * a_batch
    log.info("Using epoch size: %d", args.epoch_size)

    nets = _Nets(args, devices, batch_size)
    train_model = nets.model(name, is_test=False)
    reader = nets.reader(train_model, "reader", args.train_data)
    nets.parallel(train_model, reader, is_test=False, rendezvous=_rendezvous(args))
    data_parallel_model.OptimizeGradientMemory(train_model, {}, set(), False)
    workspace.RunNetOnce(train_model.param_init_net)
    workspace.CreateNet(train_model.net)

    test_model = None
    if args.test_data is not None:
        log.info("----- Create test net ----")
        test_model = nets.model(f"{name}_test", is_test=True)
        nets.parallel(test_model, nets.reader(test_model, "test_reader", args.test_data), is_test=True)
        workspace.RunNetOnce(test_model.param_init_net)
        workspace.CreateNet(test_model.net)

    epoch = _loaded(args, train_model)
    expname = f"{name}_gpu{len(devices)}_b{total}_L{args.num_labels}_lr{args.base_learning_rate:.2f}_v2"
    explog = experiment_util.ModelTrainerLog(expname, args)
    while epoch < args.num_epochs:
        epoch = RunEpoch(args, epoch, train_model, test_model, total, args.num_shards, expname, explog)
        SaveModel(args, train_model, epoch, args.use_ideep)
        _saved(args, epoch - 1).unlink(missing_ok=True)


def _loaded(args: Any, model: Any) -> int:
    """Load a model if one is asked for; return the epoch that its name ends with, or 0."""
    if args.load_model_path is None:
        return 0
    LoadModel(args.load_model_path, model, args.use_ideep)
    data_parallel_model.FinalizeAfterCheckpoint(model)
    number = Path(args.load_model_path).name.rpartition("_")[2].removesuffix(".mdl")
    if not number.isdecimal():
        log.warning("The name of '%s' does not end with an epoch; it is taken for the first one", args.load_model_path)
        return 0
    log.info("Reset epoch to %s", number)
    return int(number)


def main() -> None:
    """Train as the command line says, and tell how it goes."""
    logging.basicConfig()
    Train(arguments())


if __name__ == "__main__":
    workspace.GlobalInit(["caffe2", "--caffe2_log_level=2"])
    main()
