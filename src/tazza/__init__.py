"""tazza: a deep-learning runtime for nets in the Caffe2 format.

The names below are imported when they are first used, so that `import tazza` costs next to nothing.

>>> import numpy as np, tazza
>>> tazza.run_op("Relu", np.float32([-1, 2]))
array([0., 2.], dtype=float32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tazza import errors
from tazza.runtime.lazy_names import lazy_names

if TYPE_CHECKING:
    from tazza.device import device_option, device_scope
    from tazza.fitting import Fitted, fit
    from tazza.interop import Predictor, export_nets, load, save_nets, save_predictor
    from tazza.models import BlobReference, Model, Net, name_scope, sgd
    from tazza.operator import run_op
    from tazza.proto.message import read_message, write_message
    from tazza.runtime.init import global_init
    from tazza.tensor import Blob, DataType, Tensor
    from tazza.workspace import Workspace

    __version__: str

__all__ = [
    "Blob",
    "BlobReference",
    "DataType",
    "Fitted",
    "Model",
    "Net",
    "Predictor",
    "Tensor",
    "Workspace",
    "device_option",
    "device_scope",
    "errors",
    "export_nets",
    "fit",
    "global_init",
    "load",
    "name_scope",
    "read_message",
    "run_op",
    "save_nets",
    "save_predictor",
    "sgd",
    "write_message",
]

_lent, _names = lazy_names(
    __name__,
    {
        "tazza.device": ("device_option", "device_scope"),
        "tazza.fitting": ("Fitted", "fit"),
        "tazza.interop": ("Predictor", "export_nets", "load", "save_nets", "save_predictor"),
        "tazza.models": ("BlobReference", "Model", "Net", "name_scope", "sgd"),
        "tazza.operator": ("run_op",),
        "tazza.proto.message": ("read_message", "write_message"),
        "tazza.runtime.init": ("global_init",),
        "tazza.tensor": ("Blob", "DataType", "Tensor"),
        "tazza.workspace": ("Workspace",),
    },
)


def __getattr__(name: str) -> object:
    """Return a name that is not there yet; to find the version out takes longer than the import."""
    if name != "__version__":
        return _lent(name)
    globals()[name] = version = _version()
    return version


def __dir__() -> list[str]:
    return sorted({*_names(), "__version__"})


def _version() -> str:
    """Return the version of the installed package; a bare source tree has none and says so."""
    from importlib import metadata

    try:
        return metadata.version("tazza")
    except metadata.PackageNotFoundError:
        return "0+not.installed"
