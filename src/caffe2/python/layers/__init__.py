"""Layers over records: those in this folder are registered under the names of their classes."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from caffe2.python.layers.layers import ModelLayer, layer_exists, register_layer

for _found in iter_modules(__path__):
    _module = import_module(f"{__name__}.{_found.name}")
    for _name, _member in list(vars(_module).items()):
        _is_layer = (
            isinstance(_member, type) and issubclass(_member, ModelLayer) and _member.__module__ == _module.__name__
        )
        if _is_layer and _member is not ModelLayer and not layer_exists(_name):
            register_layer(_name, _member)
