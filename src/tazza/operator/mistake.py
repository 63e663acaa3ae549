"""What may be wrong with a declaration: named by operator, and letter or argument.

Checks that need the letters of a schema alone are in `declared.py`. These are of its patterns, types and arguments, and
of the functions that are declared for it: rules and kernels, whose parameters are its letters.
"""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast, get_args

from tazza.errors import ArgumentError, SchemaError
from tazza.operator.argument import BUILDER_ARGUMENTS, ArgSpec, check_range, takes_value
from tazza.operator.declaring import declaring
from tazza.operator.letter import BlobSpec
from tazza.runtime.near_names import did_you_mean
from tazza.tensor import DataType

if TYPE_CHECKING:
    from tazza.operator.schema import OpSchema

_TOKEN = re.compile(r"\*?[A-Za-z_]\w*|\d+")
_COUNT = re.compile(r"#[A-Za-z_]\w*")


def check_blob(type: str, spec: BlobSpec) -> None:
    """Check what a letter is called, which element types it has, and its pattern.

    Raises:
        SchemaError: one of them is none.
    """
    if not spec.name.isidentifier():
        raise SchemaError(f"{type}: the letter {spec.name!r} is no name", hint="letters are names, such as X or dY")
    dtypes: Any = spec.dtypes
    if not _are_dtypes(dtypes):
        raise SchemaError(
            f"{type}: element types of {spec.name} are {dtypes!r}",
            hint="a DataType, a frozenset of these, the letter that has the same, or None for any",
        )
    if not _are_dtypes(spec.elsewhere) or (spec.elsewhere and spec.taken_on(host=True) is None):
        raise SchemaError(
            f"{type}: {spec.name} takes {spec.elsewhere!r} on devices, beside {dtypes!r}",
            hint="element types beside those that it has by itself: HALVES; what follows a letter follows it there",
        )
    if spec.dims is not None:
        _check_pattern(type, spec.name, spec.dims)


def _are_dtypes(dtypes: Any) -> bool:
    if isinstance(dtypes, frozenset):
        return all(isinstance(one, DataType) for one in cast("frozenset[Any]", dtypes))
    return dtypes is None or isinstance(dtypes, DataType | str)


def _check_pattern(type: str, letter: str, pattern: str) -> None:
    tokens = pattern.split()
    wrong = [token for token in tokens if _TOKEN.fullmatch(token) is None]
    if wrong and not (len(tokens) == 1 and _COUNT.fullmatch(pattern) is not None):
        raise SchemaError(
            f"{type}: the pattern {pattern!r} of {letter} has {wrong[0]!r}, which is no dimension",
            hint="a letter is a dimension, *S any number of them, 3 itself; #S stands alone",
        )
    runs = [token for token in tokens if token.startswith("*")]
    if len(runs) > 1:
        raise SchemaError(
            f"{type}: the pattern {pattern!r} of {letter} has {len(runs)} runs, {' and '.join(runs)}",
            hint="one run at most can be told from the dimensions around it",
        )


def check_dimensions(schema: OpSchema) -> None:
    """Check that shapes of outputs follow: from a rule, from data, or from dimensions that inputs have.

    Raises:
        SchemaError: an output has a dimension that no input has.
    """
    if schema.infers:
        return
    allowed = {
        token.lstrip("*#") for spec in schema.inputs for token in ("" if spec.dims is None else spec.dims).split()
    }
    for spec in schema.outputs:
        tokens = [] if spec.dims is None or spec.dynamic else spec.dims.split()
        strange = [token for token in tokens if not token.isdigit() and token.lstrip("*#") not in allowed]
        if strange:
            raise SchemaError(
                f"{schema.type}: dimension {strange[0]!r} of output {spec.name} is that of no input",
                hint=_or(did_you_mean(strange[0].lstrip("*#"), allowed), "add @infer, or give an input that dimension"),
            )


