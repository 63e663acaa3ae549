"""Plans, predictors, transforms, inference, timing and observers of nets, as the extension gave them to Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python._extension_workspace import message
from tazza import workspace as home
from tazza.errors import ArgumentError, NotFoundError
from tazza.proto import NetDef, OperatorDef, PlanDef, TensorShapes
from tazza.tensor import DataType, TensorSpec

# -- plans -------------------------------------------------------------------------------------------------------------


class BackgroundPlan:
    """A plan that runs in a thread of its own."""

    def __init__(self, future: Future[None]) -> None:
        """Show a run."""
        self._future = future

    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._future.done()

    def is_succeeded(self) -> bool:
        """Whether it has ended well; what a plan failed with is raised."""
        if not self._future.done():
            return False
        self._future.result()
        return True


def run_plan(plan_def: Any) -> bool:
    """Run a plan."""
    from tazza.procedure import run_procedure

    run_procedure(message(PlanDef, plan_def), home.current_workspace())
    return True


def run_plan_in_background(plan_def: Any) -> BackgroundPlan:
    """Run a plan in a thread of its own."""
    from tazza.procedure import run_in_background

    return BackgroundPlan(run_in_background(message(PlanDef, plan_def), home.current_workspace()))


# -- predictors --------------------------------------------------------------------------------------------------------


class Predictor:
    """An init net that has run, and a net that runs on given inputs, in a workspace of their own."""

    def __init__(self, init_net: Any, predict_net: Any) -> None:
        """Run the one, make the other."""
        self._workspace = home.Workspace()
        self._workspace.run_net_once(message(NetDef, init_net))
        self._definition = message(NetDef, predict_net)
        for name in self._definition.external_input:
            self._workspace.create_blob(name)
        self._net = self._workspace.create_net(self._definition)

    def run(self, inputs: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        """Return what the declared outputs hold after a run on inputs, by name or in the order of the declared ones."""
        names = list(self._definition.external_input)
        if not isinstance(inputs, Mapping):
            if len(inputs) > len(names):
                raise ArgumentError(f"{len(inputs)} inputs for a net with {len(names)}")
            inputs = dict(zip(names, inputs, strict=False))
        for name, value in inputs.items():
            if name not in names:
                raise ArgumentError(f"net {self._definition.name!r} has no input {name!r}")
            self._workspace.feed(name, value)
        self._net.run()
        return [self._workspace.fetch(name) for name in self._definition.external_output]


# -- transforms --------------------------------------------------------------------------------------------------------

NAMES = {
    "CommonSubexpressionElimination": "common_subexpression",
    "DeadCodeElim": "dead_code",
    "FuseConvBN": "fold_batch_norm",
}
"""Transforms of tazza by the names that Caffe2 had for theirs."""
ENGINES_ALONE = {"AddNNPACK": {}, "ConvToNNPack": {"Conv": "NNPACK"}, "FuseNNPACKConvRelu": {}}
"""Those that only chose an engine, and what they wrote on which operators of the host in nets of no phone.

