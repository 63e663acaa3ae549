"""Nets of the zoo with numbers in them, in folders, for all contenders alike.

Numbers are drawn, not learned: weights He-normal, biases and the scales of normalizations so that leaving one out would
show. Running statistics are those of one batch, so that activations are neither lost nor blown up on the way, and the
last layer is scaled until the probabilities differ. Source: He, Zhang, Ren, Sun 2015, arXiv 1502.01852, section 2.2.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.job import (
    INIT_FILE,
    LEARNING_RATE,
    MOMENTUM,
    PARAMETERS_FILE,
    PREDICT_FILE,
    TRAIN_FILE,
    Arrays,
    PlainNet,
    PlainOperator,
    inputs_file,
)
from tazza.graph.derivation import needed_operators
from tazza.graph.inference import infer_net
from tazza.models import Model, ParameterKind, sgd, without_debug_info
from tazza.models.zoo import CLASSIFIERS
from tazza.models.zoo.classifier import DATA, LABEL, LOSS, SOFTMAX
from tazza.operator import Spec
from tazza.operator.argument import stored_fields
from tazza.proto import NetDef, OperatorDef
from tazza.proto.message import read_message, write_message
from tazza.tensor import DataType, TensorSpec
from tazza.workspace import Workspace

SEED = 1701
PARAMETERS_VERSION = 2
"""Goes up when other numbers are drawn."""
CALIBRATION_BATCH = 2
SCORES_DEVIATION = 1.5
"""Standard deviation that the scores of a net are scaled to."""
RESIDUAL_SCALE = 0.25
"""What the scale of a normalization is multiplied by whose result is added to a shortcut. With scales around 1 a net of
random numbers doubles rounding errors from block to block, which learned nets do not, and bfloat16 would give noise."""
PRODUCTS = frozenset({"Conv", "FC"})
"""Operators whose work is that of matrix products."""
ENDS = frozenset({"Softmax", "SoftmaxWithLoss"})
"""What turns the scores into the result."""
LEARNED = (ParameterKind.WEIGHT, ParameterKind.BIAS)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A net in a folder."""

    folder: Path
    name: str
    training: bool
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def flops(self, batch: int) -> int:
        """Return the floating-point operations of the convolutions and full connections of one run.

        A training step makes each product three times, for Y, dW and dX; but nobody asks for dX of the images.
        """
        known = {
            name: TensorSpec(shape, DataType.FLOAT) for name, shape in PlainNet.read(self.folder).parameters.items()
        }
        specs = infer_net(NetDef(op=self._operators()), {**known, **_input_specs(self.name, batch, self.options)})
        each = [op.cost.flops for op in specs if op.definition.type in PRODUCTS and op.cost is not None]
        return 3 * sum(each) - each[0] if self.training else sum(each)

    def _operators(self) -> list[OperatorDef]:
        definition = read_message(self.folder / (TRAIN_FILE if self.training else PREDICT_FILE), NetDef)
        return list(itertools.takewhile(lambda op: op.type not in ENDS, definition.op))

    def write_inputs(self, batch: int) -> None:
        """Write the inputs of a batch, unless they are there."""
        file = self.folder / inputs_file(batch)
        if not file.exists():
            drawn = draw_inputs(self.name, batch, self.options)
            np.savez(file, allow_pickle=False, **(drawn if self.training else {DATA: drawn[DATA]}))


def draw_inputs(name: str, batch: int, options: Mapping[str, Any]) -> Arrays:
    """Return images and labels for a net of the zoo."""
    random = np.random.default_rng([SEED, batch])
    specs = _input_specs(name, batch, options)
    classes = int(options.get("classes", CLASSIFIERS[name].classes))
    return {
        DATA: random.standard_normal(tuple(specs[DATA].shape), dtype=np.float32),
        LABEL: random.integers(0, classes, batch, dtype=np.int32),
    }


def _input_specs(name: str, batch: int, options: Mapping[str, Any]) -> dict[str, TensorSpec]:
    sizes = {key: options[key] for key in ("channels", "size") if key in options}
    shape = CLASSIFIERS[name].input_shape(batch, **sizes)
    return {DATA: TensorSpec(shape, DataType.FLOAT), LABEL: TensorSpec((batch,), DataType.INT32)}


def prepare(name: str, folder: Path, *, training: bool, options: Mapping[str, Any] | None = None) -> Prepared:
    """Put a net of the zoo into a folder, unless the same one lies there already.

    Args:
        name: which.
        folder: of this net alone.
        training: with loss, gradients and SGD; else to predict.
        options: of the builder.
    """
    given: dict[str, Any] = {} if options is None else dict(options)
    prepared = Prepared(folder, name, training, given)
    model = _model(name, training, given)
    forward = _forward(model, LOSS if training else SOFTMAX)
    file = folder / (TRAIN_FILE if training else PREDICT_FILE)
    if training:
        sgd(model, LEARNING_RATE, momentum=MOMENTUM, nesterov=False)
        model.net.add_external_output(LOSS)
    definition = without_debug_info(model.net.proto)
    definition.name = f"{name}_train" if training else name
    numbers = _parameters_file(name, folder.parent, given)
    if file.exists() and numbers.samefile(folder / PARAMETERS_FILE) and read_message(file, NetDef) == definition:
        return prepared
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / PARAMETERS_FILE).hardlink_to(numbers)
    plain_net(model, forward, LOSS if training else SOFTMAX, _input_specs(name, 1, given)).write(folder)
    if training:
        write_message(folder / INIT_FILE, _rest_of_init(model))
    write_message(file, definition)  # last: it says that the folder is whole
    return prepared