def arguments_by_name(type: str, args: Sequence[ArgSpec]) -> dict[str, ArgSpec]:
    """Return arguments by their names, once names, ranges and defaults were checked.

    Raises:
        SchemaError: two have one name, a range is empty, or a default is not what the argument takes.
    """
    names = [spec.name for spec in args]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"{type}: two arguments are called {twice!r}", hint="give each a name of its own")
    for spec in args:
        if spec.minimum is not None and spec.maximum is not None and not spec.minimum <= spec.maximum:
            raise SchemaError(
                f"{type}: argument {spec.name!r} is >= {spec.minimum} and <= {spec.maximum}: nothing is both"
            )
        if not (spec.required or spec.default is None):
            _check_default(type, spec)
    return {spec.name: spec for spec in args}


def _check_default(type: str, spec: ArgSpec) -> None:
    if not takes_value(spec, spec.default):
        raise SchemaError(
            f"{type}: the default {spec.default!r} of argument {spec.name!r} is not of its type, {_named(spec.type)}",
            hint="without a default it must be given, with None it may be left out",
        )
    try:
        check_range(spec, spec.default)
    except ArgumentError as error:
        raise SchemaError(f"{type}: the default is out of range: {error.message}") from None


def check_parameters(schema: OpSchema, function: Callable[..., Any], noun: str, letters: Iterable[str]) -> None:
    """Check that a rule can be called with an operator and, by name, with the blobs of these letters.

    Raises:
        SchemaError: it cannot.
    """
    allowed = list(letters)
    code = getattr(function, "__code__", None)
    if code is not None and code.co_argcount and not code.co_posonlyargcount:
        first, *others = parameter_names(function)
        if set(others) == set(allowed) and first not in allowed:
            return
    try:
        inspect.signature(function).bind(None, **dict.fromkeys(allowed))
    except TypeError as error:
        with declaring():
            raise SchemaError(
                f"{noun} of {schema.type} cannot be called with (op, {', '.join(allowed)}): {error}",
                hint="its parameters are the operator, then letters of the schema",
            ) from None


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of all parameters; of a plain function in a fiftieth of the time that `inspect` takes.

    >>> parameter_names(lambda op, X, *, axis=0: X)
    ('op', 'X', 'axis')
    """
    if isinstance(function, FunctionType) and not vars(function):
        code = function.__code__
        if not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return tuple(inspect.signature(function).parameters)


def strange_letters(what: str, strange: Sequence[str], allowed: Collection[str]) -> SchemaError:
    """Return the error for names that are no letters, with those that they may stand for."""
    proposed = did_you_mean(strange[0], allowed)
    return SchemaError(f"{what}: {', '.join(strange)}", hint=_or(proposed, f"known: {', '.join(sorted(allowed))}"))


def reported_arguments(type: str, names: Sequence[str], allowed: Collection[str]) -> list[str]:
    """Return what people should hear of arguments without effect; the format's own ones say nothing.

    >>> reported_arguments("MaxPool", ["order", "stride_w", "stride_x"], ["stride_w", "stride_h"])
    ['MaxPool.stride_w', 'MaxPool.stride_x (unknown)']
    """
    told = [name for name in names if name not in BUILDER_ARGUMENTS]
    return [f"{type}.{name}{'' if name in allowed else ' (unknown)'}" for name in told]


def arguments_without_effect(type: str, names: Sequence[str], allowed: Collection[str]) -> ArgumentError:
    """Return the error for arguments that an operator has not, or that mean nothing beside the others of this one."""
    unknown = [name for name in names if name not in allowed]
    if not unknown:
        hint = "leave it out, or give all that it counts together with"
        return ArgumentError(f"{type}: without effect here: {', '.join(map(repr, names))}", hint=hint)
    listed = f"its arguments: {', '.join(sorted(allowed)) if allowed else 'none'}"
    near = did_you_mean(unknown[0], allowed)
    return ArgumentError(
        f"{type} has no argument {', '.join(map(repr, unknown))}", hint=listed if near is None else f"{near} {listed}"
    )


def _named(type: Any) -> str:
    return type.__name__ if isinstance(type, builtins.type) and not get_args(type) else str(type)


def _or(hint: str | None, other: str) -> str:
    return other if hint is None else f"{hint} {other}"
