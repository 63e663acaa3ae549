"""Types and shapes of a whole net, without running it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from tazza.data_class import dataclass
from tazza.errors import DTypeError, TazzaError, UnknownOperatorError
from tazza.operator import Cost, Spec, find_schema, touches
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.log import logger
from tazza.tensor import DataType, TensorSpec

LIKELY = (DataType.FLOAT, DataType.INT32, DataType.BOOL)
"""Types that blobs of unknown ones have."""


@dataclass(frozen=True, slots=True)
class OperatorSpecs:
    """What is known of an operator: specs of inputs and outputs (None: nothing), cost where all shapes are known."""

    definition: OperatorDef
    inputs: tuple[Spec | None, ...]
    outputs: tuple[Spec | None, ...]
    cost: Cost | None
    declared: bool = True
    """Whether somebody declares the operator."""


def infer_net(net: NetDef, given: Mapping[str, Spec], *, only_declared: bool = False) -> list[OperatorSpecs]:
    """Return the specs of every operator of a net, as far as they follow from `given`: specs by blob.

    Values are not looked at: what depends on them stays unknown, and so does everything behind it. With
    `only_declared`, which is for nets that are looked at and may never run, so do outputs of operators that nobody
    declares.

    >>> net = NetDef(op=[OperatorDef(type="Relu", input=["x"], output=["y"])])
    >>> from tazza.tensor import DataType
    >>> print(infer_net(net, {"x": TensorSpec((2, 3), DataType.FLOAT)})[0].outputs[0])
    float32[2, 3]

    Raises:
        UnknownOperatorError, SchemaError, ArgumentError: an operator is not legal.
        ShapeError, DTypeError: shapes or types do not fit.
    """
    specs: dict[str, Spec | None] = dict(given)
    found: list[OperatorSpecs] = []
    for position, definition in enumerate(net.op):
        try:
            made = infer_operator(definition, specs, net, only_declared=only_declared)
        except TazzaError as error:
            error.add_context(f"in operator {position} ({definition.type}) of net {net.name!r}")
            raise
        specs.update(dict.fromkeys(touches(definition).writes))
        specs.update(zip(definition.output, made.outputs, strict=True))
        found.append(made)
    return found


def infer_operator(
    definition: OperatorDef, specs: Mapping[str, Spec | None], net: NetDef | None = None, *, only_declared: bool = False
) -> OperatorSpecs:
    """Return the specs of one operator, of a net if it is of one, from those of the blobs before; see `infer_net`."""
    inputs = tuple(specs.get(name) for name in definition.input)
    nothing = OperatorSpecs(definition, inputs, (None,) * len(definition.output), None)
    try:
        schema = find_schema(definition.type)
    except UnknownOperatorError:
        if not only_declared:
            raise
        return replace(nothing, declared=False)
    op = schema.view(definition)
    op = op if net is None else op.within(net)
    outputs = schema.infer_specs(op, inputs).specs
    complete = [spec for spec in outputs if spec is not None]
    cost = None
    if all(_settled(spec) for spec in (*inputs, *outputs)):
        cost = schema.infer_cost(op, inputs, complete)
    return OperatorSpecs(definition, inputs, outputs, cost)


def _settled(spec: Spec | None) -> bool:
    return spec is not None and (not isinstance(spec, TensorSpec) or spec.shape_known)


def infer_blobs(nets: Iterable[NetDef], given: Mapping[str, Spec]) -> dict[str, Spec | None]:
    """Return what is known of every blob that nets name, run one after the other, None: nothing.

    Shapes count here: a type of elements that an operator does not take, as where nobody said it, stands for one that
    it takes. Where an operator does not fit its inputs otherwise, or nobody declares it, nothing follows of what it
    makes, and the log says so. What was known of a blob stays known where nothing follows, as it did in Caffe2.

    >>> net = NetDef(op=[OperatorDef(type="Relu", input=["x"], output=["y"])])
    >>> from tazza.tensor import DataType
    >>> print(infer_blobs([net], {"x": TensorSpec((2,), DataType.FLOAT)})["y"])
    float32[2]
    """
    specs: dict[str, Spec | None] = dict(given)
    for net in nets:
        for definition in net.op:
            for name in definition.input:
                specs.setdefault(name, None)
            made: Sequence[Spec | None] = (None,) * len(definition.output)
            try:
                made = _inferred(definition, specs, net).outputs
            except TazzaError as error:
                logger.warning("net %r: nothing is known of what %s makes: %s", net.name, definition.type, error)
            for name in touches(definition).writes:
                specs.setdefault(name, None)
            specs.update((name, spec) for name, spec in zip(definition.output, made, strict=True) if spec is not None)
    return specs


def _inferred(definition: OperatorDef, specs: Mapping[str, Spec | None], net: NetDef) -> OperatorSpecs:
    """Return the specs of an operator, with types of elements that it takes where there are others."""
    for other in ({}, *_of_types_taken(definition, specs)):
        with suppress(DTypeError):
            return infer_operator(definition, {**specs, **other}, net)
    return infer_operator(definition, specs, net)  # and raise what is wrong


def _of_types_taken(definition: OperatorDef, specs: Mapping[str, Spec | None]) -> Iterator[dict[str, Spec]]:
    """Yield an operator's inputs with elements of types that it takes; then one of them with each other such type."""
    schema, found, by_letter = find_schema(definition.type), dict[str, Spec](), dict[str, DataType]()
    others: list[tuple[str, Spec]] = []
    for letter, name in zip(schema.view(definition).input_letters, definition.input, strict=True):
        spec, dtypes = specs.get(name), schema.inputs_by_letter[letter].dtypes
        if not isinstance(spec, TensorSpec):
            continue
        taken = {dtypes} if isinstance(dtypes, DataType) else dtypes
        if isinstance(taken, str):
            taken = {by_letter.get(taken, spec.dtype)}
        kinds = {spec.dtype, *LIKELY} if taken is None else taken
        likely = sorted(kinds, key=lambda one: (one not in LIKELY, one.label))
        if spec.dtype not in likely:
            spec = replace(spec, dtype=likely[0])
        found[name] = spec
        others += [(name, replace(spec, dtype=one)) for one in likely if one is not spec.dtype]
        by_letter.setdefault(letter, spec.dtype)
    yield found
    for name, spec in others:
        yield {**found, name: spec}
