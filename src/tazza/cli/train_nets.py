"""The nets of a training: LeNet from the zoo, or a train net from a file, with a reader in front of each."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

from tazza.cli.train_settings import TrainSettings
from tazza.db.image_source import ImageDB, TrainAndTest, first_image_dims
from tazza.errors import ArgumentError, NetError, ShapeError
from tazza.interop import needed_operators
from tazza.models import OPTIMIZERS, BlobReference, Model, Net
from tazza.models.training import seed_operators
from tazza.models.zoo import lenet, lenet_training, pixels
from tazza.nets import NETS
from tazza.operator import ENGINES, prefer_engines
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tazza.runtime.threads import thread_count

DATA, LABEL, LOSS, ACCURACY, SOFTMAX = "data", "label", "loss", "accuracy", "softmax"
TEST_BATCH = 100
IMAGE_DIMS = (1, 28, 28)
"""Channels, height and width of the images that the zoo's LeNet is made for."""


@dataclass(frozen=True, slots=True)
class TrainingNets:
    """What is run: to train, to test, and what is exported; `parameters` are read by the last two."""

    init: NetDef
    train: NetDef
    test_init: NetDef
    test: NetDef
    predict: NetDef
    parameters: list[str]
    accuracy: str | None


def build(settings: TrainSettings, data: TrainAndTest, iterations: int) -> TrainingNets:
    """Return the nets that the settings ask for.

    Raises:
        TazzaError: a file cannot be read, or holds a net that does not fit; an unknown solver, policy, engine or type.
    """
    if settings.net_type is not None:
        NETS[settings.net_type]
    if settings.engine is not None:
        _prefer(settings.engine)
    nets = _from_files(settings, data) if settings.net is not None else _lenet(settings, data, iterations)
    seed_operators(nets.init, settings.seed)
    seed_operators(nets.train, settings.seed + 1)
    for net in (nets.train, nets.test):
        _set_type(net, settings)
    return nets


def _set_type(net: NetDef, settings: TrainSettings) -> None:
    """Say how a net runs, and which of its blobs are looked at: some types keep no others."""
    if settings.net_type is not None:
        net.type = settings.net_type
        net.num_workers = thread_count() if settings.workers is None else settings.workers
    rates = [op.output[0] for op in net.op if op.type == "LearningRate"]
    made = (name for name in (DATA, LABEL, SOFTMAX, LOSS, ACCURACY, *rates) if _makes(net, name))
    net.external_output.extend(name for name in made if name not in net.external_output)


def _prefer(names: str) -> None:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        reason = ENGINES[name].unavailable()
        if reason is not None:
            raise ArgumentError(f"engine {name!r} cannot be used: {reason}", hint="tazza doctor shows all engines")
    prefer_engines(wanted)


def _read(model: Model, name: str, db: ImageDB, batch_size: int) -> tuple[BlobReference, BlobReference]:
    """Add a reader of a database; return what it gives: pixels from 0 to 1, and labels."""
    reader = model.init_net.add("CreateDB", (), f"{name}_reader", db_type=db.db_type, db=str(db.path.resolve()))
    images, label = model.net.add("TensorProtosDBInput", reader, ["images", LABEL], batch_size=batch_size)
    return pixels(model, images, DATA), label


def _lenet(settings: TrainSettings, data: TrainAndTest, iterations: int) -> TrainingNets:
    for db in (data.train, data.test):
        dims = first_image_dims(db)
        if dims != IMAGE_DIMS:
            raise ShapeError(
                f"{db.db_type} '{db.path}' holds an image of dims {dims}, and LeNet takes {IMAGE_DIMS}",
                hint="scale the images, put the channel first, and write them anew",
            )
    model = Model("lenet_train")
    lenet_training(model, *_read(model, "train", data.train, settings.batch_size))
    _add_solver(model, settings, iterations)
    test = Model("lenet_test", parameters_of=model)
    images, _ = _read(test, "test", data.test, min(TEST_BATCH, data.test.count))
    lenet(test, images)
    predict = Model("lenet", parameters_of=model)
    predict.net.add_external_output(lenet(predict, DATA))
    parameters = [str(name) for name in predict.parameter_blobs()]
    return TrainingNets(
        model.init_net.proto,
        model.net.proto,
        test.init_net.proto,
        test.net.proto,
        predict.net.export(),
        parameters,
        ACCURACY,
    )


