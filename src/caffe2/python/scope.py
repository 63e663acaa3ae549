"""Scopes of names and devices, as old scripts enter them; the scopes themselves are tazza's."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tazza.device import device_scope, scoped_device
from tazza.models.scope import SEPARATOR, current_scope, name_scope
from tazza.proto import DeviceOption

_NAMESCOPE_SEPARATOR = SEPARATOR


def CurrentNameScope() -> str:
    """Return the prefix of the innermost scope, with its separator."""
    return current_scope()


def CurrentDeviceScope() -> DeviceOption | None:
    """Return the option in force, or None."""
    return scoped_device()


@contextmanager
def NameScope(prefix: str | None, reset: bool = False) -> Generator[None, None, None]:
    """Put `prefix/` in front of names given inside; None or an empty text puts nothing there."""
    assert prefix is None or isinstance(prefix, str), "NameScope takes in a string as its argument."
    with name_scope(prefix or "", reset=reset):
        yield


@contextmanager
def DeviceScope(scope: DeviceOption | None, node_name: str | None = None) -> Generator[None, None, None]:
    """Give operators made inside this option; without one, that of a node."""
    option = DeviceOption()
    if scope is not None:
        option.CopyFrom(scope)
    if node_name:
        option.node_name = node_name
    with device_scope(option):
        yield


@contextmanager
def EmptyNameScope() -> Generator[None, None, None]:
    """Leave all scopes of names inside."""
    with name_scope("", reset=True):
        yield


@contextmanager
def EmptyDeviceScope() -> Generator[None, None, None]:
    """Leave all scopes of devices inside."""
    with device_scope(None):
        yield
