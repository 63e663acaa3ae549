"""Losses of rows that have a weight each."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core


def weighted(net: Any, record: Any, loss: Any, name: str) -> Any:
    """Return `loss` times the column `weight` of a record, if it has one; the weight gets no gradient."""
    if "weight" not in record.fields:
        return loss
    weight = record.weight()
    if record.weight.field_type().base != np.float32:
        weight = net.Cast(weight, weight + "_float32", to=core.DataType.FLOAT)
    weight = net.StopGradient([weight], [net.NextScopedBlob("weight_stop_gradient")])
    return net.Mul([loss, weight], net.NextScopedBlob(name))
