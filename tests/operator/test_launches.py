"""Equal operators prepare once: launches are shared, bounded, and no older than what is registered."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tazza.device import Context
from tazza.operator import (
    FLOAT,
    KERNELS,
    SCHEMAS,
    Call,
    LocalBlobs,
    Operands,
    Operator,
    OpView,
    Spec,
    blob,
    launcher,
    operator_def,
    schema,
)
from tazza.operator.launches import DEFINITION_BYTES, LAUNCHES, definition_key
from tazza.proto import NetDef
from tazza.tensor import Tensor, TensorSpec
from tazza.workspace import Workspace

TYPE = "TestShared"


class Adding:
    """A launch that adds a number."""

    scratch_bytes = 0
    capturable = False

    def __init__(self, number: float) -> None:
        self._number = number

    def bind(self, operands: Operands) -> Call:
        X, Y = operands["X"], operands["Y"]
        return lambda: np.add(X.array, np.float32(self._number), out=Y.array)


@pytest.fixture
def prepared() -> Iterator[list[int]]:
    """Declare an operator, and return the sizes that it was prepared for."""
    found: list[int] = []
    made = schema(TYPE, "Y = X + 1.", inputs=[blob("X", FLOAT, "*S")], outputs=[blob("Y", like="X")])
    add_kernel(made, found, 1.0)
    yield found
    SCHEMAS.unregister(TYPE)
    KERNELS.unregister((TYPE, "cpu", "reference"))


def add_kernel(made: Any, found: list[int], number: float, priority: int = 0) -> None:
    @launcher(made, engine="reference", priority=priority)
    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Adding:  # pyright: ignore[reportUnusedFunction] -- registered
        del op, context, outputs
        assert isinstance(inputs[0], TensorSpec)
        found.append(inputs[0].size)
        return Adding(number)


def run(size: int, **arguments: Any) -> float:
    home = LocalBlobs()
    home.create_blob("x").set(Tensor.from_numpy(np.ones(size, np.float32)))
    operator = Operator(operator_def(TYPE, ["x"], ["y"], **arguments), home)
    operator.run()
    return float(home.create_blob("y").tensor().plain()[0])


def test_equal_operators_prepare_once(prepared: list[int]) -> None:
    assert [run(2), run(2), run(3), run(2)] == [2.0] * 4
    assert prepared == [2, 3]
    run(2, engine="other")
    assert prepared == [2, 3, 2], "another definition"


def test_another_kernel_prepares_anew(prepared: list[int]) -> None:
    assert run(2) == 2.0
    add_kernel(SCHEMAS[TYPE], prepared, 5.0, priority=1)
    assert run(2) == 6.0
    assert prepared == [2, 2]


def test_a_step_net_of_many_steps_prepares_once(prepared: list[int]) -> None:
    home = Workspace()
    home.feed("x", np.ones(4, np.float32))
    step = NetDef(name="step", op=[operator_def(TYPE, ["x"], ["h"]), operator_def(TYPE, ["h"], ["y"])])
    for _ in range(20):
        home.child().net(step).run()
    assert prepared == [4], "its two operators differ by names only"


def test_equal_layers_of_a_plan_prepare_once(prepared: list[int]) -> None:
    home = Workspace()
    home.feed("x", np.ones(4, np.float32))
    layers = [operator_def(TYPE, ["x"], ["h"]), operator_def(TYPE, ["h"], ["i"]), operator_def(TYPE, ["i"], ["y"])]
    home.create_net(NetDef(name="layers", type="plan", op=layers, external_output=["y"])).run()
    assert prepared == [4]
    assert home.fetch("y").tolist() == [4.0] * 4


def test_equal_operators_are_hits(prepared: list[int]) -> None:
    before = LAUNCHES.statistics
    for _ in range(3):
        run(2)
    after = LAUNCHES.statistics
    assert (after.hits - before.hits, after.misses - before.misses, after.held) == (2, 1, 1)
    assert prepared == [2]


def test_large_definitions_are_not_shared() -> None:
    small = operator_def("GivenTensorFill", [], ["x"], shape=[2], values=[1.0, 2.0])
    assert definition_key(small) == definition_key(
        operator_def("GivenTensorFill", [], ["x"], shape=[2], values=[1.0, 2.0])
    )
    assert definition_key(operator_def("GivenTensorFill", [], ["x"], values=[1.0] * DEFINITION_BYTES)) is None


def test_names_make_no_difference_but_where_one_blob_is_another() -> None:
    def key(inputs: list[str], output: str, **arguments: Any) -> Hashable:
        made = operator_def("Add", inputs, [output], **arguments)
        made.name, made.debug_info = output, f"line of {output}"
        made.control_input.append(f"before {output}")
        return definition_key(made)

    assert key(["a", "b"], "c") == key(["x", "y"], "z") == key(["c", "a"], "b")
    unlike = {key(["a", "b"], "c"), key(["a", "a"], "c"), key(["a", "b"], "a"), key(["a", "b"], "b")}
    assert len(unlike | {key(["a", "b"], "c", broadcast=1)}) == 5
