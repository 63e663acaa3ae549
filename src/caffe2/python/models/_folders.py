"""Models that lie as folders of two nets: `from caffe2.python.models import squeezenet` gives both, read.

Caffe2's downloader made a module of such a folder. Where it wrote an `__init__.py`, Python imports that; without one
the folder is found here: in this package or, as the downloader left it, in the current folder. Nothing is executed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

PREFIX = "caffe2.python.models."
NETS = ("init_net", "predict_net")


def _holds_both(folder: Path) -> bool:
    return all((folder / f"{net}.pb").is_file() for net in NETS) and not (folder / "__init__.py").exists()


class ModelFolders(MetaPathFinder):
    """Finds folders with both nets."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a model, if a folder of that name has one."""
        del target
        name = fullname.removeprefix(PREFIX)
        if name == fullname or path is None:
            return None
        places = [Path(place, *name.split(".")[-1:]) for place in path] + [Path(*name.split("."))]
        found = next((place for place in places if _holds_both(place)), None)
        return None if found is None else ModuleSpec(fullname, _Nets(found.resolve()))


class _Nets(Loader):
    """Reads the nets of a folder."""

    def __init__(self, folder: Path) -> None:
        """Read those of `folder`."""
        self._folder = folder

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave that to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Give the module both nets.

        Raises:
            FormatError: a file is no net.
        """
        from tazza.proto import NetDef
        from tazza.proto.message import read_message

        for net in NETS:
            setattr(module, net, read_message(self._folder / f"{net}.pb", NetDef))


def install() -> None:
    """Let Python find them, once: before it takes a folder without `__init__.py` for a package."""
    if not any(isinstance(finder, ModelFolders) for finder in sys.meta_path):
        sys.meta_path.insert(0, ModelFolders())
