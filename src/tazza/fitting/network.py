"""The nets of a training: a classifier of the zoo, or a net that predicts, made one that trains.

A net that trains reads `data` and `label`, which are fed, and makes `softmax`, `loss` and `accuracy`. What tests it has
a reader of a database in front, and what makes numbers of bytes as `Preprocessing` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db.image_source import ImageDB
from tazza.errors import ArgumentError, NetError, SchemaError, ShapeError
from tazza.fitting.data import Look
from tazza.graph.derivation import needed_operators, net_that_tests
from tazza.images.preprocessing import Colors, Preprocessing
from tazza.interop import Predictor
from tazza.interop.image_needs import fitting_size, image_input, image_needs
from tazza.models import layers
from tazza.models.initializer import constant, given, xavier
from tazza.models.model import Model, ParameterKind
from tazza.models.rate import rates_of
from tazza.models.zoo.classifier import ACCURACY, DATA, LABEL, LOSS, SOFTMAX, Classifier
from tazza.operator import OpView, Role, find_argument, find_schema, make_argument, read_first, touched_by, touches
from tazza.ops.nn.batch_norm import SPATIAL_BN
from tazza.ops.nn.softmax import SOFTMAX as SOFTMAX_SCHEMA
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.files import one_line, resolved
from tazza.tensor import DataType, Tensor

Values = dict[str, NDArray[Any]]
TEST_BATCH = 100
DATA_BYTES = "data_bytes"
"""Of the net that tests: pictures (N, C, H, W) as they lie in the database, to be looked at."""


@dataclass(frozen=True, slots=True)
class FittedNets:
    """What is run to train and to test; `parameters` are read by the net that tests, and exported."""

    init: NetDef
    train: NetDef
    test_init: NetDef
    test: NetDef
    parameters: list[str]


# -- classifiers of the zoo --------------------------------------------------------------------------------------------


def zoo_preprocessing(chosen: Classifier, seen: Look, size: int | None, colors: str | None) -> Preprocessing:
    """Return how pictures come to a classifier of the zoo.

    They keep the size that all of them have where the net is built for it and was not published for smaller ones; they
    keep their colours.

    Raises:
        ShapeError: the net is not built for `size`.
    """
    channels = seen.channels if colors is None else Preprocessing(colors=cast("Colors", colors)).channels
    side = size
    if side is None and seen.size is not None and seen.size[0] == seen.size[1] <= chosen.size:
        side = seen.size[0] if _builds(chosen, seen.size[0]) else chosen.size
    side = chosen.size if side is None else side
    chosen.inference(size=side, channels=channels)
    given_colors = ("grey" if channels == 1 else "rgb") if colors is None else colors
    return Preprocessing((side, side), "crop", colors=cast("Colors", given_colors))


def _builds(chosen: Classifier, size: int) -> bool:
    try:
        chosen.inference(size=size)
    except ShapeError:
        return False
    return True


def zoo_model(chosen: Classifier, prepare: Preprocessing, classes: int, options: Mapping[str, Any]) -> Model:
    """Return a classifier with its gradients, for such pictures and so many classes; `options` are its builder's.

    Raises:
        ArgumentError: its builder has no such option.
    """
    assert prepare.size is not None, "pictures have one size"
    given_sizes: dict[str, Any] = {"size": prepare.size[0], "channels": prepare.channels, "classes": classes}
    try:
        return chosen.training(**(given_sizes | dict(options)))
    except TypeError as error:
        if not options:
            raise
        raise ArgumentError(f"{chosen.name} does not take {', '.join(options)}: {one_line(error)}") from error


def without_gradient_of_data(model: Model) -> Model:
    """Take the gradient of the pictures out of a model, where an operator can leave it away: nobody learns from it."""
    unused = model.gradients.get(DATA)
    for op in model.net.proto.op:
        if isinstance(unused, str) and len(op.output) > 1 and op.output[-1] == unused:
            del op.output[-1]
            try:
                find_schema(op.type).view(op)
            except SchemaError:
                op.output.append(unused)
    return model


# -- nets that predict -------------------------------------------------------------------------------------------------


def predictor_preprocessing(
    predictor: Predictor, stored: Preprocessing | None, seen: Look, *, size: int | None, colors: str | None
) -> Preprocessing:
    """Return how pictures come to a net from files: as somebody says, as is stored beside it, as it says itself.

    Raises:
        ArgumentError: nobody tells the size.
    """
    if colors is not None:
        base = Preprocessing() if stored is None else stored
        stored = replace(base, colors=cast("Colors", colors))
    if stored is not None and size is not None:
        stored = replace(stored, size=(size, size), fit="crop", shorter=None)
    if stored is not None and stored.size is not None:
        return stored
    needs = image_needs(predictor)
    channels = seen.channels if needs.channels is None else needs.channels
    base = Preprocessing(colors="grey" if channels == 1 else "rgb", order=needs.order) if stored is None else stored
    tried = np.zeros((base.channels, 1, 1), np.float32)
    found = fitting_size(predictor, tried, base.order)
    sides = (size, size) if size is not None else seen.size if found is None else found.size
    if sides is None:
        raise ArgumentError(f"net {predictor.name!r} takes pictures of any size", hint="--size says which")
    return replace(base, size=sides, fit="crop")


def model_of(predictor: Predictor, classes: int, *, renewed: bool = False) -> tuple[Model, Values]:
    """Return a net that predicts as one that trains, with gradients, and the values that its parameters have.

    Operators are in training mode. The last layer is a new one where it does not have so many classes, or is `renewed`.

    Raises:
        ArgumentError: it has several inputs.
        NetError: it has no last layer that makes a score for each class; a blob is called like one that training adds.
        TazzaError: it cannot be trained.
    """
    model = Model(f"{predictor.name}_train", strict=False)
    operators = _trained(_named_data(predictor.definition, image_input(predictor)), predictor.outputs[0])
    scores = operators.pop().input[0] if _is_softmax(operators[-1]) else str(operators[-1].output[0])
    clash = {LABEL, SOFTMAX, LOSS, ACCURACY}.intersection(name for op in operators for name in touches(op).writes)
    if clash:
        raise NetError(f"net {predictor.name!r} makes a blob {min(clash)!r}, which training adds", hint="rename it")
    values = _values(predictor, operators)
    last = _last_layer(predictor.name, operators, values)
    fresh = [name for name in _learned(last, values) if renewed or values[name].shape[0] != classes]
    for name in fresh:
        values[name] = np.empty((classes, *values[name].shape[1:]), np.float32)
    for name, kind in _kinds(operators, values).items():
        start = constant(0.0) if name not in fresh or kind is ParameterKind.BIAS else xavier()
        model.add_parameter(name, values[name].shape, start, kind)
    model.net.append_operators(operators)
    probabilities, loss = layers.softmax_with_loss(model, scores, LABEL, [SOFTMAX, LOSS])
    layers.accuracy(model, probabilities, LABEL, ACCURACY)
    model.add_gradients([loss])
    return model, {name: value for name, value in values.items() if name not in fresh}


def _is_softmax(op: OperatorDef) -> bool:
    return find_schema(op.type) is SOFTMAX_SCHEMA


def _named_data(net: NetDef, name: str) -> NetDef:
    """Return a net whose input is called `data`."""
    made = NetDef()
    made.CopyFrom(net)
    for op in made.op:
        op.input[:] = [DATA if each == name else each for each in op.input]
        op.output[:] = [DATA if each == name else each for each in op.output]
    return made


def _trained(net: NetDef, output: str) -> list[OperatorDef]:
    """Return the operators that make an output, in training mode, with the outputs that only training makes."""
    return [_in_training_mode(op) for op in needed_operators(net, [output])[0]]


def _in_training_mode(op: OperatorDef) -> OperatorDef:
    schema = find_schema(op.type)
    mode = schema.training_mode
    given_mode = None if mode is None else find_argument(op, mode.argument)
    if mode is None or given_mode is None or not given_mode.i:
        return op
    made = OperatorDef()
    made.CopyFrom(op)
    del made.arg[:]
    made.arg.extend(each for each in op.arg if each.name != mode.argument)
    made.arg.append(make_argument(mode.argument, 0))
    view = schema.typed_view(op)
    for letter in schema.outputs_by_letter:
        if letter not in mode.outputs or letter in view.output_letters:
            continue
        places = schema.must_in_place.get(letter)
        made.output.append(f"{op.output[0]}_{letter}" if places is None else view.input_name(str(places[0])))
    return made


def _values(predictor: Predictor, operators: Sequence[OperatorDef]) -> Values:
    """Return what the net reads and does not make, but for `data`."""
    found: Values = {}
    for name in read_first(operators, perhaps_made=True):
        blob = predictor.workspace.get_blob(name)
        if name == DATA or blob is None or not isinstance(blob.value, Tensor):
            continue
        found[name] = np.array(blob.value.plain())
    return found


def _last_layer(name: str, operators: Sequence[OperatorDef], values: Values) -> OperatorDef:
    for op in reversed(operators):
        if _learned(op, values):
            return op
    raise NetError(f"net {name!r} has no layer with parameters", hint="name a net that classifies")


def _learned(op: OperatorDef, values: Values) -> list[str]:
    """Return the parameters of an operator that are learned: numbers, and no statistics that it keeps itself."""
    view = find_schema(op.type).typed_view(op)
    written = touches(op).writes
    return [
        name
        for letter, name in zip(view.input_letters, op.input, strict=True)
        if name in values and name not in written and _role(view, letter) is Role.PARAMETER
    ]


def _role(view: OpView, letter: str) -> Role | None:
    known = view.schema.inputs_by_letter.get(letter)
    return None if known is None else known.role


def _kinds(operators: Sequence[OperatorDef], values: Values) -> dict[str, ParameterKind]:
    """Return what each parameter is for: those with several axes are weights."""
    learned = {name for op in operators for name in _learned(op, values) if values[name].dtype == np.float32}
    kinds = {True: ParameterKind.WEIGHT, False: ParameterKind.BIAS}
    return {
        name: kinds[value.ndim > 1] if name in learned else ParameterKind.COMPUTED for name, value in values.items()
    }


# -- what is frozen ----------------------------------------------------------------------------------------------------


def freeze(model: Model, patterns: Sequence[str]) -> list[str]:
    """Take parameters out of a training, by patterns of their names such as `conv*`; return those that stay.

    Call it behind the gradients and before the optimizer. Layers that normalize by the batch go on to do so; what they
    would learn of it stays as it was.

    Raises:
        ArgumentError: no parameter is called so, or all that are learned are.
    """
    found: list[str] = []
    for pattern in patterns:
        called = [name for name in model.parameters if fnmatchcase(name, pattern)]
        if not called:
            raise ArgumentError(
                f"no parameter is called {pattern!r}", hint=f"parameters: {', '.join(list(model.parameters)[:20])} ..."
            )
        found.extend(name for name in called if name not in found)
    if not found:
        return found
    for name in found:
        model.gradients.pop(name, None)
    if not model.parameter_gradients:
        raise ArgumentError("every parameter is frozen, and none is left to learn", hint="freeze fewer")
    kept = [str(gradient) for gradient in model.parameter_gradients.values()]
    operators = needed_operators(model.net.proto, [*kept, SOFTMAX, LOSS, ACCURACY])[0]
    for op in operators:
        if find_schema(op.type) is SPATIAL_BN and set(found).intersection(touches(op).writes):
            _keep_statistics(op)
    del model.net.proto.op[:]
    model.net.proto.op.extend(operators)
    return found


def _keep_statistics(op: OperatorDef) -> None:
    """Give the old running values the whole weight: 1 * old + 0 * new has the bits of the old ones."""
    kept = [each for each in op.arg if each.name != "momentum"]
    del op.arg[:]
    op.arg.extend([*kept, make_argument("momentum", 1.0)])


# -- all nets of a training --------------------------------------------------------------------------------------------


def fitted_nets(model: Model, prepare: Preprocessing, test: ImageDB, batch_size: int) -> FittedNets:
    """Return the nets of a training: `model` has its updates, `test` is what it is tested on."""
    train = model.net.proto
    parameters = {str(name) for name in model.parameters}
    looked_at = [SOFTMAX, LOSS, ACCURACY]
    tested = net_that_tests(train, looked_at, parameters=parameters)
    reader = _reader(f"{model.name}_test", prepare, test, min(batch_size, TEST_BATCH, test.count))
    tested.name = reader.net.name
    tested.external_output.extend([DATA_BYTES, LABEL])  # some types of nets keep nothing else
    train.external_output.extend(name for name in (*looked_at, *rates_of(train)) if name not in train.external_output)
    read = sorted(parameters.intersection(tested.external_input))
    return FittedNets(model.init_net.proto, train, reader.init_net.proto, in_front(reader.net.proto, tested), read)


def _reader(name: str, prepare: Preprocessing, db: ImageDB, batch_size: int) -> Model:
    """Return what reads a database: `data` as `prepare` makes it of bytes, and `label`."""
    model = Model(name, strict=False)
    reader = model.init_net.add("CreateDB", (), f"{name}_reader", db_type=db.db_type, db=str(resolved(db.path)))
    images, _ = model.net.add("TensorProtosDBInput", reader, [DATA_BYTES, LABEL], batch_size=batch_size)
    numbers = layers.cast(model, images, f"{DATA}_numbers", DataType.FLOAT)
    data = DATA if not any(prepare.mean) and set(prepare.std) == {1.0} else f"{DATA}_scaled"
    numbers = layers.scale(model, numbers, data, prepare.scale)
    for what, type, last in (("mean", "Sub", False), ("std", "Div", True)):
        if data == DATA:
            break
        values = np.asarray(getattr(prepare, what), np.float32)
        planes = np.broadcast_to(values, (prepare.channels,)).reshape(1, prepare.channels, 1, 1)
        by = given(np.ascontiguousarray(planes)).fill(model.init_net, f"{DATA}_{what}", planes.shape)
        numbers = model.net.add(type, [numbers, by], DATA if last else f"{DATA}_centred")
    return model


def in_front(first: NetDef, then: NetDef) -> NetDef:
    """Return `then` with the operators of `first` before its own."""
    made = touched_by(first).writes
    joined = NetDef()
    joined.CopyFrom(then)
    del joined.op[:], joined.external_input[:]
    joined.op.extend([*first.op, *then.op])
    read = [*first.external_input, *(name for name in then.external_input if name not in made)]
    joined.external_input.extend(dict.fromkeys(read))
    return joined
