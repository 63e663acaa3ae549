"""How a tensor function runs as the kernel of an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tazza.data_class import dataclass
from tazza.device import Context
from tazza.errors import ShapeError
from tazza.operator.function_signature import FunctionSignature, Input
from tazza.operator.kernel import Call, Launch, Operands
from tazza.operator.schema import Spec
from tazza.operator.view import OpView
from tazza.tensor import DataType, Tensor


def function_prepare(signature: FunctionSignature) -> Callable[..., Launch]:
    """Return the `prepare` of the kernel that calls the function."""

    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
        del context, inputs, outputs
        return FunctionLaunch(signature, op)

    return prepare


@dataclass(frozen=True, slots=True)
class FunctionLaunch:
    """The launch of a tensor function."""

    signature: FunctionSignature
    op: OpView
    scratch_bytes: int = 0
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        """Return the call on these operands."""
        signature = self.signature
        values = {one.name: _given(one, operands.tensors[one.name]) for one in signature.inputs}
        positional, keywords = call_arguments(signature, self.op, values)
        targets: list[tuple[Tensor, bool]] = []
        for one in signature.outputs:
            found, dynamic = operands.tensors[one.name], self.op.schema.outputs_by_letter[one.name].dynamic
            tensors = cast("tuple[Tensor, ...]", found) if isinstance(found, tuple) else (found,)
            targets += [(tensor, dynamic) for tensor in tensors]
        if signature.takes_out and not targets[0][1]:
            keywords["out"] = targets[0][0]

        def call() -> None:
            result = signature.function(*positional, **keywords)
            results = list(result) if signature.several else [result]
            if len(results) != len(targets):
                raise self.op.error(ShapeError, f"{signature.where} gave {len(results)} results for {len(targets)}")
            for (target, dynamic), value in zip(targets, results, strict=True):
                if value is not target:
                    _put(self.op, target, value, dynamic)

        return call


def call_arguments(
    signature: FunctionSignature, op: OpView, values: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return positional arguments and keywords of the function; `values` are what it gets for its inputs."""
    settings = {one.spec.name: one.read(op.arguments[one.spec.name]) for one in signature.arguments}
    starred = {one.name for one in signature.inputs if one.starred}
    positional: list[Any] = []
    for name in signature.order:
        if name in starred:
            positional += values[name]
        else:
            positional.append(values[name] if name in values else settings.pop(name))
    return positional, settings


def _given(one: Input, value: Any) -> Any:
    """Return what the function gets for an input: tensors, or their arrays."""
    if isinstance(value, tuple):
        return [_given(one, inner) for inner in cast("tuple[Any, ...]", value)]
    return value.array if one.arrays and isinstance(value, Tensor) else value


def _put(op: OpView, target: Tensor, value: Any, dynamic: bool) -> None:
    array = value.plain() if isinstance(value, Tensor) else np.asarray(value)
    if dynamic:  # it is known only now
        target.assign(array)
        return
    if array.shape != target.shape or DataType.of(array) is not target.dtype:
        raise op.error(
            ShapeError,
            f"the function gave {DataType.of(array)}{list(array.shape)}, its shape rule said {target.spec}",
            "mend infer= or the patterns of the annotations; without a rule a result may have any size",
        )
    np.copyto(target.array, array, casting="equiv")