def _add_solver(model: Model, settings: TrainSettings, iterations: int) -> None:
    solver = OPTIMIZERS[settings.SOLVER if settings.solver is None else settings.solver]
    wanted = {
        "momentum": (settings.momentum, settings.MOMENTUM),
        "weight_decay": (settings.weight_decay, settings.WEIGHT_DECAY),
    }
    taken = inspect.signature(solver).parameters
    refused = [name for name, (given, _) in wanted.items() if given is not None and name not in taken]
    if refused:
        raise ArgumentError(f"solver {settings.solver!r} has no {refused[0]!r}", hint="leave the option out")
    options = {name: default if given is None else given for name, (given, default) in wanted.items() if name in taken}
    solver(
        model,
        settings.LEARNING_RATE if settings.learning_rate is None else settings.learning_rate,
        policy=settings.POLICY if settings.policy is None else settings.policy,
        **options,
        **settings.policy_arguments(iterations),
    )


# -- nets from files -------------------------------------------------------------------------------------------------


def _from_files(settings: TrainSettings, data: TrainAndTest) -> TrainingNets:
    assert settings.net is not None, "who calls has looked"
    assert settings.init_net is not None, "the settings were checked"
    init, train = read_message(settings.init_net, NetDef), read_message(settings.net, NetDef)
    made = {name for op in init.op for name in op.output}
    _check(settings.net, train, made)
    model = Model(f"{train.name}_input", strict=False)
    _read(model, "train", data.train, settings.batch_size)
    model.init_net.append(init)
    forward, read = needed_operators(train, [SOFTMAX])
    test = Model(f"{train.name}_test", strict=False)
    _read(test, "test", data.test, min(TEST_BATCH, data.test.count))
    test.net.append_operators(forward)
    parameters = [name for name in read if name in made]
    predict = Net(f"{train.name}_predict", strict=False)
    predict.append_operators(forward)
    predict.add_external_output(SOFTMAX)
    accuracy = ACCURACY if _makes(train, ACCURACY) else None
    return TrainingNets(
        model.init_net.proto,
        _in_front(model.net.proto, train),
        test.init_net.proto,
        test.net.proto,
        predict.export(),
        parameters,
        accuracy,
    )


def _check(path: str, train: NetDef, made: set[str]) -> None:
    for name in (LOSS, SOFTMAX):
        if not _makes(train, name):
            raise NetError(f"'{path}': net {train.name!r} makes no blob {name!r}", hint="rename the blob in the net")
    known = made | {DATA, LABEL}
    for position, op in enumerate(train.op):
        missing = [name for name in op.input if name not in known]
        if missing:
            raise NetError(
                f"'{path}': operator {position} ({op.type}) reads {missing[0]!r}, which neither net makes",
                hint=f"--init-net makes parameters; the images come as {DATA!r} and {LABEL!r}",
            )
        known.update(op.output)
    if not any(name in made for op in train.op for name in op.output):
        raise NetError(
            f"'{path}': net {train.name!r} updates no parameter that the init net makes",
            hint="a train net has gradients and updates; Model.add_gradients and sgd append them",
        )


def _makes(net: NetDef, name: str) -> bool:
    return any(name in op.output for op in net.op)


def _in_front(first: NetDef, then: NetDef) -> NetDef:
    """Return `then` with the operators of `first` before its own."""
    made: set[str] = {name for op in first.op for name in op.output}
    joined = NetDef()
    joined.CopyFrom(then)
    del joined.op[:], joined.external_input[:]
    joined.op.extend([*first.op, *then.op])
    joined.external_input.extend(_once([*first.external_input, *(n for n in then.external_input if n not in made)]))
    return joined


def _once(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))
