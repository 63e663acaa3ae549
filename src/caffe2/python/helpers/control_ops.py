"""Branches and loops between models."""

from __future__ import annotations

from typing import Any


def cond(model: Any, cond_blob: Any, external_blobs: Any, then_model: Any, else_model: Any = None) -> None:
    """Run the net of one of two models."""
    from caffe2.python.control_ops_util import add_if_op

    other = None if else_model is None else else_model.net
    add_if_op(model.net, cond_blob, external_blobs, then_model.net, other)


def loop(model: Any, cond_blob: Any, external_blobs: Any, loop_model: Any, cond_model: Any = None) -> None:
    """Run the net of a model as long as a blob holds true."""
    from caffe2.python.control_ops_util import add_while_op

    other = None if cond_model is None else cond_model.net
    add_while_op(model.net, cond_blob, external_blobs, loop_model.net, other)
