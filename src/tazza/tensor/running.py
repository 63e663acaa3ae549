"""Operators of nets on arrays, without a net: `run_op`. What runs them lies above this floor and registers itself."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from tazza.registry import Registry

__all__ = ["run_op"]


class Runner(Protocol):
    """What runs one operator; see `run_op`."""

    def __call__(self, type: str, *inputs: Any, outputs: int | None, engine: str, **arguments: Any) -> Any:
        """Run it."""
        ...


def _load(name: str) -> None:
    importlib.import_module(f"tazza.{name}")


RUNNERS: Registry[str, Runner] = Registry("runner", loader=_load)
"""By the module, below `tazza`, that registers it when it is imported."""


def run_op(type: str, *inputs: Any, outputs: int | None = None, engine: str = "", **arguments: Any) -> Any:
    """Run any operator of nets once; return its output, a tensor, or a tuple of several.

    What was prepared is kept for the next call with the same type, arguments, and specs of inputs. Any number of
    threads may call.

    Args:
        type: the operator type, such as `"Conv"`.
        inputs: tensors, arrays (read where they lie), numbers and nested lists (Python floats as float32, ints as
            int32), or other values that blobs hold. They are not changed: an operator that overwrites an input gets a
            copy of it.
        outputs: how many are wanted; by default all that are not optional.
        engine: engines to ask first, with commas.
        arguments: those of the operator; unknown ones are refused. `device` is a DeviceOption.

    Raises:
        TazzaError: whatever is wrong with the operator or its inputs.

    >>> run_op("Clip", [-3.0, 0.5, 3.0], min=-1.0, max=1.0).plain()
    array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return RUNNERS["operator.prepared"](type, *inputs, outputs=outputs, engine=engine, **arguments)