Tazza chooses by itself: a name of an engine of old falls through."""


def transform_exists(name: str) -> bool:
    """Whether there is a transform of a net alone."""
    from tazza.graph.transform import TRANSFORMS

    return name in NAMES or name in ENGINES_ALONE or name in TRANSFORMS


def workspace_transform_exists(name: str) -> bool:
    """Whether there is a transform that looks at values."""
    return name == "FuseConvBN"


def apply_transform(name: str, net_def: Any) -> bytes:
    """Return what a transform makes of a net."""
    from tazza.graph.transform import TRANSFORMS

    net = message(NetDef, net_def)
    if name in ENGINES_ALONE:
        return _with_engines(net, ENGINES_ALONE[name]).SerializeToString()
    key = NAMES.get(name, name)
    if key not in TRANSFORMS:
        raise NotFoundError(f"transform {name!r} is not registered", hint=TRANSFORMS.near(key))
    return TRANSFORMS[key]().apply(net).net.SerializeToString()


def _with_engines(net: NetDef, engines: Mapping[str, str]) -> NetDef:
    made = NetDef()
    made.CopyFrom(net)
    for op in made.op:
        if op.type in engines and op.device_option.device_type == caffe2_pb2.CPU:
            op.engine = engines[op.type]
    return made


def apply_transform_if_faster(
    name: str, net_def: Any, init_def: Any, warmup_runs: int, main_runs: int, improvement_threshold: float
) -> bytes:
    """Return what a transform makes of a net where that runs so many times faster, else the net."""
    from tazza.observers.benchmark import mean_ms

    net, init = message(NetDef, net_def), message(NetDef, init_def)
    changed = NetDef.FromString(apply_transform(name, net))
    before, after = (mean_ms(one, init, warm_up=warmup_runs, runs=main_runs) for one in (net, changed))
    return (changed if after * improvement_threshold < before else net).SerializeToString()


run_transform = apply_transform


def run_workspace_transform(name: str, net_def: Any) -> bytes:
    """Return what a transform makes of a net with the values of the current workspace."""
    return apply_transform(name, net_def)


def transform_addNNPACK(net_def: Any) -> bytes:
    """Return the net as it is."""
    return apply_transform("AddNNPACK", net_def)


def transform_fuseNNPACKConvRelu(net_def: Any) -> bytes:
    """Return the net as it is."""
    return apply_transform("FuseNNPACKConvRelu", net_def)


def transform_fuseConvBN(net_def: Any) -> bytes:
    """Return the net with batch normalizations in the weights before them."""
    return run_workspace_transform("FuseConvBN", net_def)


def ssa_rewrite(net_def: Any) -> bytes:
    """Return the net with a name of its own for each value: those from outside and declared outputs keep theirs."""
    from caffe2.python._net_tools import get_ssa

    made = NetDef()
    made.CopyFrom(message(NetDef, net_def))
    ssa, versions = get_ssa(made)
    kept = {(name, 0) for name in versions} | {(name, versions[name]) for name in made.external_output}
    numbers = _writes_before(ssa)

    def named(one: tuple[str, int]) -> str:
        return one[0] if one in kept else f"{one[0]}_{numbers[one]}"

    for op, (inputs, outputs) in zip(made.op, ssa, strict=True):
        op.input[:] = [named(one) for one in inputs]
        op.output[:] = [named(one) for one in outputs]
    return made.SerializeToString()


def _writes_before(ssa: Sequence[tuple[Sequence[tuple[str, int]], Sequence[tuple[str, int]]]]) -> dict[Any, int]:
    """Return for each version that is written how many were before, from outside or written."""
    read = {name for inputs, _ in ssa for name, version in inputs if version == 0}
    written = (one for _, outputs in ssa for one in outputs)
    return {(name, version): version - (name not in read) for name, version in written}


# -- inference ---------------------------------------------------------------------------------------------------------


def _inferred(nets: Sequence[Any], given: Mapping[str, TensorSpec]) -> bytes:
    from tazza.graph.inference import infer_blobs

    made = TensorShapes()
    for name, spec in infer_blobs([message(NetDef, net) for net in nets], given).items():
        shape = made.shapes.add(name=name, unknown_shape=True)
        if isinstance(spec, TensorSpec) and spec.dtype.proto is not None:
            shape.data_type = spec.dtype.proto  # pyright: ignore[reportAttributeAccessIssue] -- a number of the enum
        if isinstance(spec, TensorSpec) and spec.shape_known:
            shape.unknown_shape = False
            shape.dims.extend(spec.shape)
    return made.SerializeToString()


def infer_shapes_and_types_from_workspace(nets: Sequence[Any]) -> bytes:
    """Return what is known of all blobs of nets, from those in the current workspace."""
    workspace = home.current_workspace()
    specs = {name: workspace.blob(name).spec for name in workspace.blob_names()}
    return _inferred(nets, {name: spec for name, spec in specs.items() if isinstance(spec, TensorSpec)})


def infer_shapes_and_types_from_map(
    nets: Sequence[Any], dims: Mapping[str, Sequence[int]], types: Mapping[str, int] | None = None
) -> bytes:
    """Return what is known of all blobs of nets, from given extents and types (float32 where none is given)."""
    numbers: Mapping[str, int] = {} if types is None else types
    given = {
        name: TensorSpec(tuple(extents), DataType.from_proto(numbers.get(name, 1))) for name, extents in dims.items()
    }
    return _inferred(nets, given)


def get_operator_cost(op_def: Any, names: Sequence[str]) -> tuple[int, int]:
    """Return operations and written bytes of an operator with the present blobs.

    What can hold float32 counts as that, as it did: the extents of the blobs tell, whatever is in them.
    """
    from tazza.operator import find_schema

    op = message(OperatorDef, op_def)
    workspace, schema = home.current_workspace(), find_schema(op.type)
    view = schema.view(op)
    letters = [schema.inputs_by_letter[letter].dtypes for letter in view.input_letters]
    inputs = [_as_float(workspace.blob(name).spec, dtypes) for name, dtypes in zip(names, letters, strict=True)]
    outputs = [spec for spec in schema.infer_specs(view, inputs).specs if spec is not None]
    cost = schema.infer_cost(view, inputs, outputs)
    return cost.flops, cost.bytes_written


def _as_float(spec: Any, dtypes: Any) -> Any:
    if isinstance(spec, TensorSpec) and (dtypes is None or isinstance(dtypes, str) or DataType.FLOAT in dtypes):
        return TensorSpec(spec.dims, DataType.FLOAT)
    return spec


FILLED = {"float": "f", "double": "d", "int": "i", "bool": "u1"} | {
    f"{name}_t": name for name in ("uint8", "int8", "int16", "int32", "int64")
}
"""Name of a type that blobs are filled with -> NumPy's."""


