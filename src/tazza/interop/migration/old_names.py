"""Which of the old names are there: asked of the package that has them, which is imported when somebody asks.

What can be imported and fails when it is called says so by an attribute, `__refusal__`, of the module, class or
function: the reason as a text. Operators are asked of their schemas.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import sys
from collections.abc import Iterable

from tazza.data_class import dataclass
from tazza.errors import UnavailableError
from tazza.operator import SCHEMAS
from tazza.runtime.cache import remembered
from tazza.runtime.files import one_line

REFUSAL = "__refusal__"
"""Attribute of what is there by name only: the reason."""


LAYERS, LAYER_MODELS = "caffe2.python.layers", "caffe2.python.layer_model_helper"
REGISTRY = f"{LAYERS}.layers"
HOLDERS = ("caffe2.python.core.Net", "caffe2.python.model_helper.ModelHelper")
"""Classes whose objects add operators by their names."""
OWNERS_KEPT = 4096
"""Methods whose class is remembered; a large program calls some hundred."""


class State(enum.Enum):
    """How much of a name is there."""

    THERE = "there"
    REFUSES = "refuses"
    """It can be imported, or stand in a net, and says why it does not work."""
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a name; the reason is empty where it is there."""

    state: State
    reason: str = ""


THERE = Found(State.THERE)


def look_up(path: str) -> Found:
    """Return whether a path of the old package is there.

    >>> look_up("caffe2.python.core.Net").state, look_up("caffe2.python.core.Nett").reason
    (<State.THERE: 'there'>, 'caffe2.python.core has no Nett')

    Raises:
        UnavailableError: nothing of that package can be imported.
    """
    at, *rest = path.split(".")
    value = _root(at)
    for name in rest:
        found = _refused(value)
        if found is None:
            value, found = _member(value, at, name)
        if found is not None:
            return found
        at = f"{at}.{name}"
    found = _refused(value)
    return THERE if found is None else found


def _root(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnavailableError(f"the old names are not installed: {one_line(error)}") from error


def _refused(value: object) -> Found | None:
    try:
        reason = getattr(value, REFUSAL, None)
    except Exception:  # of an object with attributes of its own making
        return None
    return Found(State.REFUSES, reason) if isinstance(reason, str) else None


def _member(value: object, at: str, name: str) -> tuple[object, Found | None]:
    """Return what a module, class or object has under a name, or why nothing."""
    try:
        return getattr(value, name), None
    except AttributeError:
        if at not in sys.modules:
            return None, Found(State.ABSENT, f"{at} has no {name}") if inspect.isclass(value) else THERE
    inner = f"{at}.{name}"
    try:
        return importlib.import_module(inner), None
    except ModuleNotFoundError as error:
        if error.name == inner:
            return None, Found(State.ABSENT, f"{at} has no {name}")
        return None, Found(State.REFUSES, one_line(error))
    except Exception as error:  # an old module that is made for another library may fail by anything
        return None, Found(State.REFUSES, one_line(error))


def is_module(path: str) -> bool:
    """Whether a path is a module that is there.

    >>> is_module("caffe2.python.core"), is_module("caffe2.python.core.Net")
    (True, False)
    """
    return look_up(path) == THERE and path in sys.modules


def public_names(module: str) -> frozenset[str]:
    """Return the names that `from module import *` brings."""
    if not is_module(module):
        return frozenset()
    found = importlib.import_module(module)
    listed = getattr(found, "__all__", None)
    return frozenset(name for name in dir(found) if not name.startswith("_")) if listed is None else frozenset(listed)


@remembered("owners of old methods", OWNERS_KEPT)
def owner_of(method: str, modules: tuple[str, ...]) -> str | None:
    """Return the path of a method by its name: of the first class of some modules that has it.

    >>> owner_of("AddGradientOperators", ("caffe2.python.core",))
    'caffe2.python.core.Net.AddGradientOperators'
    """
    for module in modules:
        for name, cls in _classes(module):
            if inspect.getattr_static(cls, method, None) is not None:
                return f"{module}.{name}.{method}"
    return None


def _classes(module: str) -> tuple[tuple[str, type], ...]:
    """Return the classes of the old package that a module has, in its order; of what is no module there are none."""
    if not is_module(module):
        return ()
    found = sys.modules[module]
    inner: object = vars(found).get("wrapped", found)
    return tuple(
        (name, value)
        for name, value in vars(inner).items()
        if inspect.isclass(value) and value.__module__.partition(".")[0] == module.partition(".")[0]
        if _refused(value) is None and not name.startswith("_")
    )


def adds_operators(path: str) -> bool:
    """Whether a path is a class whose objects add operators by their names: a net, a model, or one made of them.

    >>> adds_operators("caffe2.python.cnn.CNNModelHelper"), adds_operators("caffe2.python.core.Plan")
    (True, False)
    """
    value, holders = _value(path), tuple(cls for cls in map(_value, HOLDERS) if inspect.isclass(cls))
    return inspect.isclass(value) and issubclass(value, holders)


def has_member(path: str, name: str) -> bool:
    """Whether a class has a method or an attribute of its own, whatever it makes of other names."""
    return inspect.getattr_static(_value(path), name, None) is not None


def _value(path: str) -> object:
    """Return what a path leads to, or None where it leads to nothing."""
    module, _, name = path.rpartition(".")
    return getattr(sys.modules[module], name, None) if is_module(module) else None


def layer_of(name: str, modules: Iterable[str]) -> str | None:
    """Return the path of a layer that models of layers add by its name, if one of some modules is about them.

    >>> layer_of("SparseLookup", ["caffe2.python.layer_model_helper"])
    'caffe2.python.layers.sparse_lookup.SparseLookup'
    """
    if not any(module.startswith(f"{LAYERS}.") or module == LAYER_MODELS for module in modules):
        return None
    if not is_module(LAYER_MODELS) or not is_module(REGISTRY):
        return None
    registry = importlib.import_module(REGISTRY)
    if not registry.layer_exists(name):
        return None
    found: type = registry.get_layer_class(name)
    return f"{found.__module__}.{found.__qualname__}"


def is_operator(type: str) -> bool:
    """Whether somebody declares an operator type."""
    return SCHEMAS.get(type) is not None


def look_up_operator(type: str) -> Found:
    """Return whether an operator type is there.

    >>> look_up_operator("Relu").state, look_up_operator("Reluu").reason
    (<State.THERE: 'there'>, 'nobody declares it; did you mean Relu or ReluN or PRelu?')
    """
    schema = SCHEMAS.get(type)
    if schema is None:
        return Found(State.ABSENT, f"nobody declares it; {SCHEMAS.near(type)}")
    return THERE if schema.foreign is None else Found(State.REFUSES, schema.foreign)
