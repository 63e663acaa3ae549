"""Nets for Intel's library: they stay as they are, since plans run them on oneDNN by themselves.

Caffe2 put all operators on a device of that library, and copies between it and the CPU at both ends. Blobs have no such
device here, and the numbers are the same.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from caffe2.proto import caffe2_pb2
from caffe2.python import core

__all__ = ["caffe2_pb2", "copy", "core"]


def rewrite_init_net_simple(net: Any) -> Any:
    """Return a copy of a net that makes parameters."""
    return copy.deepcopy(net)


def last_producer(ops: Sequence[Any], blob: str) -> int:
    """Return where among operators a blob is written last.

    Raises:
        ValueError: nowhere.
    """
    found = [at for at, op in enumerate(ops) if blob in op.output]
    if not found:
        raise ValueError(f"no operator writes '{blob}'")
    return found[-1]


def fix_BoxWithNMSLimit(net: Any) -> None:
    """Do nothing: what it reads and writes lies on the CPU already."""
    del net


def rewrite_run_net_simple(net: Any) -> Any:
    """Return a copy of a net, whose operators choose their engines anew.

    Raises:
        ValueError: an output that no operator writes.
    """
    made = copy.deepcopy(net)
    for op in made.op:
        op.engine = ""
    for name in made.external_output:
        last_producer(made.op, name)
    return made


def rewrite_run_net_simple_xrayocr_lstm(net: Any) -> Any:
    """Return as `rewrite_run_net_simple`."""
    return rewrite_run_net_simple(net)


def rewrite_model_helper_simple(model: Any) -> Any:
    """Return a copy of a model, with both nets rewritten."""
    made = copy.deepcopy(model)
    made.param_init_net.Proto().CopyFrom(rewrite_init_net_simple(made.param_init_net.Proto()))
    made.net.Proto().CopyFrom(rewrite_run_net_simple(made.net.Proto()))
    return made
