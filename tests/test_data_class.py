"""Data classes beside those of the standard library: whatever one can ask of them has the same answer."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import KW_ONLY, field
from typing import Any, ClassVar

import pytest

from tazza.data_class import dataclass, is_frozen, lazy_dataclass

Decorator = Callable[..., Any]
FORMS: list[dict[str, bool]] = [
    {"frozen": frozen, "slots": slots, "eq": eq, "order": order, "kw_only": kw_only}
    for frozen in (False, True)
    for slots in (False, True)
    for eq, order in ((True, False), (True, True), (False, False))
    for kw_only in (False, True)
]


def _name(form: dict[str, bool]) -> str:
    return "-".join(word for word, is_so in form.items() if is_so)


def declared(dataclass: Decorator, form: dict[str, bool]) -> type[Any]:
    """Return a class with a field of every kind, derived from one with two."""

    @dataclass(**form)
    class Base:
        a: int
        b: tuple[int, ...] = ()

    @dataclass(**form)
    class Kinds(Base):
        """A field of every kind."""

        kind: ClassVar[str] = "kinds"
        c: list[int] = field(default_factory=list[int])
        d: str = field(default="d", repr=False)
        e: float = field(default=0.5, compare=False)
        f: int = field(default=7, init=False)
        _: KW_ONLY
        g: int = 3

        def __post_init__(self) -> None:
            object.__setattr__(self, "f", self.a + 1)

    return Kinds


def outcome(call: Callable[[], object]) -> str:
    """Return the text of a result, or of what was raised."""
    try:
        return repr(call())
    except Exception as error:  # whatever it is: both have to raise the same
        return f"{type(error).__name__}: {error}"


def answers(cls: type[Any], form: dict[str, bool]) -> dict[str, str]:
    """Ask a class everything."""
    one, same, other = cls(a=1, b=(2,)), cls(a=1, b=(2,), e=9.5), cls(a=1, b=(3,), g=5)
    asked: dict[str, Callable[[], object]] = {
        "repr": lambda: one,
        "by position": lambda: cls(1, (2,), [3]),
        "too few": lambda: cls(b=()),
        "too many": lambda: cls(a=1, zz=2),
        "own lists": lambda: cls(a=1).c is not cls(a=1).c,
        "equal": lambda: (one == same, one != same, one == other, one == 1),
        "less": lambda: (one < other, one <= same, other > one, other >= one),
        "less than another type": lambda: one < 1,
        "hash": lambda: (hash(one) == hash(same), hash(one) == hash(other)),
        "set": lambda: setattr(one, "a", 5),
        "set another": lambda: setattr(one, "zz", 5),
        "delete": lambda: delattr(one, "b"),
        "replace": lambda: dataclasses.replace(same, b=(4,)),
        "replace what is no input": lambda: dataclasses.replace(same, f=4),
        "fields": lambda: [(f.name, f.init, f.repr, f.compare, f.kw_only) for f in dataclasses.fields(cls)],
        "asdict": lambda: dataclasses.asdict(other),
        "astuple": lambda: dataclasses.astuple(other),
        "is one": lambda: dataclasses.is_dataclass(cls),
        "copy": lambda: (copy.copy(other), copy.deepcopy(other)),
        "signature": lambda: inspect.signature(cls),
        "match": lambda: cls.__match_args__,
        "slots": lambda: (hasattr(other, "__dict__"), getattr(cls, "__slots__", None)),
        "doc": lambda: cls.__doc__,
        "frozen": lambda: is_frozen(cls),
    }
    if form["frozen"] and form["slots"]:
        del asked["set another"]  # the library fails at its own `super()` there, before Python 3.14
    return {name: outcome(call) for name, call in asked.items()}


@pytest.mark.parametrize("form", FORMS, ids=_name)
def test_every_answer_is_that_of_the_library(form: dict[str, bool]) -> None:
    assert answers(declared(lazy_dataclass, form), form) == answers(declared(dataclasses.dataclass, form), form)


@lazy_dataclass(frozen=True, slots=True)
class Pair:
    """At the top of a module, where `pickle` finds it."""

    left: int
    right: object = None


def test_objects_are_sent_to_other_processes() -> None:
    pair = Pair(1, Pair(2))  # type: ignore[call-arg] -- a checker sees what `dataclass` is, not this function
    assert pickle.loads(pickle.dumps(pair)) == pair


def test_objects_that_hold_themselves_are_shown() -> None:
    @lazy_dataclass
    class Ring:
        next: object = None

    ring: Any = Ring()
    ring.next = ring
    assert repr(ring).endswith("Ring(next=...)")


def test_methods_of_the_class_stay() -> None:
    @lazy_dataclass(frozen=True)
    class Own:
        a: int = 0

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    assert (repr(Own()), Own() == 3, hash(Own())) == ("mine", True, 5)


def test_a_method_finds_the_one_of_its_base() -> None:
    @dataclass(frozen=True, slots=True)
    class Base:
        a: int = 0

        def told(self) -> str:
            return "base"

    @dataclass(frozen=True, slots=True)
    class Derived(Base):
        b: int = 0

        def told(self) -> str:
            return f"derived from {super().told()}"

        @property
        def asked(self) -> str:
            return super().told()

        @classmethod
        def made(cls) -> Base:
            return super().__new__(cls)

    assert (Derived().told(), Derived().asked, type(Derived.made())) == ("derived from base", "base", Derived)


def test_init_is_compiled_once_at_the_first_object() -> None:
    @lazy_dataclass
    class Late:
        a: int = 0

    before = Late.__init__
    Late()
    made = Late.__init__
    Late(1)
    assert before is not made
    assert Late.__init__ is made
