"""What is there of the old names is asked of the package itself."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from caffe2.python import _absent, core, rnn_cell, workspace
from tazza.errors import UnavailableError
from tazza.interop.migration.old_names import (
    REFUSAL,
    Found,
    State,
    is_module,
    layer_of,
    look_up,
    look_up_operator,
    owner_of,
    public_names,
)
from tazza.operator import SCHEMAS


@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("core.Net", State.THERE),
        ("core.Net.AddGradientOperators", State.THERE),
        ("core.DataType.FLOAT", State.THERE),
        ("workspace.C.create_db", State.THERE),
        ("workspace.blobs.whatever", State.THERE),
        ("brew.conv", State.THERE),
        ("models.resnet", State.THERE),
        ("predictor.predictor_exporter.save_to_db", State.THERE),
        ("rnn_cell.cudnn_LSTM", State.REFUSES),
        ("workspace.StartMint", State.REFUSES),
        ("workspace.GetDeviceProperties", State.REFUSES),
        ("core.Nett", State.ABSENT),
        ("core.Net.Proto_", State.ABSENT),
        ("brew.convolution", State.ABSENT),
        ("nowhere.Thing", State.ABSENT),
    ],
)
def test_names(path: str, state: State) -> None:
    found = look_up(f"caffe2.python.{path}")
    assert found.state is state
    assert bool(found.reason) == (state is not State.THERE)


def test_messages_are_names_too() -> None:
    assert look_up("caffe2.proto.caffe2_pb2.NetDef.FromString").state is State.THERE
    assert look_up("caffe2.proto.caffe2_pb2.Nothing").state is State.ABSENT


def test_what_is_there_by_name_only_refuses() -> None:
    for module, names in _absent.absent().items():
        assert look_up(f"caffe2.python.{module}").state is State.REFUSES, module
        for name in names[:2]:
            assert look_up(f"caffe2.python.{module}.{name}").state is State.REFUSES, f"{module}.{name}"


def refusing(module: ModuleType) -> list[Any]:
    """Return the functions of a module that say that they refuse."""
    functions: list[Any] = [value for value in vars(module).values() if inspect.isfunction(value)]
    return [function for function in functions if REFUSAL in vars(function)]


@pytest.mark.parametrize("module", [workspace, rnn_cell])
def test_what_says_that_it_refuses_does(module: ModuleType) -> None:
    functions = refusing(module)
    assert functions
    for function in functions:
        with pytest.raises(UnavailableError, match=getattr(function, REFUSAL)):
            function()


def test_modules_and_their_names() -> None:
    assert is_module("caffe2.python.net_builder")
    assert "ops" in public_names("caffe2.python.net_builder")
    assert public_names("caffe2.python.core.Net") == public_names("caffe2.python.nowhere") == frozenset()


def test_methods_have_owners() -> None:
    modules = ("caffe2.python.core", "caffe2.python.model_helper")
    assert owner_of("AddGradientOperators", modules) == "caffe2.python.core.Net.AddGradientOperators"
    assert owner_of("GetAllParams", modules) == "caffe2.python.model_helper.ModelHelper.GetAllParams"
    assert owner_of("ParseFromString", modules) is None
    assert owner_of("Relu", ("caffe2.python.nowhere",)) is None
    assert layer_of("SparseLookup", modules) is None


def test_operators() -> None:
    assert look_up_operator("Conv") == Found(State.THERE)
    assert look_up_operator("Convv").state is State.ABSENT
    assert look_up_operator("NCCLAllreduce") == Found(State.THERE)
    assert look_up_operator("ATen").state is State.REFUSES


def test_operators_that_run_nowhere_say_why() -> None:
    """In their schema, and when they run."""
    reasons = {type: SCHEMAS[type].foreign for type in SCHEMAS}
    foreign = {type: reason for type, reason in reasons.items() if reason is not None}
    assert set(foreign) >= {"ATen", "Onnxifi", "TTLinearGradient"}
    workspace.ResetWorkspace()
    for type in ("ATen", "Onnxifi"):
        with pytest.raises(UnavailableError, match=foreign[type]):
            workspace.RunOperatorOnce(core.CreateOperator(type, [], []))


def test_without_the_old_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> ModuleType:
        raise ImportError(f"no {name}")

    old_names = import_module("tazza.interop.migration.old_names")
    monkeypatch.setattr(old_names.importlib, "import_module", fail)
    with pytest.raises(UnavailableError, match="not installed"):
        look_up("caffe2.python.core")
