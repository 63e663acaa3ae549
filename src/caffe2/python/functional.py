"""Operators as functions of arrays: `Functional.Relu(x).output_0`."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from caffe2.python import core, workspace
from caffe2.python.onnx.workspace import Workspace

OpSchema = workspace.C.OpSchema


def namedtupledict(typename: str, field_names: Sequence[str], *args: Any, **kwargs: Any) -> Any:
    """Return a class of tuples whose fields are found by attribute, position, and name as a key."""
    kwargs.setdefault("rename", True)
    base: Any = namedtuple(typename, field_names, *args, **kwargs)  # pyright: ignore[reportUntypedNamedTuple] -- of anything
    positions = {name: position for position, name in enumerate(field_names)}

    class Outputs(base):
        __slots__ = ()

        def __getitem__(self, key: Any) -> Any:
            return base.__getitem__(self, positions[key] if isinstance(key, str) else key)

    Outputs.__name__ = typename
    return Outputs


def _output_count(schema: Any, inputs: int, asked: int | None) -> int:
    """Return how many outputs an operator has.

    Raises:
        ValueError: so many inputs or outputs are not allowed, or nobody says how many there are.
    """
    if not schema.min_input <= inputs <= schema.max_input or not schema.num_inputs_allowed(inputs):
        told = f"{schema.min_input} - {schema.max_input}"
        raise ValueError(f"Functional C2: Number of inputs not in range: {told} or not allowed.")
    if asked is not None:
        within = schema.min_output <= asked <= schema.max_output and schema.num_outputs_allowed(asked)
        if not within or not schema.num_inputs_outputs_allowed(inputs, asked):
            told = f"{schema.min_output} - {schema.max_output}"
            raise ValueError(f"Functional C2: Number of output not in range: {told} or not allowed")
        return asked
    calculated = schema.CalculateOutput(inputs)
    if calculated not in (-1, 0):
        return min(calculated, schema.max_output)
    if schema.max_output == schema.inf:
        raise ValueError("For operators with max_output == inf, user should pass num_output explicitly.")
    return schema.max_output


class _Functional:
    """Makes a function of each operator type."""

    def __getattribute__(self, op_type: str) -> Any:
        def call(*inputs: Any, **args: Any) -> Any:
            schema: Any = OpSchema.get(op_type)
            count = _output_count(schema, len(inputs), args.pop("num_output", None))
            names = [f"input_{position}" for position in range(len(inputs))]
            outputs = [f"output_{position}" for position in range(count)]
            for position, name in enumerate(names):
                for place in range(count):
                    if schema.inplace_enforced(position, place):
                        outputs[place] = name
            op = core.CreateOperator(op_type, names, outputs, **args)
            own = Workspace()
            with core.DeviceScope(args.get("device_option", core.DeviceOption(0))):
                for name, value in zip(names, inputs, strict=True):
                    own.FeedBlob(name, value)
                own.RunOperatorOnce(op)
                return namedtupledict("output", outputs)(*own.FetchBlobs(outputs))

        return call


Functional = _Functional()
