"""What a net declares: a plan gives for each output alone what a simple net gives, and over blobs of its own too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import TazzaError
from tazza.operator import SCHEMAS, may_overwrite, operator_def
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.judge.draw import Problem, draw, drawable
from tests.judge.verdict import is_random
from tests.net_types import one_of_each
from tests.sampled import sampled


def result(problem: Problem, kind: str, wanted: str) -> Any:
    """Return an output of an operator in a net that declares it alone, None where it holds no tensor."""
    ws = Workspace()
    for name in problem.inputs:
        ws.feed(name, problem.value(name))
    definition = OperatorDef()
    definition.CopyFrom(problem.definition)
    ws.run_net_once(NetDef(name="one", type=kind, num_workers=2, op=[definition], external_output=[wanted]))
    blob = ws.blob(wanted)
    return np.array(blob.tensor().plain()) if blob.is_tensor else None


@pytest.mark.parametrize("type", sampled([one for one in drawable() if len(SCHEMAS[one].outputs) > 1], 4))
def test_each_output_alone(type: str) -> None:
    if is_random(type):
        pytest.skip("random")
    for seed in range(3):
        problem = draw(type, seed)
        for name in dict.fromkeys(problem.definition.output):
            found, wanted = result(problem, "plan", name), result(problem, "simple", name)
            if found is None or wanted is None or wanted.dtype.kind not in "iubf":
                continue
            assert found.shape == wanted.shape, name
            np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=1e-3, atol=1e-3, err_msg=name)


def behind_copies(problem: Problem, kind: str) -> list[Any] | str:
    """Return what an operator makes of copies that the net makes of its inputs, or the error's type."""
    ws = Workspace()
    for name in problem.inputs:
        ws.feed(name, problem.value(name))
    names = {name: f"copied {name}" for name in problem.inputs if isinstance(problem.value(name), np.ndarray)}
    definition = OperatorDef()
    definition.CopyFrom(problem.definition)
    for field in (definition.input, definition.output):
        renamed = [names.get(name, name) for name in field]
        del field[:]
        field.extend(renamed)
    copies = [operator_def("Copy", [name], [other]) for name, other in names.items()]
    try:
        ws.run_net_once(NetDef(name="all", type=kind, op=[*copies, definition], external_output=[*definition.output]))
    except TazzaError as error:
        return type(error).__name__
    blobs = [ws.blob(name) for name in definition.output]
    return [np.array(blob.tensor().plain()) if blob.is_tensor else None for blob in blobs]


@pytest.mark.parametrize("type", sampled(drawable(), 8))
def test_each_operator_behind_copies(type: str) -> None:
    """Values that a plan makes itself may be what an operator has to overwrite."""
    if is_random(type):
        pytest.skip("random")
    problem = draw(type, 1)
    found, wanted = behind_copies(problem, "plan"), behind_copies(problem, "simple")
    if isinstance(found, str) or isinstance(wanted, str):
        assert found == wanted
        return
    for one, other in zip(found, wanted, strict=True):
        if one is not None and other is not None and other.dtype.kind in "iubf":
            assert one.shape == other.shape
            np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=1e-3, atol=1e-3)


def twice_in_place(problem: Problem, kind: str, output: int, over: int) -> list[Any] | str:
    """Return what two runs leave of an operator whose output lies over an input that was there, or the error's type."""
    ws = Workspace()
    for name in problem.inputs:
        ws.feed(name, problem.value(name))
    definition = OperatorDef()
    definition.CopyFrom(problem.definition)
    definition.output[output] = definition.input[over]
    net = NetDef(name="two", type=kind, op=[definition], external_output=[*definition.output])
    found: list[Any] = []
    try:
        made = ws.create_net(net)
        for _ in range(2):
            made.run()
            tensors = [ws.blob(name).tensor() if ws.blob(name).is_tensor else None for name in definition.output]
            found += [None if one is None else (np.array(one.plain()), one.quantization) for one in tensors]
    except TazzaError as error:
        return type(error).__name__
    return found


@pytest.mark.parametrize("type", sampled(drawable(), 8))
def test_each_operator_over_blobs_that_were_there(type: str) -> None:
    """Elements, and what integers stand for."""
    if is_random(type):
        pytest.skip("random")
    problem = draw(type, 2)
    view = SCHEMAS[type].view(problem.definition)
    for output in range(len(problem.definition.output)):
        for over in may_overwrite(view, output):
            found, wanted = (twice_in_place(problem, kind, output, over) for kind in ("plan", "simple"))
            if isinstance(found, str) or isinstance(wanted, str):
                assert found == wanted
                continue
            for one, other in zip(found, wanted, strict=True):
                if one is not None and other is not None and other[0].dtype.kind in "iubf":
                    assert one[1] == other[1], "what integers stand for"
                    assert one[0].shape == other[0].shape
                    np.testing.assert_allclose(one[0].astype(float), other[0].astype(float), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("type", sampled([one for one in drawable() if len(SCHEMAS[one].outputs) > 1], 4))
def test_outputs_of_one_name(type: str) -> None:
    """Scripts throw outputs away under one name; the last of them is what it stands for."""
    if is_random(type):
        pytest.skip("random")
    problem = draw(type, 1)
    names = [*problem.definition.output]
    if len(names) < 2 or {*names} & {*problem.definition.input}:
        pytest.skip("one output, or some in place")
    wanted = result(problem, "simple", names[-1])
    del problem.definition.output[:]
    problem.definition.output.extend(["_"] * len(names))
    for kind in one_of_each():
        found = result(problem, kind, "_")
        if found is not None and wanted is not None and wanted.dtype.kind in "iubf":
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=1e-3, atol=1e-3)
