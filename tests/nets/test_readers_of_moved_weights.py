"""What any operator makes of weights that a plan has moved into a form is what it makes of plain ones.

Forms are those in which blobs lie for good: of each engine, and of oneDNN also those whose extents are not the blob's,
of grouped filters and of filters that a fully connected layer reads as rows.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from tazza.errors import TazzaError
from tazza.operator import SCHEMAS, make_argument, operator_def
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import DataType, Opaque
from tazza.workspace import Workspace
from tests.judge.draw import CannotDraw, draw, drawable
from tests.judge.draw import Problem as Drawn
from tests.judge.verdict import is_random
from tests.sampled import sampled

FORMS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "filters": ("Conv", (2, 6, 9, 9), (8, 6, 3, 3), {"kernel": 3, "engine": "onednn"}),
    "filters in groups": ("Conv", (2, 6, 9, 9), (8, 3, 3, 3), {"kernel": 3, "group": 2, "engine": "onednn"}),
    "depthwise filters": ("Conv", (2, 8, 9, 9), (8, 1, 3, 3), {"kernel": 3, "group": 8, "engine": "onednn"}),
    "filters as rows": ("FC", (5, 54), (8, 6, 3, 3), {"engine": "onednn"}),
    "rows": ("FC", (5, 54), (40, 54), {"engine": "onednn"}),
    "few channels": ("Conv", (2, 3, 33, 35), (8, 3, 5, 5), {"kernel": 5, "engine": "native/few_channels"}),
    "tiles": ("Conv", (2, 19, 9, 11), (8, 19, 3, 3), {"kernel": 3, "engine": "native/winograd"}),
}
"""What reads X and W so that W is moved, the shapes of both, and arguments."""


def packing(form: str) -> tuple[OperatorDef, tuple[int, ...], tuple[int, ...]]:
    type, images, weights, arguments = FORMS[form]
    return operator_def(type, ["X", "W", "b"], ["Y"], **arguments), images, weights


def with_weights(form: str, values: np.ndarray[Any, Any], *, move: bool) -> Workspace:
    """Return a workspace with W, which a plan has moved if asked for."""
    reader, images, weights = packing(form)
    ws = Workspace()
    ws.feed("W", values)
    if move:
        ws.feed("X", np.ones(images, np.float32))
        ws.feed("b", np.ones(weights[0], np.float32))
        said = [make_argument("inputs", ["X"])]
        ws.create_net(NetDef(name="packed", type="plan", op=[reader], external_output=["Y"], arg=said))
        ws.run_net("packed")
    return ws


def results(problem: Drawn, letter: str, form: str, kind: str, *, move: bool) -> list[Any] | str:
    """Return what an operator makes of W in place of a letter, or the error's type."""
    values = problem.value(letter)
    assert isinstance(values, np.ndarray)
    ws = with_weights(form, values, move=move)
    if move:
        assert isinstance(ws.blob("W").tensor().layout, Opaque)
    definition = OperatorDef()
    definition.CopyFrom(problem.definition)
    names = {name: "W" if name == letter else f"in {name}" for name in problem.inputs}
    for name in problem.inputs:
        if name != letter:
            ws.feed(names[name], problem.value(name))
    del definition.input[:], definition.output[:]
    definition.input.extend(names[name] for name in problem.definition.input)
    definition.output.extend(names.get(name, f"out {name}") for name in problem.definition.output)
    try:
        ws.run_net_once(NetDef(name="any", type=kind, op=[definition], external_output=definition.output))
    except TazzaError as error:
        return type(error).__name__
    return [_fetched(ws, name) for name in definition.output]


def _fetched(ws: Workspace, name: str) -> Any:
    blob = ws.blob(name)
    return np.array(blob.tensor().plain()) if blob.is_tensor else None


def problems(type: str, shape: tuple[int, ...]) -> list[tuple[str, Drawn]]:
    """Return problems of an operator, of which an input has this shape, and which one."""
    found: list[tuple[str, Drawn]] = []
    for spec in SCHEMAS[type].inputs[:3]:
        letter = f"{spec.name}_0" if spec.variadic else spec.name
        with suppress(CannotDraw, ValueError, IndexError, TypeError, ZeroDivisionError):  # it takes other ranks
            problem = draw(type, 3, dtype=DataType.FLOAT, given={letter: shape}, attempts=8)
            if letter in problem.inputs and problem.inputs[letter].dtype == np.float32:
                found.append((letter, problem))
    return found


@pytest.mark.parametrize("form", FORMS)
def test_weights_are_moved(form: str) -> None:
    _, _, shape = packing(form)
    ws = with_weights(form, np.ones(shape, np.float32), move=True)
    assert isinstance(ws.blob("W").tensor().layout, Opaque)


@pytest.mark.parametrize("type", sampled(drawable(), 8))
def test_any_operator_reads_moved_weights_as_plain_ones(type: str) -> None:
    if is_random(type) or not SCHEMAS[type].inputs:
        pytest.skip("random, or without inputs")
    for form in FORMS:
        _, _, shape = packing(form)
        for letter, problem in problems(type, shape):
            wanted = results(problem, letter, form, "simple", move=False)
            for kind in ("simple", "plan"):
                found = results(problem, letter, form, kind, move=True)
                assert isinstance(found, str) == isinstance(wanted, str), (form, letter, kind, found, wanted)
                for one, other in zip(found, wanted, strict=True):
                    _check(one, other, f"{letter} as {form}, {kind}")


def _check(found: Any, wanted: Any, where: str) -> None:
    if found is None or wanted is None or isinstance(found, str) or found.dtype == object:
        return
    assert found.shape == wanted.shape, where
    assert found.dtype == wanted.dtype, where
    if found.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted, err_msg=where)
    else:
        np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=1e-3, atol=1e-3, err_msg=where)
