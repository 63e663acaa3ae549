"""Who holds what: classes of the package, their fields and annotations, and what these lead to.

`reachable` starts at some classes and follows annotations, inside of the modules that a picture names. Of a class that
is no dataclass, the fields are what `__init__` assigns to `self`, with the annotation of what is assigned.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tazza.proto
from tazza.proto import Argument, DeviceOption, OperatorDef

MESSAGES = (Argument, DeviceOption, OperatorDef)
"""Those of the stored format that are shown: what an OperatorDef is made of."""
LONGEST = 58
"""Characters of a row; what is longer is cut."""


@dataclass(frozen=True, slots=True)
class Held:
    """A field, with the text of its annotation; of a protocol, a member."""

    name: str
    annotation: str

    @property
    def text(self) -> str:
        """The row of a box."""
        text = f"{self.name}: {self.annotation}" if self.annotation else self.name
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


@dataclass(frozen=True, slots=True)
class ClassPicture:
    """Which classes are shown: the roots, and what they lead to inside of the modules."""

    title: str
    modules: tuple[str, ...]
    roots: tuple[str, ...]


def held_by(cls: Any) -> list[Held]:
    """Return what the instances of a class hold.

    >>> held_by(Held)
    [Held(name='name', annotation='str'), Held(name='annotation', annotation='str')]
    """
    descriptor: Any = getattr(cls, "DESCRIPTOR", None)
    if descriptor is not None:
        return [Held(one.name, one.message_type.name if one.message_type else "") for one in descriptor.fields]
    if hasattr(cls, "__members__"):  # an enumeration
        return [Held(name, str(one.value)) for name, one in cls.__members__.items()]
    found = list(_fields(cls) if hasattr(cls, "__dataclass_fields__") else _assigned(cls))
    return found if found else list(_members(cls))


def _fields(cls: Any) -> Iterator[Held]:
    yield from (Held(one.name, str(one.type).strip("\"'")) for one in dataclasses.fields(cls))


def _members(cls: type) -> Iterator[Held]:
    """Yield properties and methods: of a protocol, and of a base that holds nothing."""
    for name, member in vars(cls).items():
        function = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and inspect.isfunction(function):
            returned = str(function.__annotations__.get("return", ""))
            yield Held(name if isinstance(member, property) else f"{name}()", returned)


def _assigned(cls: type) -> Iterator[Held]:
    """Yield what `__init__` and `_create` put into `self`, in the order of the source."""
    names = vars(sys.modules[cls.__module__])
    fields: dict[str, str] = {}
    for function in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls)))):
        if not isinstance(function, ast.FunctionDef) or function.name not in ("__init__", "_create"):
            continue
        parameters = {one.arg: one.annotation for one in (*function.args.args, *function.args.kwonlyargs)}
        for node in ast.walk(function):
            target = node.target if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [None])[0]
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self" and target.attr not in fields:
                fields[target.attr] = _annotation(node, parameters, names, fields)
    declared = inspect.get_annotations(cls)
    yield from (Held(name, fields[name] if fields[name] else str(declared.get(name, ""))) for name in fields)


def _annotation(
    node: ast.AST, parameters: Mapping[str, ast.expr | None], names: Mapping[str, Any], fields: Mapping[str, str]
) -> str:
    """Return the annotation of an assignment, of the parameter that is assigned, or of what the called one returns."""
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node.annotation)
    value = getattr(node, "value", None)
    if isinstance(value, ast.Name):
        annotation = parameters.get(value.id)
        return "" if annotation is None else ast.unparse(annotation)
    called = value.func if isinstance(value, ast.Call) else None
    found: Any = names.get(called.id) if isinstance(called, ast.Name) else None
    if isinstance(called, ast.Attribute):  # self.<field>.<method>(...)
        owner = fields.get(ast.unparse(called.value).removeprefix("self."), "")
        found = getattr(_class_named(owner), called.attr, None)
    if found is None and isinstance(value, ast.Call) and value.args:  # tuple(<parameter>)
        annotation = parameters.get(ast.unparse(value.args[0]))
        return "" if annotation is None else ast.unparse(annotation)
    return found.__name__ if inspect.isclass(found) else str(getattr(found, "__annotations__", {}).get("return", ""))


def _class_named(name: str) -> type | None:
    """Return the class of the package that has a name, of those that are loaded."""
    modules = [module for key, module in sorted(sys.modules.items()) if key.startswith("tazza.operator")]
    return next((found for module in modules if inspect.isclass(found := vars(module).get(name))), None)


def reachable(picture: ClassPicture) -> dict[str, tuple[type, int]]:
    """Return the classes of a picture by name, each with its distance from the roots."""
    known: dict[str, type] = {}
    for module in map(importlib.import_module, picture.modules):
        for name, value in vars(module).items():
            if inspect.isclass(value) and (
                value.__module__ == module.__name__ or (module is tazza.proto and value in MESSAGES)
            ):
                known[name] = value
    found: dict[str, tuple[type, int]] = {}
    now, distance = list(picture.roots), 0
    while now:
        found |= {name: (known[name], distance) for name in now}
        words = [word for name in now for one in held_by(known[name]) for word in _words(known[name], one)]
        bases = [base.__name__ for name in now for base in known[name].__bases__]
        now = [name for name in dict.fromkeys((*words, *bases)) if name in known and name not in found]
        distance += 1
    return found


def _words(cls: type, one: Held) -> list[str]:
    """Return the names in an annotation, and those in the aliases that it uses."""
    words = re.findall(r"\w+", one.annotation)
    named = [vars(sys.modules[cls.__module__]).get(word) for word in words]
    aliases = [str(value) for value in named if value is not None and not inspect.isclass(value)]
    return [*words, *(word for alias in aliases for word in re.findall(r"\w+", alias))]


@dataclass(frozen=True, slots=True)
class Edge:
    """From a row of a box (None: from the whole box, which *is* a target) to another box."""

    source: str
    row: str | None
    target: str


def class_edges(classes: Mapping[str, tuple[type, int]]) -> list[Edge]:
    """Return who holds whom, and who is what: by inheritance, or by having all members of a protocol."""
    edges: list[Edge] = []
    for name, (cls, _) in classes.items():
        for one in held_by(cls):
            edges += [Edge(name, one.name, word) for word in dict.fromkeys(_words(cls, one)) if word in classes]
        for other, (kind, _) in classes.items():
            members = {one.name.removesuffix("()") for one in _members(kind)}
            fits = getattr(kind, "_is_protocol", False) and members <= set(dir(cls))
            if other != name and (kind in cls.__mro__ or fits):
                edges.append(Edge(name, None, other))
    return edges
