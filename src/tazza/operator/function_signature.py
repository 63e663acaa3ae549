"""What the signature of a tensor function says of the operator that it becomes; the rules stand in `function`."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import Annotated, Any, Literal, SupportsIndex, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import SchemaError
from tazza.operator.argument import FIELDS, REQUIRED, ArgSpec, arg
from tazza.operator.letter import DTypes
from tazza.tensor import DataType, Tensor


@dataclass(frozen=True, slots=True)
class Input:
    """One tensor parameter: `sequence` when it takes several at once as a list, `starred` when as `*X`."""

    name: str
    dtypes: DTypes
    dims: str | None
    optional: bool
    arrays: bool
    sequence: bool = False
    starred: bool = False

    @property
    def variadic(self) -> bool:
        """Whether any number of blobs stand for it."""
        return self.sequence or self.starred


@dataclass(frozen=True, slots=True)
class Output:
    """One result; `like` is the input whose shape and type it has."""

    name: str
    dtypes: DTypes = None
    dims: str | None = None
    variadic: bool = False
    like: str | None = None


def _unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter that is an argument: its declaration, whether it goes by position, and how its value is read."""

    spec: ArgSpec
    positional: bool
    read: Callable[[Any], Any] = field(default=_unchanged)


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """All that is read from a function; `order` names its positional parameters, inputs and arguments mixed."""

    function: Callable[..., Any]
    where: str
    doc: str
    inputs: tuple[Input, ...]
    arguments: tuple[Argument, ...]
    outputs: tuple[Output, ...]
    several: bool
    takes_out: bool
    order: tuple[str, ...]

    def with_outputs(self, outputs: Sequence[Output]) -> FunctionSignature:
        """Return the same with other outputs."""
        return replace(self, outputs=tuple(outputs))


def read_signature(function: Callable[..., Any], type: str, outputs: Sequence[str] | None) -> FunctionSignature:
    """Return what a function's signature says; `outputs` renames the results.

    Raises:
        SchemaError: an annotation is missing or cannot be understood, where it is needed.
    """
    where = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', repr(function))}"
    try:
        parameters = inspect.signature(function).parameters.values()
        hints = get_type_hints(function, include_extras=True)
    except (TypeError, ValueError, NameError, ImportError) as error:
        raise SchemaError(
            f"{type}: the signature of {where} cannot be read: {error}",
            hint="its annotations are evaluated: names in them must exist at run time, not for type checkers only",
        ) from error
    inputs: list[Input] = []
    arguments: list[Argument] = []
    takes_out = False
    for parameter in parameters:
        hint = hints.get(parameter.name)
        keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        found = None if keyword or hint is None else _input(parameter, hint)
        if found is not None:
            inputs.append(found)
        elif keyword and _takes_tensors(hint):
            takes_out = takes_out or parameter.name == "out"
            _need_default(type, where, parameter, "a tensor that is given by name is no input")
        else:
            arguments += _argument(type, where, parameter, hint)
    found_outputs, several = _outputs(type, where, hints.get("return"))
    if outputs is not None:
        if len(outputs) != len(found_outputs):
            raise SchemaError(f"{type}: {len(outputs)} names for {len(found_outputs)} results of {where}")
        found_outputs = [replace(one, name=name) for one, name in zip(found_outputs, outputs, strict=True)]
    known = {one.name for one in inputs} | {one.spec.name for one in arguments if one.positional}
    order = tuple(parameter.name for parameter in parameters if parameter.name in known)
    doc = inspect.getdoc(function)
    return FunctionSignature(
        function,
        where,
        f"The function {where}." if doc is None else doc,
        tuple(inputs),
        tuple(arguments),
        tuple(found_outputs),
        several,
        takes_out and not several,
        order,
    )


# -- types -------------------------------------------------------------------------------------------------------------


def _bare(hint: Any) -> Any:
    """Return a type without `Annotated`."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, else the type alone; None is not among them."""
    bare = _bare(hint)
    parts = get_args(bare) if get_origin(bare) in (Union, types.UnionType) else (bare,)
    return tuple(_bare(part) for part in parts if part is not types.NoneType)


def _is_array(part: Any) -> bool:
    return part is np.ndarray or get_origin(part) is np.ndarray


def _is_tensor(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Tensor)


def _takes_tensors(hint: Any) -> bool:
    return any(_is_tensor(part) or _is_array(part) for part in _members(hint))


def _is_collection(origin: Any) -> bool:
    """Whether a generic type is one that a list is given for."""
    return isinstance(origin, type) and (issubclass(origin, Sequence) or origin is Iterable)


def _element_of_sequence(hint: Any) -> Any:
    """Return what a sequence of tensors holds, None for anything else."""
    for part in _members(hint):
        origin, inner = get_origin(part), get_args(part)
        if _is_collection(origin) and inner:
            homogeneous = origin is not tuple or (len(inner) == 2 and inner[1] is Ellipsis)
            if homogeneous and _takes_tensors(inner[0]):
                return inner[0]
    return None