def fill_random_network_inputs(
    net_def: Any, input_dims: Sequence[Sequence[Sequence[int]]], input_types: Sequence[Sequence[str]]
) -> None:
    """Feed what a net reads and does not make itself, with random numbers of given shapes and types.

    Args:
        net_def: the net.
        input_dims: for each operator that reads some of these blobs, a shape for each of them.
        input_types: in the same order, a type.

    Raises:
        ArgumentError: there are more or fewer of them.
        ValueError: a type that is not known.
    """
    net = message(NetDef, net_def)
    workspace, random = home.current_workspace(), np.random.default_rng(0)
    made: set[str] = set()
    wanted: list[list[str]] = []
    for op in net.op:
        wanted.append([name for name in op.input if name not in made])
        made.update(op.output)
    wanted = [names for names in wanted if names]
    for what, given in (("shapes", input_dims), ("types", input_types)):
        if list(map(len, given)) != list(map(len, wanted)):
            raise ArgumentError(f"{what} for {list(map(len, given))} blobs, the operators read {wanted}")
    for names, shapes, types in zip(wanted, input_dims, input_types, strict=True):
        for name, dims, type in zip(names, shapes, types, strict=True):
            if type not in FILLED:
                raise ValueError(f"filler does not support type {type}")
            numbers = random.random(tuple(dims)) * (1 if "float" in type else 10)
            workspace.feed(name, numbers.astype(FILLED[type]))


# -- timing and observers ----------------------------------------------------------------------------------------------


def benchmark_net(name: str, warmup_runs: int, main_runs: int, run_individual: bool) -> list[float]:
    """Return the milliseconds of a run of a created net, then of each of its operators (0 where they are not asked)."""
    from tazza.observers.benchmark import benchmark

    return benchmark(home.current_workspace().net(name), warm_up=warmup_runs, runs=main_runs, each=run_individual)


def benchmark_net_once(name: str) -> float:
    """Return the milliseconds of one run of a created net."""
    from tazza.observers.benchmark import benchmark

    return benchmark(home.current_workspace().net(name), warm_up=0, runs=1, each=False)[0]


class Observer:
    """An observer of a net."""

    def __init__(self, total: Any, each: Sequence[Any], text: Callable[[Any], str]) -> None:
        """Show observers of a net and of its operators."""
        self.total, self.each, self._text = total, each, text

    def average_time(self) -> float:
        """Return the milliseconds of a run."""
        return self.total.mean_s * 1000

    def average_time_children(self) -> float:
        """Return the milliseconds of a run of an operator."""
        return sum(one.mean_s for one in self.each) * 1000 / max(1, len(self.each))

    def debug_info(self) -> str:
        """Return what it saw as text."""
        return self._text(self)


def add_observer_to_net(net_name: str, observer_type: str) -> Observer:
    """Attach an observer of a kind to a net."""
    from tazza.observers import RunCountObserver, TimeObserver
    from tazza.operator import attach_throughout

    net = home.current_workspace().net(net_name)
    counts, times = observer_type == "RunCountObserver", observer_type in ("TimeObserver", "ProfileObserver")
    if not counts and not times:
        raise ArgumentError(f"there is no observer {observer_type!r}", hint="TimeObserver, RunCountObserver")
    kind: Any = RunCountObserver if counts else TimeObserver
    each = [kind() for _ in net.operators]
    for operator, one in zip(net.operators, each, strict=True):
        if counts:
            attach_throughout(operator, one)
        else:
            operator.attach(one)
    total = net.attach(kind())

    def text(seen: Observer) -> str:
        if counts:
            runs = sum(one.count for one in seen.each)
            return f"This operator runs {runs} times."
        return f"Average time: {seen.average_time()} ms, of an operator {seen.average_time_children()} ms"

    return Observer(total, each, text)


def remove_observer_from_net(net_name: str, observer: Observer) -> None:
    """Detach an observer."""
    from tazza.operator import detach_throughout

    net = home.current_workspace().net(net_name)
    net.detach(observer.total)
    for operator, one in zip(net.operators, observer.each, strict=True):
        detach_throughout(operator, one)


def num_observers_on_net(net_name: str) -> int:
    """Return how many observers a net has."""
    return len(home.current_workspace().net(net_name).observers)


def clear_global_net_observer() -> None:
    """Do nothing: there is no observer of all nets."""


# -- names -------------------------------------------------------------------------------------------------------------


class DummyName:
    """Names that nobody else uses, numbered."""

    def __init__(self) -> None:
        """Begin with the first."""
        self.reset()

    def reset(self, args: Iterable[str] | None = None) -> None:
        """Begin anew; these names are used."""
        self._used = set(() if args is None else args)
        self._numbers = itertools.count()

    def new_dummy_name(self) -> str:
        """Return the next name."""
        return next(name for name in map("OC2_DUMMY_{}".format, self._numbers) if name not in self._used)
