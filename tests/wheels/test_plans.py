"""cuDNN makes, compiles and writes down plans for devices that are not there: for each convolution of the zoo.

Where wheels are not installed, or a device is there, all of it is skipped: `make test-cuda-wheels`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import cast

import pytest

from tazza.engines.cudnn.descriptor import Maker
from tazza.engines.cudnn.graph import Behind, Direction, Problem, operation_graph
from tazza.engines.cudnn.image import ALGORITHMS, image_of
from tazza.engines.cudnn.plan import Wishes, choose_plan
from tazza.errors import KernelError
from tazza.graph.inference import infer_net
from tazza.models.zoo import CLASSIFIERS
from tazza.operator import find_schema
from tazza.ops.nn.conv import conv_window
from tazza.tensor import DataType, TensorSpec
from tests.engines.cudnn.there import MISFITS, PROBLEM
from tests.wheels.described import DEVICES, maker_for, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]
BATCH = 32
TYPES = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)


@cache
def convolutions(name: str) -> tuple[Problem, ...]:
    """Return the convolutions of a classifier, each once."""
    return tuple(dict.fromkeys(_convolutions(name)))


def _convolutions(name: str) -> Iterator[Problem]:
    model = CLASSIFIERS[name].inference()
    made = {
        output: spec
        for op in infer_net(model.init_net.proto, {})
        for output, spec in zip(op.definition.output, op.outputs, strict=True)
        if spec is not None
    }
    data = TensorSpec(CLASSIFIERS[name].input_shape(BATCH), DataType.FLOAT)
    for op in infer_net(model.net.proto, {**made, "data": data}):
        if op.definition.type == "Conv":
            X, W, Y = (cast("TensorSpec", spec) for spec in (*op.inputs[:2], op.outputs[0]))
            view = find_schema("Conv").view(op.definition)
            yield image_of(view, X, W, Y.shape, conv_window(view, X.shape, W.shape)[0])


def problems(image: Problem, dtype: DataType) -> Iterator[Problem]:
    """Yield what a net computes of a convolution: Y, alone and with what follows it, and both gradients."""
    typed = replace(image, dtype=dtype)
    for steps in ((), (Behind.BIAS,), (Behind.BIAS, Behind.RELU), (Behind.OPERAND, Behind.BIAS, Behind.STRICT_RELU)):
        yield replace(typed, steps=steps)
    yield replace(typed, direction=Direction.BACKWARD_DATA)
    yield replace(typed, direction=Direction.BACKWARD_FILTER)


def _convolve() -> list[str]:
    return sorted(name for name in CLASSIFIERS if name != "mlp")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", _convolve())
def test_every_convolution_of_the_zoo_has_a_plan(name: str, device: str) -> None:
    maker = maker_for(device)
    found = convolutions(name)
    assert found
    for image in found:
        for problem in problems(image, DataType.FLOAT):
            plan = choose_plan(maker, problem, Wishes())
            assert plan is not None, problem
            assert not plan.notes & {"TENSOR_CORE", "DOWN_CONVERT_INPUTS", "NONDETERMINISTIC"}, problem
            assert json.loads(plan.text)["operationGraph"]["tensors"], problem


@pytest.mark.parametrize("dtype", TYPES[1:], ids=lambda one: one.label)
@pytest.mark.parametrize("name", _convolve())
def test_half_precision_has_plans_on_tensor_cores(name: str, dtype: DataType) -> None:
    maker, seen = maker_for("NVIDIA H200"), set[bool]()
    for image in convolutions(name):
        for problem in problems(image, dtype):
            plan = choose_plan(maker, problem, Wishes())
            assert plan is not None, problem
            seen.add("TENSOR_CORE" in plan.notes)
    assert True in seen


def test_tf32_is_taken_where_it_is_allowed() -> None:
    maker, tensor_cores = maker_for("NVIDIA H200"), [0, 0]
    for image in convolutions("resnet50"):
        for allowed in (False, True):
            plan = choose_plan(maker, image, Wishes(tf32=allowed))
            tensor_cores[allowed] += plan is not None and "TENSOR_CORE" in plan.notes
    assert tensor_cores[False] == 0
    assert tensor_cores[True] > len(convolutions("resnet50")) // 2


def test_a_small_limit_changes_the_plan() -> None:
    maker = maker_for("NVIDIA H200")
    problem = convolutions("resnet50")[1]
    none = choose_plan(maker, problem, Wishes(limit=0))
    assert none is not None
    assert none.workspace_bytes == 0


def test_algorithms_of_old_are_there_or_not() -> None:
    maker = maker_for("NVIDIA H200")
    image = convolutions("resnet50")[1]
    there = {
        direction: [n for n in ALGORITHMS[direction] if plan_by(maker, image, direction, n)] for direction in Direction
    }
    assert {0, 1} <= {*there[Direction.FORWARD]}
    assert {0, 1} <= {*there[Direction.BACKWARD_DATA]} & {*there[Direction.BACKWARD_FILTER]}


def plan_by(maker: Maker, image: Problem, direction: Direction, number: int) -> bool:
    """Whether there is a plan by an algorithm."""
    wishes = Wishes(limit=1 << 40, forced=ALGORITHMS[direction][number])
    return choose_plan(maker, replace(image, direction=direction), wishes) is not None


def test_the_real_library_refuses_what_the_fake_one_does() -> None:
    maker = maker_for("NVIDIA H200")
    operation_graph(maker, PROBLEM)
    for change in MISFITS.values():
        with pytest.raises(KernelError):
            operation_graph(maker, replace(PROBLEM, **change))
