"""All that is declared of an operator type, in words and numbers: what pages, commands and JSON are made from.

Nothing here decides anything: each fact is read from the schema, the registries of kernels and engines, or the code of
the operator's own checks (`operator.complaint`).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, get_args

import numpy as np

from tazza.data_class import dataclass
from tazza.operator.argument import FIELDS, ArgSpec
from tazza.operator.arity import AsMany, Pairs, Relation, Together
from tazza.operator.complaint import Complaint, complaints_of
from tazza.operator.effect import Effects
from tazza.operator.engine import ENGINES, why_unavailable
from tazza.operator.gradient import NoGradient
from tazza.operator.in_place import Places
from tazza.operator.index import FAMILIES
from tazza.operator.kernel import KERNELS
from tazza.operator.letter import BlobSpec
from tazza.operator.registry import SCHEMAS
from tazza.operator.schema import OpSchema
from tazza.tensor import DataType


@dataclass(frozen=True, slots=True)
class BlobFacts:
    """One input or output: `types` are element types, or types of blobs where it holds no tensor; none means any.

    `same_as` names the letter whose element type it has, `like` the one that it equals in shape too; `shape` is a
    pattern (`operator.pattern`), None where a rule or the data decide. `elsewhere` are further types on devices.
    """

    name: str
    types: tuple[str, ...]
    elsewhere: tuple[str, ...]
    same_as: str | None
    like: str | None
    shape: str | None
    optional: bool
    variadic: bool
    dynamic: bool
    host: bool
    role: str | None
    quantization: tuple[str, ...]
    doc: str

    @property
    def kind(self) -> str:
        """What it holds, in words."""
        if self.like is not None:
            return f"like {self.like}"
        if self.same_as is not None:
            return f"type of {self.same_as}"
        return " or ".join(self.types) if self.types else "any type"

    @property
    def marks(self) -> tuple[str, ...]:
        """What else is to be known of it, in words."""
        words = {
            "optional": self.optional,
            "any number": self.variadic,
            "size depends on data": self.dynamic,
            "on the host": self.host,
        }
        more = (f"on devices {' or '.join(self.elsewhere)} too",) if self.elsewhere else ()
        return (*(word for word, on in words.items() if on), *self.quantization, *more)


@dataclass(frozen=True, slots=True)
class ArgumentFacts:
    """One argument: a value has one of the Python types of these names; `default` is text, as Python writes it."""

    name: str
    types: tuple[str, ...]
    required: bool
    default: str | None
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]
    doc: str

    @property
    def range(self) -> tuple[str, ...]:
        """What a value must be, in words."""
        bounds = ((">=", self.minimum), ("<=", self.maximum))
        ends = [f"{sign} {_number(bound)}" for sign, bound in bounds if bound is not None]
        return (*ends, *([f"one of {', '.join(self.choices)}"] if self.choices else []))


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """An engine that has a kernel of the operator, for which kinds of devices, and why it is not usable here, if so."""

    name: str
    devices: tuple[str, ...]
    unavailable: str | None


@dataclass(frozen=True, slots=True)
class Description:
    """What is known of an operator type; `family` is its `module` within `tazza.ops`, where it is one of ours."""

    type: str
    family: str
    module: str
    doc: str
    private: bool
    inputs: tuple[BlobFacts, ...]
    outputs: tuple[BlobFacts, ...]
    relations: tuple[str, ...]
    arguments: tuple[ArgumentFacts, ...]
    open_arguments: bool
    in_place: dict[str, tuple[str, ...]]
    must_in_place: dict[str, tuple[str, ...]]
    gradient: str
    gradient_reason: str
    effects: str
    training: str
    engines: tuple[EngineFacts, ...]
    refuses: tuple[str, ...]
    complaints: tuple[Complaint, ...]
    example: str
    source: str

    @property
    def summary(self) -> str:
        """The first line of what it does."""
        return self.doc.splitlines()[0]


def describe(schema: OpSchema) -> Description:
    """Return what is known of an operator type; the kernels of all engines are looked for.

    >>> from tazza.operator import find_schema
    >>> found = describe(find_schema("LeakyRelu"))
    >>> found.family, found.gradient, found.arguments[0].name, found.inputs[0].kind
    ('nn.relu', 'yes', 'alpha', 'float32')
    """
    rule = schema.gradient_rule
    none = rule if isinstance(rule, NoGradient) else None
    return Description(
        type=schema.type,
        family=family_of(schema),
        module=schema.module,
        doc=schema.doc,
        private=schema.private,
        inputs=tuple(_blob(spec, spec.role.value) for spec in schema.inputs),
        outputs=tuple(_blob(spec, None) for spec in schema.outputs),
        relations=tuple(map(_relation, schema.relations)),
        arguments=tuple(map(_argument, schema.args.values())),
        open_arguments=schema.open_args is not None,
        in_place=_places(schema.in_place),
        must_in_place=_places(schema.must_in_place),
        gradient="not declared" if rule is None else "yes" if none is None else none.kind.value,
        gradient_reason="" if none is None else none.reason,
        effects=_effects(schema),
        training=_training(schema),
        engines=tuple(engines_of(schema.type)),
        refuses=tuple(_refuses(schema)),
        complaints=complaints_of(schema),
        example=schema.example,
        source=schema.source,
    )


def family_of(schema: OpSchema) -> str:
    """Return the name of an operator's family: its module, within `tazza.ops` where it is one of ours.

    >>> from tazza.operator import find_schema
    >>> family_of(find_schema("Conv"))
    'nn.conv'
    """
    return schema.module.removeprefix(f"{FAMILIES}.")


def families() -> dict[str, list[OpSchema]]:
    """Return the schemas that are known by family, both in the order of their names."""
    found: dict[str, list[OpSchema]] = {}
    for type in SCHEMAS:
        schema = SCHEMAS[type]
        found.setdefault(family_of(schema), []).append(schema)
    return dict(sorted(found.items()))


def family_doc(schema: OpSchema) -> str:
    """Return what the module of an operator's family says of itself; empty where it says nothing."""
    doc = importlib.import_module(schema.module).__doc__
    return "" if doc is None else doc.strip()


