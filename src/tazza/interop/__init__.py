"""Models in files: init and predict nets, predictor files, and what runs them.

The names below are imported when they are first used: running a net needs nothing of what builds and stores one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tazza.runtime.lazy_names import lazy_names

if TYPE_CHECKING:
    from tazza.graph.derivation import needed_operators
    from tazza.interop.export import export_nets, parameter_fill, save_nets
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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "..graph.derivation": ("needed_operators",),
        ".export": ("export_nets", "parameter_fill", "save_nets"),
        ".predictor": ("Predictor", "load"),
        ".predictor_file": ("PredictorFile", "save_predictor"),
    },
)