def _model(name: str, training: bool, options: Mapping[str, Any]) -> Model:
    return CLASSIFIERS[name].training(accuracy=False, **options) if training else CLASSIFIERS[name].inference(**options)


def _forward(model: Model, output: str) -> list[OperatorDef]:
    return needed_operators(without_debug_info(model.net.proto), [output])[0]


def _rest_of_init(model: Model) -> NetDef:
    """Return the init net without what fills parameters: these come from a file."""
    made = without_debug_info(model.init_net.proto)
    kept = [op for op in made.op if not model.parameters.keys() & set(op.output)]
    del made.op[:]
    made.op.extend(kept)
    return made


# -- numbers -----------------------------------------------------------------------------------------------------------


def _parameters_file(name: str, folder: Path, options: Mapping[str, Any]) -> Path:
    """Return the file of the parameters of a net, which is made once for predicting and training."""
    key = hashlib.sha256(json.dumps([PARAMETERS_VERSION, name, dict(options)], sort_keys=True).encode()).hexdigest()
    file = folder / f"{name}-{key[:12]}.npz"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part.npz")
        np.savez(part, allow_pickle=False, **_parameters(name, options))
        part.replace(file)
    return file


def _parameters(name: str, options: Mapping[str, Any]) -> Arrays:
    """Return the parameters of a net, the same whether it predicts or trains."""
    model = CLASSIFIERS[name].training(accuracy=False, **options)
    operators = _forward(model, LOSS)
    values = _drawn(model)
    for parameter in _scales_before_sums(operators):
        values[parameter] *= np.float32(RESIDUAL_SCALE)
    scores = operators[-1].input[0]
    found = _run_once(operators, values, draw_inputs(name, CALIBRATION_BATCH, options), scores)
    last = next(op for op in reversed(operators) if op.type in ("FC", "Conv"))
    factor = SCORES_DEVIATION / max(float(found.std()), 1e-6)
    for parameter in last.input[1:]:
        values[parameter] *= np.float32(factor)
    return values


def _scales_before_sums(operators: list[OperatorDef]) -> list[str]:
    """Return the scales of the normalizations whose results are first in a sum: the ends of residual branches."""
    scales: dict[str, str] = {}
    found: list[str] = []
    for op in operators:
        if op.type == "SpatialBN":
            scales[op.output[0]] = op.input[1]
        elif op.type == "Sum" and op.input[0] in scales:
            found.append(scales[op.input[0]])
    return found


def _drawn(model: Model) -> Arrays:
    random = np.random.default_rng(SEED)
    values: Arrays = {}
    for full, parameter in model.parameters.items():
        shape = parameter.shape
        if len(shape) > 1:
            deviation = math.sqrt(2 / math.prod(shape[1:]))
            values[full] = random.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
        elif parameter.kind is ParameterKind.BIAS:
            values[full] = random.standard_normal(shape, dtype=np.float32) * np.float32(0.1)
        else:
            values[full] = random.uniform(0.5, 1.5, shape).astype(np.float32)
    return values


def _run_once(operators: list[OperatorDef], values: Arrays, inputs: Arrays, output: str) -> Any:
    """Run a training net forward; put the statistics of the batch into `values` as the running ones."""
    definition = NetDef(name="calibration", op=operators)
    for op in definition.op:
        if op.type == "SpatialBN":
            kept = [argument for argument in op.arg if argument.name != "momentum"]
            del op.arg[:]
            op.arg.extend(kept)
            op.arg.add(name="momentum", f=0.0)
    ws = Workspace()
    for name, value in {**values, **inputs}.items():
        ws.feed(name, value)
    ws.run_net_once(definition)
    for op in definition.op:
        if op.type == "SpatialBN":
            values.update((name, ws.fetch(name)) for name in op.output[1:3])
    found = ws.fetch(output)
    ws.reset()
    return found


# -- the plain form ----------------------------------------------------------------------------------------------------


def plain_net(model: Model, operators: list[OperatorDef], output: str, inputs: Mapping[str, TensorSpec]) -> PlainNet:
    """Return part of a model's net as plain data.

    Args:
        model: whose parameters these are.
        operators: which part.
        output: the blob that it is run for.
        inputs: specs for a batch of one.
    """
    known: dict[str, Spec] = {p.blob: TensorSpec(p.shape, DataType.FLOAT) for p in model.parameters.values()}
    *body, end = operators
    specs = infer_net(NetDef(op=body), known | dict(inputs))
    read = {name for op in operators for name in op.input}
    return PlainNet(
        model.name,
        (*(_plain(op.definition, op.outputs) for op in specs), _plain(end, ())),
        {name: tuple(spec.shape[1:]) for name, spec in inputs.items() if name in read},
        output,
        {name: parameter.shape for name, parameter in model.parameters.items()},
        tuple(model.parameter_blobs(*LEARNED)),
    )


def _plain(definition: OperatorDef, outputs: Sequence[Spec | None]) -> PlainOperator:
    shapes = tuple(tuple(spec.shape) for spec in outputs if isinstance(spec, TensorSpec))
    return PlainOperator(
        definition.type, tuple(definition.input), tuple(definition.output), _arguments(definition), shapes
    )


def _arguments(definition: OperatorDef) -> dict[str, Any]:
    """Return the arguments that an operator has, as Python values."""
    found: dict[str, Any] = {}
    for argument in definition.arg:
        (field,) = stored_fields(argument)
        value = getattr(argument, field)
        if isinstance(value, bytes):
            value = value.decode()
        found[argument.name] = value if isinstance(value, (int, float, str)) else list(value)
    return found
