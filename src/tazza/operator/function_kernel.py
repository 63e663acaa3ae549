"""How a tensor function runs as the kernel of an operator, and how shapes are inferred by running it once.

It is run on zeros, and where it does not take these, on identity matrices and then on ones: a function that inverts a
matrix, say, raises for zeros, whatever their shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from tazza.device import Context
from tazza.errors import ShapeError, TazzaError
from tazza.operator.function_signature import FunctionSignature, Input
from tazza.operator.kernel import Array, Call, Launch, Operands
from tazza.operator.schema import Spec
from tazza.operator.view import OpView
from tazza.runtime.cache import remembered
from tazza.tensor import DataType, Tensor, TensorSpec

PROBES = (2, 3)
"""Extents that stand for an unknown one, in turn; what changes with them in a result is unknown too."""

FILLS = ("zeros", "identity matrices", "ones")
"""Values that the function is tried with, in turn."""


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

    def bind(self, operands: Operands) -> Call:
        """Return the call on these operands."""
        signature = self.signature
        values = {one.name: _given(one, operands.tensors[one.name]) for one in signature.inputs}
        positional, keywords = call_arguments(signature, self.op, values)
        targets: list[Tensor] = []
        for one in signature.outputs:
            found = operands.tensors[one.name]
            targets += cast("tuple[Tensor, ...]", found) if isinstance(found, tuple) else [found]
        dynamic = self.op.schema.dynamic
        if signature.takes_out and not dynamic:
            keywords["out"] = targets[0]

        def call() -> None:
            result = signature.function(*positional, **keywords)
            results = list(result) if signature.several else [result]
            if len(results) != len(targets):
                raise self.op.error(ShapeError, f"{signature.where} gave {len(results)} results for {len(targets)}")
            for target, value in zip(targets, results, strict=True):
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


def _array(value: Any) -> Array:
    return value.plain() if isinstance(value, Tensor) else np.asarray(value)


def _put(op: OpView, target: Tensor, value: Any, dynamic: bool) -> None:
    array = _array(value)
    if dynamic:
        target.assign(array)
        return
    if array.shape != target.shape or DataType.of(array) is not target.dtype:
        raise op.error(
            ShapeError,
            f"the function gave {DataType.of(array)}{list(array.shape)}, inference said {target.spec}",
            "if its size depends on values, register it with dynamic=True",
        )
    np.copyto(target.array, array, casting="equiv")


# -- inference ---------------------------------------------------------------------------------------------------------


def function_infer(signature: FunctionSignature) -> Callable[..., tuple[TensorSpec | None, ...]]:
    """Return the inference that runs the function on zeros, once for each signature of those that were used last."""

    @remembered("specs of functions", entries=256)
    def probe(key: _Question) -> tuple[TensorSpec | None, ...]:
        first = _probe(signature, key, PROBES[0])
        if key.shapes_known or not first:
            return first
        second = _probe(signature, key, PROBES[1])
        return tuple(_agreed(a, b) for a, b in zip(first, second, strict=True)) if second else ()

    def infer(op: OpView, **specs: Any) -> tuple[TensorSpec | None, ...]:
        found = probe(_Question(op, tuple(specs.items())))
        return found if found else (None,) * len(op.output_letters)

    return infer


class _Question:
    """An operator and the specs of its inputs, equal by arguments and specs."""

    def __init__(self, op: OpView, specs: tuple[tuple[str, Any], ...]) -> None:
        self.op, self.specs = op, specs
        frozen = tuple((name, repr(value)) for name, value in op.arguments.items())
        self._key = frozen, specs, len(op.output_letters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def shapes_known(self) -> bool:
        """Whether all extents are known."""
        return all(spec.shape_known for _, value in self.specs for spec in _flat(value))


def _flat(value: Any) -> tuple[TensorSpec, ...]:
    return cast("tuple[TensorSpec, ...]", value) if isinstance(value, tuple) else () if value is None else (value,)


def _probe(signature: FunctionSignature, question: _Question, extent: int) -> tuple[TensorSpec, ...]:
    """Run the function on values of our own; nothing where that cannot tell, since some extents are unknown.

    Raises:
        ShapeError: it takes none of them in these known shapes.
    """
    op = question.op
    if any(spec.dims is None for _, value in question.specs for spec in _flat(value)):
        return ()
    inputs = {one.name: one for one in signature.inputs}
    first: Exception | None = None
    for fill in FILLS:
        values = {name: _given(inputs[name], _filled(value, extent, fill)) for name, value in question.specs}
        positional, keywords = call_arguments(signature, op, values)
        try:
            with np.errstate(all="ignore"):
                result = signature.function(*positional, **keywords)
        except Exception as error:
            first = error if first is None else first
            continue
        arrays = [_array(one) for one in (result if signature.several else [result])]
        return tuple(TensorSpec(array.shape, DataType.of(array)) for array in arrays)
    if not question.shapes_known:
        return ()  # what stood for an unknown extent may be what does not fit
    if isinstance(first, TazzaError):
        raise first
    message = f"{signature.where} failed on {', '.join(FILLS)} of these shapes: {type(first).__name__}: {first}"
    hint = "give infer=, shape patterns in its annotations, or dynamic=True"
    raise op.error(ShapeError, message, hint) from first


def _filled(value: Any, extent: int, fill: str) -> Any:
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple(_filled(one, extent, fill) for one in cast("tuple[TensorSpec, ...]", value))
    dims = tuple(extent if one is None else one for one in value.dims)
    if value.dtype is DataType.STRING:
        return Tensor.from_numpy(np.full(dims, b"", object))
    # np.zeros touches no memory until somebody reads it, and sharing keeps it so.
    array = np.zeros(dims, value.dtype.numpy)
    if fill == "ones" or (fill == "identity matrices" and len(dims) < 2):
        array[...] = 1
    elif fill == "identity matrices":
        diagonal = np.arange(min(dims[-2:]))
        array[..., diagonal, diagonal] = 1
    return Tensor.from_numpy(array, copy=None)


def _agreed(a: TensorSpec, b: TensorSpec) -> TensorSpec | None:
    if a.rank != b.rank:
        return TensorSpec(None, a.dtype)
    return replace(a, dims=tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True)))
