"""Models in files: init and predict nets, predictor files, and what runs them."""

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
