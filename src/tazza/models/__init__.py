"""How a net is written: scopes, nets, models, layers, initializers, optimizers, and a few whole models in `zoo`."""

from tazza.models import layers, optimizer, recurrent, zoo
from tazza.models.initializer import Initializer, constant, gaussian, given, msra, uniform, xavier
from tazza.models.model import LAYERS, Model, Parameter, ParameterKind, layer
from tazza.models.net import BlobReference, Net, scoped, user_line, without_debug_info
from tazza.models.optimizer import OPTIMIZERS, adagrad, adam, sgd
from tazza.models.scope import current_scope, name_scope

__all__ = [
    "LAYERS",
    "OPTIMIZERS",
    "BlobReference",
    "Initializer",
    "Model",
    "Net",
    "Parameter",
    "ParameterKind",
    "adagrad",
    "adam",
    "constant",
    "current_scope",
    "gaussian",
    "given",
    "layer",
    "layers",
    "msra",
    "name_scope",
    "optimizer",
    "recurrent",
    "scoped",
    "sgd",
    "uniform",
    "user_line",
    "without_debug_info",
    "xavier",
    "zoo",
]
