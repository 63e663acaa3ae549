"""What `tools/record_parallel_nets.py` builds and trains: models on several devices and ranks, sums of GPUs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Caffe2's Python does not know how to read it
    Case = Callable[[Any], Any]

# ruff: noqa: D103 -- what a case builds is its name and its few lines


# -- parts of models ---------------------------------------------------------------------------------------------------


def nothing(model: Any) -> None:
    """Read no batch: it is fed."""


def dense(model: Any, loss_scale: float) -> list[Any]:
    """One layer and a distance."""
    layer = model.FC("data", "fc", 3, 1, ("ConstantFill", {}), ("ConstantFill", {}))
    distance = model.SquaredL2Distance([model.FlattenToVec(layer, "flat"), "label"], "distance")
    return [model.Scale(model.AveragedLoss(distance, "loss"), scale=loss_scale)]


def deep(model: Any, loss_scale: float) -> list[Any]:
    """Three layers, and a parameter that is not learned from gradients."""
    blob = "data"
    for number in range(3):
        blob = model.FC(blob, f"fc{number}", 4, 4)
    made = model.param_init_net.ConstantFill([], "statistic", shape=[1])
    model.AddParameter(made, "COMPUTED_PARAM")
    return [model.Scale(model.AveragedLoss(blob, "loss"), scale=loss_scale)]


def rows(model: Any, loss_scale: float) -> list[Any]:
    """A table of which rows are looked up."""
    table = model.param_init_net.UniformFill([], "table", shape=[10, 4])
    model.params.append(table)
    layer = model.FC(model.net.Gather([table, "ids"], "found"), "fc", 4, 1)
    return [model.Scale(model.AveragedLoss(model.FlattenToVec(layer, "flat"), "loss"), scale=loss_scale)]


def normalized(model: Any, loss_scale: float) -> list[Any]:
    """Two normalizations, none of which is the first layer."""
    model.Conv("data", "conv", 3, 2, 1)
    model.SpatialBN("conv", "bn", 2, is_test=False)
    model.Tanh("bn", "tanh")
    model.SpatialBN("tanh", "bn2", 2, is_test=False)
    bent = model.net.Sigmoid("bn2", "bent")
    return [model.Scale(model.AveragedLoss(bent, "loss"), scale=loss_scale)]


def grouped(model: Any, loss_scale: float, m: Any) -> list[Any]:
    """A convolution of groups, called after another blob."""
    first = m.brew.conv(model, "data", "conv", 4, 4, 1)
    groups = m.brew.group_conv_deprecated(model, first, first + "_groups", 4, 6, 1, group=2)
    return [model.Scale(model.AveragedLoss(groups, "loss"), scale=loss_scale)]


def update(model: Any) -> None:
    """Learn by hand."""
    rate = model.net.LearningRate([model.Iter("ITER")], "LR", base_lr=-0.1, policy="fixed")
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for param in model.GetParams():
        model.WeightedSum([param, one, model.param_to_grad[param], rate], param)


def with_momentum(model: Any) -> None:
    """Learn by hand, with momenta."""
    rate = model.net.LearningRate([model.Iter("ITER")], "LR", base_lr=0.1, policy="fixed")
    for param in model.GetParams():
        grad = model.param_to_grad[param]
        momentum = model.param_init_net.ConstantFill([param], param + "_mom", value=0.0)
        model.net.MomentumSGDUpdate([grad, momentum, rate, param], [grad, momentum, param], momentum=0.9)


def sgd(m: Any) -> Callable[[Any], Any]:
    return lambda model: m.optimizer.build_sgd(model, 0.1, policy="fixed", momentum=0.9)


def adagrad(m: Any) -> Callable[[Any], Any]:
    return lambda model: m.optimizer.build_adagrad(model, 0.1)


def ranks(**settings: Any) -> dict[str, Any]:
    """Return a rendezvous of two ranks."""
    found = {"kv_handler": "store", "shard_id": 0, "num_shards": 2, "engine": "GLOO", "exit_nets": None}
    return {**found, **settings}


# -- models ------------------------------------------------------------------------------------------------------------


def parallel(m: Any, layers: Any, how: Any = None, inputs: Any = nothing, **settings: Any) -> Any:
    """Return a model, which learns by a function of a device, or by an optimizer."""
    model = m.cnn.CNNModelHelper(order=settings.pop("order", "NHWC"), name="test")
    settings.setdefault("cpu_device", True)
    settings.setdefault("devices", [0, 1])
    if how in (sgd, adagrad):
        settings["optimizer_builder_fun"] = how(m)
    elif how is not None:
        settings["param_update_builder_fun"] = how
    m.Parallelize(model, inputs, layers, **settings)
    return model


def in_blocks(m: Any, how: Any = update, layers: Any = dense, **settings: Any) -> Any:
    """Return a model that learns in blocks."""
    model = m.cnn.CNNModelHelper(order="NHWC", name="test")
    settings.setdefault("cpu_device", True)
    settings.setdefault("devices", [0, 1])
    m.Parallelize_BMUF(model, nothing, layers, how, **settings)
    return model


MODELS: dict[str, Case] = {
    "updates by hand": lambda m: parallel(m, dense, update),
    "an optimizer": lambda m: parallel(m, dense, sgd),
    "adagrad, three layers": lambda m: parallel(m, deep, adagrad, devices=[0, 1, 2]),
    "one device": lambda m: parallel(m, dense, update, devices=[1]),
    "three devices, simple": lambda m: parallel(
        m, dense, update, devices=[2, 0, 1], net_type="simple", num_threads_per_device=3
    ),
    "four devices": lambda m: parallel(m, dense, sgd, devices=range(4)),
    "forward": lambda m: [parallel(m, dense).net, parallel(m, dense).param_init_net],
    "shared": lambda m: parallel(m, dense, sgd, shared_model=True),
    "shared, by hand": lambda m: parallel(m, dense, update, shared_model=True, devices=[0, 1, 2]),
    "shared, statistics": lambda m: parallel(m, deep, update, shared_model=True),
    "groups of channels": lambda m: parallel(m, partial(grouped, m=m), update),
    "normalized": lambda m: parallel(m, normalized, sgd),
    "normalized over all": lambda m: parallel(m, normalized, sgd, combine_spatial_bn=True, order="NCHW"),
    "normalized over three": lambda m: parallel(
        m,
        normalized,
        update,
        combine_spatial_bn=True,
        broadcast_computed_params=False,
        devices=[0, 1, 2],
        order="NCHW",
    ),
    "rows, one device": lambda m: parallel(m, rows, adagrad, devices=[0]),
    "GPUs": lambda m: parallel(m, dense, sgd, cpu_device=False),
    "GPUs, rows": lambda m: parallel(m, rows, adagrad, cpu_device=False, devices=[0, 1, 2]),
    "GPUs, four": lambda m: parallel(m, deep, update, cpu_device=False, devices=[0, 1, 2, 3]),
    "GPUs, NCCL": lambda m: parallel(m, deep, update, cpu_device=False, use_nccl=True),
    "GPUs, normalized over all": lambda m: parallel(
        m, normalized, update, cpu_device=False, combine_spatial_bn=True, order="NCHW"
    ),
    "IDEEP": lambda m: parallel(m, deep, update, ideep=True),
    "ranks": lambda m: parallel(m, dense, update, rendezvous=ranks()),
    "ranks, two at once": lambda m: parallel(
        m, deep, update, rendezvous=ranks(shard_id=1, num_shards=3), max_concurrent_distributed_ops=2
    ),
    "ranks, one at once": lambda m: parallel(
        m,
        deep,
        sgd,
        rendezvous=ranks(transport="tcp", interface="lo"),
        max_concurrent_distributed_ops=1,
        num_threads_per_device=1,
        net_type="simple",
        shared_model=True,
        barrier_net_timeout_sec=7,
    ),
    "ranks, one of one": lambda m: parallel(m, deep, update, rendezvous=ranks(num_shards=1, mpi_rendezvous=True)),
    "ranks, other devices": lambda m: parallel(m, deep, sgd, rendezvous=ranks(), devices=[2, 3]),
    "ranks of GPUs": lambda m: parallel(m, deep, update, rendezvous=ranks(), cpu_device=False),
    "ranks of GPUs, MPI": lambda m: parallel(m, deep, sgd, rendezvous=ranks(engine="MPI"), cpu_device=False),
}


def blocks_of_all(m: Any) -> Any:
    return in_blocks(
        m,
        rendezvous=ranks(),
        nesterov=True,
        warmup_iterations=3,
        reset_momentum_sgd=True,
        block_learning_rate=0.5,
        add_blobs_to_sync=["LR"],
    )


BLOCKS: dict[str, Case] = {
    "blocks": in_blocks,
    "blocks, ranks": blocks_of_all,
    "blocks, momenta": lambda m: in_blocks(
        m, with_momentum, reset_momentum_sgd=True, warmup_iterations=2, block_momentum=0.3
    ),
    "blocks, one device": lambda m: in_blocks(m, with_momentum, devices=[3]),
    "blocks, four devices": lambda m: in_blocks(
        m, devices=[3, 4, 5, 6], add_blobs_to_sync=["ITER"], net_type="simple", layers=deep
    ),
    "blocks, GPUs": lambda m: in_blocks(m, with_momentum, cpu_device=False, nesterov=True),
}


# -- what is done with a model -----------------------------------------------------------------------------------------


def blob_sync(m: Any) -> Any:
    local, distributed = parallel(m, dense, update, devices=[0, 1, 2]), parallel(m, dense, sgd, rendezvous=ranks())
    other = m.core.Net("other")
    for model in (local, distributed):
        m.AddBlobSync(model, ["fc"])
        m.AddBlobSync(model, ["loss"], net=other)
        m.AddBlobSync(model, [])
        m.AddDistributedBlobSync(model, ["of all", "of everybody"])
    return [local, distributed, other]


@contextmanager
def unrun(m: Any) -> Any:
    """Let the workspace note the calls that would run a net."""
    told: list[str] = []
    kept = {name: getattr(m.workspace, name) for name in ("RunNet", "RunNetOnce", "CreateNet")}

    def note(name: str, *args: Any, **named: Any) -> None:
        told.append(f"{name} {' '.join(map(str, args))} {named}")

    for name in kept:
        setattr(m.workspace, name, partial(note, name))
    try:
        yield told
    finally:
        for name, function in kept.items():
            setattr(m.workspace, name, function)


def checkpoints(m: Any) -> Any:
    found: list[Any] = []
    for settings in ({}, {"cpu_mode": True}, {"blobs": ["cpu_0/fc_w", "cpu_0/more"], "cpu_mode": True}):
        model = parallel(m, dense, sgd, devices=[0, 1, 2])
        with unrun(m):
            m.FinalizeAfterCheckpoint(model, **settings)
        found.append(model)
    return found


def runs(m: Any) -> Any:
    found: list[Any] = []
    for model in (parallel(m, dense, sgd, rendezvous=ranks()), blocks_of_all(m)):
        with unrun(m) as told:
            m.RunInitNet(model)
            m.RunNet(model, 7)
            m.CreateNet(model, overwrite=True)
        found += told
    return found


def barriers(m: Any) -> Any:
    model = parallel(m, dense, sgd, rendezvous=ranks())
    with unrun(m) as told, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m.Synchronize(model)
        m.Synchronize(model)
        m.Synchronize(parallel(m, dense, sgd))
    return [model, *told]


def comparisons(m: Any) -> Any:
    model = parallel(m, dense, sgd, rendezvous=ranks(shard_id=1, num_shards=3))
    ran: list[Any] = []
    kept = m.workspace.RunNetOnce
    m.workspace.RunNetOnce = ran.append
    m.workspace.FeedBlob("cpu_0/fc_w_gather", m.np.ones(3, m.np.float32))
    ran.append(str(m._RunComparison(model, "cpu_0/fc_w")))
    m.workspace.RunNetOnce = kept
    alone = m._RunComparison(parallel(m, dense, sgd), "cpu_0/fc_w")
    return [*ran, alone, m.workspace.FetchBlob("compare_arr").tolist()]


def conversions(m: Any) -> Any:
    other = m.model_helper.ModelHelper(name="other")
    layer = m.brew.fc(other, "data", "fc", 4, 3)
    m.brew.relu(other, layer, layer)
    proto = other.net.Proto()
    proto.op[0].device_option.CopyFrom(m.core.DeviceOption(0, 3))
    proto.op[1].control_input.append("data")
    proto.type, proto.num_workers = "dag", 5
    other.net.AddExternalOutput(layer)
    found = [m.ConvertNetForDevice(other.net, m.core.DeviceOption(1, 2))]
    with m.core.NameScope("cpu_1"), m.core.DeviceScope(m.core.DeviceOption(0, 1)):
        found += [m.ConvertNetForDevice(other.net), m.ConvertNetForDevice(other.param_init_net)]
    return [*found, other.net]


def predictors(m: Any) -> Any:
    model = parallel(m, dense, update)
    net, params = m.ExtractPredictorNet(model, ["data"], ["flat"], m.core.DeviceOption(0, 1))
    return [net, " ".join(sorted(params))]


def controls(m: Any) -> Any:
    net = m.core.Net("worlds")
    control = m.CollectivesConcurrencyControl("some", 2, net, ranks())
    got = [control.get_control_and_context(blob) for blob in (["a"], ["b", "c"], "d", "e", ["f"])]
    return [net, *(f"{world} {wait}" for world, wait in got)]


def names(m: Any) -> Any:
    slices = m.core.GradientSlice(m.core.BlobReference("cpu_0/i"), m.core.BlobReference("cpu_0/v"))
    given = ("cpu_0/a", "gpu_12/x/y_w", "cpu_0/", m.core.BlobReference("cpu_3/a/b"), slices)
    return [m.stripBlobName(one) for one in given]


USES = (blob_sync, checkpoints, runs, barriers, comparisons, conversions, predictors, controls, names)


# -- sums of GPUs ------------------------------------------------------------------------------------------------------


def pattern(m: Any, kind: str) -> Any:
    """Return which of eight GPUs read whose memory."""
    group = {"none": 0, "pairs": 2, "fours": 4, "all": 8}[kind]
    return m.np.kron(m.np.eye(8 // group), m.np.ones((group, group))) > 0 if group else m.np.zeros((8, 8), bool)


@contextmanager
def peers(m: Any, kind: str) -> Any:
    kept = {name: getattr(m.workspace, name, None) for name in ("GetGpuPeerAccessPattern", "GetCudaPeerAccessPattern")}
    for name in kept:
        setattr(m.workspace, name, lambda: pattern(m, kind))
    yield
    for name, function in kept.items():
        setattr(m.workspace, name, function)


def muji_sums(m: Any, kind: str) -> Any:
    found: list[Any] = []
    with peers(m, kind):
        for count in (1, 2, 3, 4, 5, 8):
            net = m.core.Net("sums")
            m.muji.Allreduce(net, [f"b{number}" for number in range(count)])
            m.muji.Allreduce(net, [f"c{number}" for number in range(count)], "_x", [7 - n for n in range(count)])
            found.append(net)
    return found


def model_sums(m: Any, kind: str) -> Any:
    found: list[Any] = []
    with peers(m, kind):
        for count in (2, 3, 4, 8):
            model = parallel(m, dense, update, cpu_device=False, devices=range(count))
            m._AllReduce(model._devices, model, model.net, "fc_w")
            found.append(model.net)
    return found


# -- readers -----------------------------------------------------------------------------------------------------------


def readers(m: Any) -> Any:
    def read(model: Any) -> None:
        m.data_workers.init_data_input_workers(model, ["data", "label"], None, 4, 2, "source", 3, timeout=20)

    model = parallel(m, dense, sgd, inputs=read)
    coordinator = m.data_workers.global_coordinator
    other = m.core.Net("other")
    coordinator.reset_data_input("cpu_0/", "source", other, 3)
    coordinator._coordinators.clear()
    return [model, other]


def cases() -> dict[str, Case]:
    """Return all that is built, by name."""
    found: dict[str, Case] = {**MODELS, **BLOCKS}
    found.update({one.__name__: one for one in (*USES, readers)})
    for kind in ("none", "pairs", "fours", "all"):
        found[f"muji, peers: {kind}"] = partial(muji_sums, kind=kind)
        found[f"GPUs, peers: {kind}"] = partial(model_sums, kind=kind)
    return found


# -- numbers -----------------------------------------------------------------------------------------------------------


def feed(m: Any, model: Any, step: int, shapes: dict[str, list[int]]) -> None:
    """Feed each device its part of a batch of twelve."""
    random = m.np.random.RandomState(step)
    for name, shape in shapes.items():
        whole = random.rand(12, *shape).astype(m.np.float32)
        for part, device in zip(m.np.split(whole, len(model._devices)), model._devices):  # noqa: B905 -- Python 3.8
            m.workspace.FeedBlob(f"{model._device_prefix}_{device}/{name}", part)


def learned(m: Any, make: Case, shapes: dict[str, list[int]], run: Any = None, steps: int = 5) -> Any:
    """Return the parameters of all devices behind several steps, the weights of which begin as numbers in a row."""
    model = make(m)
    feed(m, model, 0, shapes)
    m.RunInitNet(model)
    for param in model.params:
        old = m.workspace.FetchBlob(str(param))
        fill = m.np.linspace(-0.5, 0.5, old.size, dtype=m.np.float32).reshape(old.shape)
        m.workspace.FeedBlob(str(param), fill)
    for step in range(steps):
        feed(m, model, step, shapes)
        (m.RunNet if run is None else run)(model, 2)
    return {str(param): m.workspace.FetchBlob(str(param)) for param in model.GetAllParams("")}


LINE, FOURS = {"data": [3], "label": []}, {"data": [4]}
PIXELS, PLANES = {"data": [2, 2, 3]}, {"data": [3, 2, 2]}


def trainings() -> dict[str, Case]:
    """Return all that is trained, by name."""
    makes: dict[str, tuple[Case, dict[str, list[int]]]] = {}
    for kind in ("simple", "dag", "async_scheduling"):
        makes[f"by hand, {kind}"] = lambda m, kind=kind: parallel(m, dense, update, net_type=kind), LINE
        makes[f"optimizer, {kind}"] = lambda m, kind=kind: parallel(m, deep, sgd, net_type=kind), FOURS
    for count in (1, 3, 4):
        makes[f"devices: {count}"] = lambda m, count=count: parallel(m, dense, sgd, devices=range(count)), LINE
        makes[f"blocks of {count}"] = lambda m, count=count: in_blocks(m, devices=range(count)), LINE
    makes["shared"] = lambda m: parallel(m, deep, adagrad, shared_model=True), FOURS
    makes["normalized"] = lambda m: parallel(m, normalized, sgd), PIXELS
    makes["normalized over all"] = lambda m: parallel(m, normalized, sgd, combine_spatial_bn=True, order="NCHW"), PLANES
    makes["blocks, Nesterov"] = (
        lambda m: in_blocks(m, with_momentum, nesterov=True, reset_momentum_sgd=True, block_learning_rate=0.5),
        LINE,
    )
    return {name: partial(learned, make=make, shapes=shapes) for name, (make, shapes) in makes.items()}
