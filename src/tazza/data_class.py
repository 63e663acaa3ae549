"""Data classes as the standard library has them, whose methods are made when they are first used.

    @dataclass(frozen=True, slots=True)
    class Window:
        kernel: int
        stride: int = 1

The standard decorator writes and compiles up to nine functions for every class, half a millisecond in all. A process
that predicts once declares some three hundred classes and makes objects of half of them; it spent a tenth of its start
so. Here classes share functions that read fields through `operator.attrgetter`, and `__init__` alone is compiled, at
the first object. What the decorator means is the library's: type checkers are told that it is the library's, and
`dataclasses.replace`, `fields`, `asdict` and patterns work on its classes.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import reprlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

__all__ = ["is_frozen", "lazy_dataclass"]

Method = Callable[..., Any]
MISSING, MADE, FROZEN = dataclasses.MISSING, "__made_when_used__", "__refuses_changes__"


class _Factory:
    """The default of a field that a function makes, as signatures show it."""

    def __repr__(self) -> str:
        return "<factory>"


FACTORY = _Factory()


def lazy_dataclass(
    cls: type | None = None,
    /,
    *,
    eq: bool = True,
    order: bool = False,
    frozen: bool = False,
    **others: bool,
) -> Any:
    """Return the class with the methods of a data class, or a decorator that does so, as `dataclasses.dataclass`.

    >>> @lazy_dataclass(frozen=True, slots=True)
    ... class Window:
    ...     kernel: int
    ...     stride: int = 1
    >>> Window(3), Window(3) == Window(3, 1), hash(Window(3)) == hash(Window(3, 2))
    (Window(kernel=3, stride=1), True, False)
    >>> Window(3).kernel = 5
    Traceback (most recent call last):
    dataclasses.FrozenInstanceError: cannot assign to field 'kernel'
    """
    slotted = others.get("slots", False)

    def decorate(cls: type) -> type:
        own = frozenset(vars(cls))
        if cls.__doc__ is None:
            cls.__doc__ = cls.__name__  # or the library asks for a signature, which nobody reads
        declared = cast(
            "Callable[[type], Any]",
            dataclasses.dataclass(init=False, repr=False, eq=False, **others),
        )
        made = declared(cls)
        _renew(cls, made)
        fields = dataclasses.fields(made)
        methods = {"__init__": _lazy_init(made, frozen=frozen, slotted=slotted), "__repr__": _repr(fields)}
        if eq:
            methods |= _comparisons(fields, order=order)
            if frozen:
                methods["__hash__"] = _hash(fields)
        if frozen:
            methods |= _frozen(made, fields, slotted=slotted)
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        if eq and not frozen and "__hash__" not in own:
            made.__hash__ = None
        made.__signature__ = _Signature()
        setattr(made, FROZEN, frozen)
        return made

    return decorate if cls is None else decorate(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = lazy_dataclass


def is_frozen(cls: type) -> bool:
    """Return whether objects of a data class, of this module or of the library, refuse to be changed."""
    said = vars(cls).get(FROZEN)
    return bool(cast("Any", cls).__dataclass_params__.frozen if said is None else said)


Fields = tuple[dataclasses.Field[Any], ...]


def _renew(former: type, made: type) -> None:
    """Let `super()` in methods mean the class that has taken the place of another, as one with slots does."""
    for member in vars(made).values():
        function = getattr(member, "__func__", getattr(member, "fget", member))
        if inspect.isfunction(function) and function.__closure__ is not None:
            for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
                if name == "__class__" and cell.cell_contents is former:
                    cell.cell_contents = made


def _values_of(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return a function that returns an object's attributes of these names."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    if not names:
        return lambda _: ()
    get = operator.attrgetter(names[0])
    return lambda value: (get(value),)


def _repr(fields: Fields) -> Method:
    names = [field.name for field in fields if field.repr]

    @reprlib.recursive_repr()
    def __repr__(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _comparisons(fields: Fields, *, order: bool) -> dict[str, Method]:
    """Return `__eq__`, and with `order` what sorts: objects of one class compare as tuples of their fields."""
    values = _values_of([field.name for field in fields if field.compare])

    def comparing(compare: Callable[[Any, Any], bool]) -> Method:
        def method(self: object, other: object) -> bool:
            return compare(values(self), values(other)) if other.__class__ is self.__class__ else NotImplemented

        return method

    names = ("eq", "lt", "le", "gt", "ge") if order else ("eq",)
    return {f"__{name}__": comparing(getattr(operator, name)) for name in names}


def _hash(fields: Fields) -> Method:
    names = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    values = _values_of(names)

    def __hash__(self: object) -> int:
        return hash(values(self))

    return __hash__


def _frozen(cls: type, fields: Fields, *, slotted: bool) -> dict[str, Method]:
    """Return methods that refuse to change an object, and with `slotted` those that copy one in spite of that."""
    names = tuple(field.name for field in fields)

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    def __getstate__(self: object) -> list[Any]:
        return [getattr(self, name) for name in names]

    def __setstate__(self: object, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    refusing: dict[str, Method] = {"__setattr__": __setattr__, "__delattr__": __delattr__}
    return refusing | ({"__getstate__": __getstate__, "__setstate__": __setstate__} if slotted else {})


def _lazy_init(cls: type, *, frozen: bool, slotted: bool) -> Method:
    """Return an `__init__` that puts the one of this class's fields in its own place, and calls it."""

    def make() -> Method:
        made = _init(cls, frozen=frozen, slotted=slotted)
        type.__setattr__(cls, "__init__", made)
        return made

    def __init__(self: object, *args: Any, **kwargs: Any) -> None:
        make()(self, *args, **kwargs)

    setattr(__init__, MADE, make)
    return __init__


