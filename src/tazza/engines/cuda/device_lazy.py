"""The evaluator `cuda`: lazy expressions over tensors of a CUDA device, each as one kernel on its stream; products.

A reduction of float32 is made of the values of its elements, by the kernel of the operator of that name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from tazza.array.on_device import DEVICE_EVALUATORS, DEVICE_PRODUCTS, Source, Spread, ThereProduct
from tazza.array.program import expressions
from tazza.codegen.block import Slot
from tazza.codegen.formula_plan import Axes
from tazza.codegen.nest import merged
from tazza.device import Context, current_context, device_option
from tazza.engines.cuda import KIND, unavailable
from tazza.engines.cuda.launch import Held, bound_alone
from tazza.engines.cuda.typed import typed_launch
from tazza.errors import UnsupportedError
from tazza.operator.prepared import run_once
from tazza.tensor import DataType, Strided, Tensor
from tazza.tensor.dim import Dim
from tazza.tensor.layout import ROW_MAJOR
from tazza.tensor.offer import Offer, Unsupported

OPERATORS: Mapping[str, str] = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin"}
"""Reduction -> the operator that makes it."""


@DEVICE_EVALUATORS.solving(KIND, place=KIND, help="one compiled kernel for each expression")
def solve(task: Spread) -> Offer[Callable[[], None]]:
    """Compile an expression for where its operands lie."""
    missing = unavailable()
    if missing is not None:
        raise Unsupported(missing)
    reduction = task.program.reduction
    if reduction and (reduction not in OPERATORS or task.dtype is not DataType.FLOAT):
        raise Unsupported(f"it reduces float32 to sums, means and extremes, not {task.dtype} to {reduction!r}")
    if any(isinstance(one, Tensor) and not isinstance(one.layout, Strided) for one in task.sources):
        raise Unsupported("an operand lies as a vendor's library wants it")
    try:
        return Offer(_reduced(task) if reduction else _elements(task, task.target))
    except UnsupportedError as error:
        raise Unsupported(error.message) from None


def _elements(task: Spread, target: Tensor) -> Callable[[], None]:
    """Return the call that computes all elements."""
    tensors = {f"a{k}": _tensor(one) for k, one in enumerate(task.sources)} | {"y": target}
    sources = [
        (_tensor(one).dtype, Slot(f"a{k}") if isinstance(one, Tensor) else Held(Slot(f"a{k}")))
        for k, one in enumerate(task.sources)
    ]
    results = tuple(expressions(task.program))
    launch = typed_launch(results, sources, [(target.dtype, Slot("y"))], _axes(task, target))
    return bound_alone(launch, tensors, task.place)


def _tensor(one: Source) -> Tensor:
    return one if isinstance(one, Tensor) else Tensor.from_numpy(one)


def _axes(task: Spread, target: Tensor) -> Axes:
    """Return extents, and the steps of all operands along each; 0 where they are repeated."""
    if 0 in task.shape:
        return [(0, (1,) * (len(task.sources) + 1))]
    steps = [_steps(one, task.shape) for one in (*task.sources, target)]
    found = merged([(extent, tuple(one[k] for one in steps)) for k, extent in enumerate(task.shape)])
    return found if found else [(1, (1,) * len(steps))]


def _steps(one: Source, shape: tuple[int, ...]) -> list[int]:
    own = Dim(one.shape)
    layout = one.layout if isinstance(one, Tensor) else ROW_MAJOR
    assert isinstance(layout, Strided), "others are refused"
    steps = [0 if extent == 1 else step for extent, step in zip(own, layout.steps(own), strict=True)]
    return [0] * (len(shape) - len(own)) + steps


def _reduced(task: Spread) -> Callable[[], None]:
    """Return the call that computes all elements, and what they are reduced to."""
    values = Tensor(task.shape, task.dtype, task.place)
    elements, context = _elements(task, values), current_context(task.place)
    return partial(_reduce, task, values, elements, context)


def _reduce(task: Spread, values: Tensor, elements: Callable[[], None], context: Context) -> None:
    elements()
    if math.prod(task.shape) == 0 and task.program.reduction in ("max", "min"):
        return  # no extent is left then
    operator, device = OPERATORS[task.program.reduction], device_option(task.place)
    found = run_once(operator, (values,), outputs=1, engine=KIND, device=device, axes=list(task.axes), keepdims=1)[0]
    if not isinstance(found, Tensor):
        raise UnsupportedError(f"{operator} gives no tensor")
    context.copy(found, task.target)


@DEVICE_PRODUCTS.solving(KIND, place=KIND, help="the operator MatMul or BatchMatMul")
def multiply(task: ThereProduct) -> Offer[Callable[[], Tensor]]:
    """Multiply by the operator of products, whichever engine has its kernel."""
    missing = unavailable()
    if missing is not None:
        raise Unsupported(missing)
    if not task.dtype.is_float:
        raise Unsupported(f"it multiplies floating point, not {task.dtype}")
    return Offer(partial(_multiplied, task))


def _multiplied(task: ThereProduct) -> Tensor:
    several = task.rank > 2
    arguments = {"broadcast": 1} if several else {}
    operator, device = "BatchMatMul" if several else "MatMul", device_option(task.place)
    found = run_once(operator, (task.a, task.b), outputs=1, engine="", device=device, **arguments)[0]
    if not isinstance(found, Tensor):
        raise UnsupportedError(f"{operator} gives no tensor")
    return found
