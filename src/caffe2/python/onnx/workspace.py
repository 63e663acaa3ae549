"""Workspaces as objects: each has blobs and nets of its own, and every function of `caffe2.python.workspace`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

from caffe2.python import workspace

_numbers = itertools.count()


class Workspace:
    """A workspace that ends with the object; `with` makes it the current one."""

    def __init__(self) -> None:
        """Name one that nobody else has."""
        self._name = f"onnx-workspace-{os.getpid()}-{next(_numbers)}"
        self._entered: list[str] = []

    def __enter__(self) -> Workspace:
        self._entered.append(workspace.CurrentWorkspace())
        workspace.SwitchWorkspace(self._name, True)
        return self

    def __exit__(self, *args: object) -> None:
        workspace.SwitchWorkspace(self._entered.pop(), True)

    def __getattr__(self, attr: str) -> Callable[..., Any]:
        function = getattr(workspace, attr)

        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside

    def __del__(self) -> None:
        """Empty it."""
        self.ResetWorkspace()
