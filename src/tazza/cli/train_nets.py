"""The nets of a training: LeNet from the zoo, or a train net from a file, with a reader in front of each."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.cli.train_settings import TrainSettings
from tazza.data_class import dataclass
from tazza.db.image_source import ImageDB, TrainAndTest, first_image_dims
from tazza.errors import ArgumentError, NetError, ShapeError
from tazza.graph.derivation import net_that_tests
from tazza.models import BlobReference, Model
from tazza.models.rate import rates_of
from tazza.models.training import seed_operators
from tazza.models.zoo import lenet_training, pixels
from tazza.nets import NETS
from tazza.operator import ENGINES, check_trust, prefer_engines, read_first, touched_by, touches
from tazza.operator.trust import RUN
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tazza.runtime.files import resolved
from tazza.runtime.threads import thread_count

DATA, LABEL, LOSS, ACCURACY, SOFTMAX = "data", "label", "loss", "accuracy", "softmax"
TEST_BATCH = 100
IMAGE_DIMS = (1, 28, 28)
"""Channels, height and width of the images that the zoo's LeNet is made for."""


@dataclass(frozen=True, slots=True)
class TrainingNets:
    """What is run to train and to test; `core` is what trains without its reader, out of which nets are exported.

    `parameters` are read by the net that tests, and exported.
    """

    init: NetDef
    train: NetDef
    test_init: NetDef
    test: NetDef
    core: NetDef
    parameters: list[str]
    accuracy: str | None


def build(settings: TrainSettings, data: TrainAndTest, iterations: int, *, trust: bool = False) -> TrainingNets:
    """Return the nets that the settings ask for.

    Raises:
        TrustError: nets from files would do more than train, and `trust` is not set.
        TazzaError: a file cannot be read, or holds a net that does not fit; an unknown solver, policy, engine or type.
    """
    if settings.net_type is not None:
        NETS[settings.net_type]
    if settings.engine is not None:
        _prefer(settings.engine)
    if settings.net is None:
        init, train = _lenet(settings, data, iterations)
    else:
        assert settings.init_net is not None, "the settings were checked"
        init, train = _from_files(settings.init_net, settings.net, trust=trust)
    nets = _with_readers(init, train, settings, data)
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
    made = (name for name in (DATA, LABEL, SOFTMAX, LOSS, ACCURACY, *rates_of(net)) if _makes(net, name))
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
    reader = model.init_net.add("CreateDB", (), f"{name}_reader", db_type=db.db_type, db=str(resolved(db.path)))
    images, label = model.net.add("TensorProtosDBInput", reader, ["images", LABEL], batch_size=batch_size)
    return pixels(model, images, DATA), label


def _lenet(settings: TrainSettings, data: TrainAndTest, iterations: int) -> tuple[NetDef, NetDef]:
    for db in (data.train, data.test):
        dims = first_image_dims(db)
        if dims != IMAGE_DIMS:
            raise ShapeError(
                f"{db} holds an image of dims {dims}, and LeNet takes {IMAGE_DIMS}",
                hint="scale the images, put the channel first, and write them anew",
            )
    model = Model("lenet")
    lenet_training(model, DATA, LABEL)
    settings.chosen_solver().add_to(model, iterations)
    return model.init_net.proto, model.net.proto


# -- nets from files -------------------------------------------------------------------------------------------------


def _from_files(init_path: str, path: str, *, trust: bool) -> tuple[NetDef, NetDef]:
    init, train = read_message(init_path, NetDef), read_message(path, NetDef)
    for source, net in ((init_path, init), (path, train)):
        check_trust(net, RUN, source=f"'{source}'", trust=trust)
    _check(path, train, _made(init))
    return init, train


def _check(path: str, train: NetDef, made: set[str]) -> None:
    for name in (LOSS, SOFTMAX):
        if not _makes(train, name):
            raise NetError(f"'{path}': net {train.name!r} makes no blob {name!r}", hint="rename the blob in the net")
    known = made | {DATA, LABEL}
    missing = [name for name in read_first(train.op, perhaps_made=True) if name not in known]
    if missing:
        position = next(i for i, op in enumerate(train.op) if missing[0] in touches(op).reads)
        raise NetError(
            f"'{path}': operator {position} ({train.op[position].type}) reads {missing[0]!r}, which neither net makes",
            hint=f"--init-net makes parameters; the images come as {DATA!r} and {LABEL!r}",
        )
    if made.isdisjoint(_made(train)):
        raise NetError(
            f"'{path}': net {train.name!r} updates no parameter that the init net makes",
            hint="a train net has gradients and updates; Model.add_gradients and sgd append them",
        )


def _made(net: NetDef) -> set[str]:
    return set(touched_by(net).writes)


def _makes(net: NetDef, name: str) -> bool:
    return name in _made(net)


# -- nets that follow from the one that trains -----------------------------------------------------------------------


def _with_readers(init: NetDef, train: NetDef, settings: TrainSettings, data: TrainAndTest) -> TrainingNets:
    """Return all nets of a training: `train` reads `data` and `label`, and what `init` makes."""
    parameters = _made(init)
    learned = _input(f"{train.name}_input", "train", data.train, settings.batch_size)
    tested = _input(f"{train.name}_test", "test", data.test, min(TEST_BATCH, data.test.count))
    looked_at = [name for name in (SOFTMAX, LOSS, ACCURACY) if _makes(train, name)]
    test = net_that_tests(train, looked_at, parameters=parameters)
    test.name = tested.net.name
    learned.init_net.append(init)
    core = NetDef()
    core.CopyFrom(train)
    core.ClearField("type")  # how it trains is no matter of those who predict
    core.ClearField("num_workers")
    return TrainingNets(
        learned.init_net.proto,
        _in_front(learned.net.proto, train),
        tested.init_net.proto,
        _in_front(tested.net.proto, test),
        core,
        sorted(parameters.intersection(test.external_input)),
        ACCURACY if ACCURACY in looked_at else None,
    )


def _input(name: str, kind: str, db: ImageDB, batch_size: int) -> Model:
    model = Model(name, strict=False)
    _read(model, kind, db, batch_size)
    return model


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
