"""Models in files: init and predict nets, predictor files, and what runs them.

The names below are imported when they are first used: running a net needs nothing of what builds and stores one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tazza.interop.export import export_nets, needed_operators, parameter_fill, save_nets
    from tazza.interop.predictor import Predictor, load
    from tazza.interop.predictor_file import PredictorFile, save_predictor

__all__ = [
    "Predictor",
    "PredictorFile",
    "export_nets",
    "load",
    "needed_operators",
    "parameter_fill",
    "save_nets",
    "save_predictor",
]

_HOMES = {
    "tazza.interop.export": ("export_nets", "needed_operators", "parameter_fill", "save_nets"),
    "tazza.interop.predictor": ("Predictor", "load"),
    "tazza.interop.predictor_file": ("PredictorFile", "save_predictor"),
}
"""Module -> the names that it lends to the package."""


def __getattr__(name: str) -> object:
    """Import the module that has a public name, and keep the name."""
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