def _init(cls: type, *, frozen: bool, slotted: bool) -> Method:
    """Compile an `__init__` that takes the fields and stores them."""
    fields = dataclasses.fields(cls)
    given = [field for field in fields if field.init]
    inputs = [_parameter(field) for field in given if not field.kw_only]
    keywords = [_parameter(field) for field in given if field.kw_only]
    lines = [*_stores(fields, frozen=frozen, slotted=slotted)]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    text = f"def __init__({', '.join(['self', *inputs, *(['*'] if keywords else []), *keywords])}):"
    names: dict[str, Any] = {"_set": object.__setattr__, "_factory": FACTORY}
    names |= {f"_default_{field.name}": field.default for field in fields}
    names |= {f"_factory_{field.name}": field.default_factory for field in fields}
    exec("\n    ".join([text, *(lines or ["pass"])]), names)
    made: Method = names["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {field.name: field.type for field in given} | {"return": None}
    return made


def _parameter(field: dataclasses.Field[Any]) -> str:
    if field.default is not MISSING:
        return f"{field.name}=_default_{field.name}"
    return field.name if field.default_factory is MISSING else f"{field.name}=_factory"


def _stores(fields: Fields, *, frozen: bool, slotted: bool) -> Iterator[str]:
    """Yield a line for each field that an `__init__` stores."""
    for field in fields:
        name = field.name
        if field.default_factory is not MISSING:
            value = f"_factory_{name}()"
            if field.init:
                value += f" if {name} is _factory else {name}"
        elif field.init:
            value = name
        elif slotted and field.default is not MISSING:  # no attribute of the class can hold it
            value = f"_default_{name}"
        else:
            continue
        yield f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}"


class _Signature:
    """What `inspect.signature` says of a class: the parameters of its `__init__`, which is made for it."""

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        init = owner.__init__
        make: Callable[[], Method] | None = getattr(init, MADE, None)
        found = inspect.signature(init if make is None else make())
        return found.replace(parameters=list(found.parameters.values())[1:])
