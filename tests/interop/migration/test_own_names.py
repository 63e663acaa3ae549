"""The table of own names: both sides of each row are there."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from tazza.interop.migration.old_names import State, look_up
from tazza.interop.migration.own_names import OWN, PYTHON, own_name, own_operator
from tazza.models import LAYERS
from tazza.operator import SCHEMAS


def resolved(path: str) -> Any:
    """Return what a path of tazza leads to; a layer is one of models."""
    parts = path.split(".")
    if parts[:2] == ["tazza", "Model"] and parts[2:] and parts[2] in LAYERS:
        return LAYERS[parts[2]]
    for place in range(len(parts), 0, -1):
        try:
            value: Any = import_module(".".join(parts[:place]))
        except ModuleNotFoundError:
            continue
        for name in parts[place:]:
            value = getattr(value, name)
        return value
    raise AssertionError(path)


@pytest.mark.parametrize("old", OWN)
def test_both_sides_are_there(old: str) -> None:
    assert look_up(PYTHON + old).state is State.THERE
    assert resolved(OWN[old].path) is not None


def test_what_follows_from_names_is_there() -> None:
    for path in ("core.DataType.INT64", "brew.conv", "brew.max_pool"):
        own = own_name(PYTHON + path)
        assert own is not None
        assert resolved(own.path) is not None
    message = own_name("caffe2.proto.caffe2_pb2.OperatorDef")
    assert message is not None
    assert resolved(message.path) is not None
    assert own_name(f"{PYTHON}brew.group_conv") is own_name(f"{PYTHON}core.Nothing") is None
    assert own_name("caffe2.proto.caffe2_pb2.Nothing") is None


def test_operators_are_layers_where_these_have_their_names() -> None:
    owns = {type: own_operator(type) for type in SCHEMAS}
    layers = {own.path for own in owns.values() if own is not None and not own.note}
    assert layers >= {"tazza.Model.conv", "tazza.Model.spatial_bn", "tazza.Model.lrn"}
    assert all(resolved(path) is not None for path in layers)
    assert own_operator("Nothing") is None