def engines_of(type: str) -> Iterator[EngineFacts]:
    """Yield the engines that have a kernel of an operator type, by their names."""
    for name in sorted(ENGINES):
        devices = tuple(sorted(device for device in ENGINES[name].devices if (type, device, name) in KERNELS))
        if devices:
            yield EngineFacts(name, devices, why_unavailable(type, devices[0], name))


def _blob(spec: BlobSpec, role: str | None) -> BlobFacts:
    return BlobFacts(
        name=spec.name,
        types=tuple(_types(spec)),
        elsewhere=tuple(sorted(dtype.label for dtype in spec.elsewhere)),
        same_as=spec.dtypes if isinstance(spec.dtypes, str) else None,
        like=spec.like,
        shape=spec.dims,
        optional=spec.optional,
        variadic=spec.variadic,
        dynamic=spec.dynamic,
        host=spec.host,
        role=role,
        quantization=tuple(sorted(one.__name__ for one in spec.quantization if one is not type(None))),
        doc=spec.doc,
    )


def _types(spec: BlobSpec) -> Iterator[str]:
    if spec.type_name not in (None, "*"):
        yield str(spec.type_name)
    dtypes = {spec.dtypes} if isinstance(spec.dtypes, DataType) else spec.dtypes
    if not isinstance(dtypes, str) and dtypes is not None:
        yield from sorted(dtype.label for dtype in dtypes)
    yield from spec.also


def _relation(relation: Relation) -> str:
    match relation:
        case AsMany(letter, other):
            return f"as many {letter} as {other}"
        case Pairs(letters):
            return f"{' and '.join(letters)} in turn"
        case Together(letters):
            return f"{' and '.join(letters)} together or not at all"


def _argument(spec: ArgSpec) -> ArgumentFacts:
    members = spec.type if isinstance(spec.type, type) or spec.type in FIELDS else None
    types = (members,) if members is not None else get_args(spec.type)
    return ArgumentFacts(
        name=spec.name,
        types=tuple(_named(one) for one in types),
        required=spec.required,
        default=None if spec.required else _default(spec.default),
        minimum=spec.minimum,
        maximum=spec.maximum,
        choices=() if spec.choices is None else tuple(map(str, spec.choices)),
        doc=spec.doc,
    )


def _named(type: Any) -> str:
    inner = get_args(type)
    return f"list[{inner[0].__name__}]" if inner else type.__name__


def _default(value: Any) -> str:
    if isinstance(value, float):
        return _number(value)
    return str(int(value)) if isinstance(value, IntEnum) else repr(value)


def _number(value: float) -> str:
    """Return a number as the format holds it: floats have four bytes there.

    >>> _number(np.float32(0.01).item()), _number(2**24), _number(1.0)
    ('0.01', '16777216', '1.0')
    """
    return str(np.float32(value)) if isinstance(value, float) else str(value)


def _places(places: Places) -> dict[str, tuple[str, ...]]:
    return {letter: tuple(map(str, found)) for letter, found in places.items()}


def _effects(schema: OpSchema) -> str:
    if schema.effects is None:
        return Effects.IO.name.lower()
    return schema.effects.name.lower() if isinstance(schema.effects, Effects) else "by its arguments"


def _training(schema: OpSchema) -> str:
    """Return how it behaves while a net trains, empty where it does not care."""
    mode = schema.training_mode
    if mode is None:
        return ""
    alone = f"; {', '.join(sorted(mode.outputs))} then alone" if mode.outputs else ""
    return f"draws, keeps statistics or looks at the batch unless {mode.argument}{alone}"


def _refuses(schema: OpSchema) -> Iterator[str]:
    """Yield the errors that follow from the declaration alone."""
    yield "SchemaError"
    if schema.args:
        yield "ArgumentError"
    if any(spec.dtypes is not None or spec.type_name is not None for spec in schema.inputs):
        yield "DTypeError"
    if any(spec.dims is not None for spec in schema.inputs):
        yield "ShapeError"