def _metadata(hint: Any) -> tuple[DTypes, str | None]:
    """Return element types and shape pattern that `Annotated` adds."""
    dtypes: DTypes = None
    dims: str | None = None
    whole = (hint, *get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for extra in (extra for part in whole if get_origin(part) is Annotated for extra in get_args(part)[1:]):
        if isinstance(extra, str):
            dims = extra
        elif isinstance(extra, DataType):
            dtypes = extra
        elif isinstance(extra, (set, frozenset, list, tuple)):
            dtypes = frozenset(cast("Sequence[DataType]", extra))
    return dtypes, dims


# -- parameters and results --------------------------------------------------------------------------------------------


def _input(parameter: inspect.Parameter, hint: Any) -> Input | None:
    """Return the input that a parameter is, or None if it takes no tensors."""
    starred = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    direct = _takes_tensors(hint)
    element = None if direct else _element_of_sequence(hint)
    if not direct and element is None:
        return None
    dtypes, dims = _metadata(hint if direct else element)
    arrays = not any(map(_is_tensor, _members(hint if direct else element)))
    optional = parameter.default is None or starred
    return Input(parameter.name, dtypes, dims, optional, arrays, sequence=not direct, starred=starred)


def _need_default(type: str, where: str, parameter: inspect.Parameter, why: str) -> None:
    if parameter.default is inspect.Parameter.empty:
        raise SchemaError(f"{type}: parameter {parameter.name!r} of {where} has no default, and {why}")


def _argument(type: str, where: str, parameter: inspect.Parameter, hint: Any) -> list[Argument]:
    """Return the argument that a parameter is; none where its type cannot be stored, so that it keeps its default.

    Raises:
        SchemaError: it cannot be stored and has no default.
    """
    stored, read = _stored(hint)
    variadic = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if stored is None or variadic:
        if not variadic:
            _need_default(type, where, parameter, f"{hint} is no type of an argument")
        return []
    default = REQUIRED if parameter.default is inspect.Parameter.empty else parameter.default
    if isinstance(default, DataType):
        default = default.label
    choices = next((get_args(part) for part in _members(hint) if get_origin(part) is Literal), None)
    spec = arg(parameter.name, stored, default, choices=choices, doc=f"of {where}")
    return [Argument(spec, parameter.kind is not inspect.Parameter.KEYWORD_ONLY, read)]


def _stored(hint: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return how an argument of a type is declared, and what makes the function's value of the stored one."""
    parts = _members(hint)
    if DataType in parts:
        return str, lambda label: None if label is None else DataType.of(label)
    kinds: list[Any] = []
    for part in parts:
        kinds += [kind for kind in _stored_part(part) if kind not in kinds]
    tuples = any(get_origin(part) is tuple for part in parts)
    if not kinds:
        return None, _unchanged
    joint = kinds[0]
    for kind in kinds[1:]:
        joint = joint | kind
    return joint, _as_tuple if tuples else _unchanged


def _as_tuple(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _stored_part(part: Any) -> tuple[Any, ...]:
    """Return the types of arguments that one member of a union may be stored as; a float may be given as an int."""
    origin, inner = get_origin(part), get_args(part)
    if origin is Literal:
        return (str,) if all(isinstance(choice, str) for choice in inner) else ()
    if part is float:
        return float, int
    if _is_collection(origin) and inner:
        element = int if inner[0] is SupportsIndex else inner[0]
        return (list[float], list[int]) if element is float else (list[element],) if list[element] in FIELDS else ()
    if part is SupportsIndex:
        return (int,)
    return (part,) if isinstance(part, type) and part in FIELDS else ()


def _outputs(type: str, where: str, hint: Any) -> tuple[list[Output], bool]:
    """Return the outputs, and whether the function returns several in a tuple or list.

    Raises:
        SchemaError: the annotation names no tensors.
    """
    bare = _bare(hint)
    if hint is not None and _takes_tensors(hint):
        return [Output("Y", *_metadata(hint))], False
    element = None if hint is None else _element_of_sequence(hint)
    if element is not None:
        return [Output("Y", *_metadata(element), variadic=True)], True
    fields = getattr(bare, "_fields", None)
    parts = get_args(bare) if get_origin(bare) is tuple else ()
    if fields is not None:
        named = get_type_hints(bare, include_extras=True)
        parts = tuple(named[name] for name in fields)
    if parts and all(map(_takes_tensors, parts)):
        names = [f"Y{i}" for i in range(len(parts))] if fields is None else list(fields)
        return [Output(name, *_metadata(part)) for name, part in zip(names, parts, strict=True)], True
    raise SchemaError(
        f"{type}: the return annotation of {where} is {hint}", hint="annotate it: -> Tensor, or a tuple of tensors"
    )
