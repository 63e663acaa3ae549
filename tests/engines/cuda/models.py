"""The five models whose operators all have kernels on CUDA devices: nets that predict, and nets that train."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tazza.models import Model, layers
from tazza.models.optimizer import OPTIMIZERS, adagrad, sgd
from tazza.models.zoo import CLASSIFIERS, lenet_training, pixels
from tazza.models.zoo.char_lstm import CharLstm, carry_state, char_lstm, char_lstm_training
from tazza.models.zoo.dlrm import Dlrm
from tazza.operator import find_schema
from tazza.operator.index import ANY, load_engine
from tazza.operator.kernel import kernel_for
from tazza.proto import NetDef, OperatorDef

DLRM = Dlrm((30, 40, 50), numbers=5, width=8, bottom=(7,), top=(6,))
LSTM = CharLstm(symbols=7, hidden=5, layers=2)
ENGINES = ("cuda", "cublas", "cudnn")
UPDATES: Mapping[str, Callable[[Model], object]] = {
    **{name: partial(OPTIMIZERS[name], base_learning_rate=0.01) for name in OPTIMIZERS.registered()},
    "sgd with momentum": partial(sgd, base_learning_rate=0.01, momentum=0.9),
    "sgd by steps": partial(sgd, base_learning_rate=0.01, policy="step", stepsize=1, gamma=0.999),
    "row-wise adagrad": partial(adagrad, base_learning_rate=0.01, row_wise=True),
}
"""Each optimizer of the package, and the forms of them that use other operators."""


def _lenet() -> Iterator[Model]:
    predicts, trains = Model("lenet"), Model("lenet_training")
    layers.softmax(predicts, CLASSIFIERS["lenet"].scores(predicts, "data", is_test=True), "softmax")
    lenet_training(trains, pixels(trains, "images"), "label")
    yield from (predicts, trains)


def _classifier(name: str) -> Iterator[Model]:
    yield CLASSIFIERS[name].inference()
    yield CLASSIFIERS[name].training()


def _lstm() -> Iterator[Model]:
    predicts, trains = Model("lstm"), Model("lstm_training")
    char_lstm(predicts, "characters", LSTM)
    _, states = char_lstm_training(trains, "characters", "labels", LSTM, texts=3)
    carry_state(trains, states)
    yield from (predicts, trains)


def _dlrm() -> Iterator[Model]:
    yield DLRM.inference()
    yield DLRM.training()


MODELS: Mapping[str, Callable[[], Iterator[Model]]] = {
    "lenet": _lenet,
    "resnet50": partial(_classifier, "resnet50"),
    "mobilenet_v2": partial(_classifier, "mobilenet_v2"),
    "lstm": _lstm,
    "dlrm": _dlrm,
}
"""Name -> a model that predicts, and one with gradients and no optimizer yet."""


def operators(net: NetDef) -> Iterator[OperatorDef]:
    """Yield the operators of a net, and those of the nets within them."""
    for op in net.op:
        yield op
        for argument in op.arg:
            for inner in (*([argument.n] if argument.HasField("n") else []), *argument.nets):
                yield from operators(inner)


def types_of(name: str, update: str) -> set[str]:
    """Return the operator types of all nets of a model that is trained by an optimizer."""
    predicts, trains = MODELS[name]()
    UPDATES[update](trains)
    nets = (net.proto for model in (predicts, trains) for net in (model.init_net, model.net))
    return {op.type for net in nets for op in operators(net)}


def engines_of(type: str) -> list[str]:
    """Return the engines with a kernel of an operator type for CUDA devices; `host`: its work is the host's."""
    find_schema(type)
    for engine in ENGINES:
        load_engine(engine)
    host = ["host"] if kernel_for(type, ANY, "reference") is not None else []
    return [engine for engine in ENGINES if kernel_for(type, "cuda", engine) is not None] + host
