"""How a command starts: extension modules first, since they may declare flags, then flags."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from tazza.runtime.chosen_modules import NAMED, Chosen, chosen_modules, load_chosen
from tazza.runtime.init import global_init

OWN = ("tazza.operator", "tazza.db", "tazza.graph.transform", "tazza.nets")
"""What is there before a module is loaded, so that it is not said to have brought it."""


def start_with(modules: Sequence[str], flags: Sequence[str]) -> None:
    """Load modules of the user and of installed packages, and set flags, each NAME=VALUE.

    Raises:
        TazzaError: a module that the user names cannot be loaded, or a flag cannot be set.
    """
    _load(chosen_modules(modules))
    global_init(["tazza", *(f"--{each}" for each in flags)])
    if NAMED.source == "command line":
        _load(chosen_modules())


def _load(chosen: Sequence[Chosen]) -> None:
    if chosen:
        for name in OWN:
            importlib.import_module(name)
        load_chosen(chosen)
