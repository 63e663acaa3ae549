"""A loop as ONNX has it: ONNXWhile. Its body hands values from round to round, and others to a list of all rounds.

Blobs:  max_trip_count, condition (of each the first element), V (first value of each that is handed on) -> W (their
last values, then the lists S). The body reads a number of the round, a condition and V by its first external inputs,
and gives the next condition, the next V and an element of each S by its external outputs.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import NotFoundError, SchemaError
from tazza.operator import (
    Array,
    BlobOwner,
    Effects,
    Operator,
    OpView,
    OwnedNets,
    Role,
    Touched,
    anything,
    arg,
    blob,
    host_kernel,
    not_written,
    schema,
    touched_by,
)
from tazza.ops.control.atomic import first
from tazza.proto import NetDef
from tazza.tensor import Blob, DataType, Tensor

ONNX_WHILE = schema(
    "ONNXWhile",
    """Runs `body` as long as there are rounds left and the condition holds.

    An element of a list has at least one axis, along the first of which the lists are joined; in all rounds it has one
    shape. A list of no round is int32, without elements. Unless `disable_scopes` is given the body runs in a workspace
    of its own, which sees nothing outside.""",
    inputs=[
        blob("max_trip_count", DataType.INT64, host=True, doc="its first element counts"),
        blob("condition", DataType.BOOL, host=True, role=Role.DATA, doc="its first element counts"),
        blob("V", optional=True, variadic=True, role=Role.DATA, doc="the first value of each that is handed on"),
    ],
    outputs=[blob("W", type_name="*", optional=True, variadic=True, doc="last values of V, then lists of all rounds")],
    args=[
        arg("body", NetDef, doc="what to run"),
        arg("has_trip_count", bool, False, doc="whether max_trip_count ends the loop"),
        arg("has_cond", bool, False, doc="whether the condition ends the loop"),
        arg("save_scopes", bool, False, doc="keep what each round made; it has no effect"),
        arg("disable_scopes", bool, False, doc="run the body in the workspace of the operator"),
        arg("num_loop_carried_deps", int, None, minimum=0, doc="how many V there are; else as the body has inputs"),
    ],
    in_place=anything(),
    effects=Effects.WORKSPACE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2; ONNX operator Loop",
)


def handed_on(op: OpView) -> int:
    """Return how many values go from round to round."""
    given: int | None = op.num_loop_carried_deps
    return len(op.body.external_input) - 2 if given is None else given


@ONNX_WHILE.validate
def onnx_while_validate(op: OpView) -> None:
    count, body = handed_on(op), op.body
    given, inputs, outputs = len(op.definition.input) - 2, len(body.external_input), len(body.external_output)
    if inputs < count + 2 or outputs < count + 1 or count < 0:
        relation = (
            f"a body with {inputs} external inputs and {outputs} external outputs hands on {max(count, 0)} values"
        )
        raise op.error(SchemaError, relation, "it needs two inputs and one output besides")
    if given != count:
        raise op.error(SchemaError, f"{given} first values are given, the body hands on {count}")
    if len(op.definition.output) != outputs - 1:
        raise op.error(SchemaError, f"it has {len(op.definition.output)} outputs, the body gives {outputs - 1}")


@ONNX_WHILE.touches
def onnx_while_touches(op: OpView) -> Touched:
    certain = frozenset(op.definition.output)
    if not op.disable_scopes:
        return Touched(certain=certain)
    bound = tuple(op.body.external_input[: handed_on(op) + 2])
    return touched_by(op.body).perhaps().given(bound).also(writes=bound, certain=(*bound, *certain))


@host_kernel(ONNX_WHILE)
class ONNXWhile:
    """Has the body, made with the operator."""

    def __init__(self, operator: Operator) -> None:
        self.nets = OwnedNets(operator)
        op = operator.op
        self._check = operator.check
        self._home: BlobOwner = operator.workspace if op.disable_scopes else operator.workspace.child({})
        self._count = handed_on(op)
        self._number, self._condition, *self._bound = op.body.external_input[: self._count + 2]
        for name in (self._number, self._condition, *self._bound):
            self._home.create_blob(name)
        self._body = self.nets.make(op.body, self._home)

    def run(self, op: OpView, max_trip_count: Blob, condition: Blob, V: tuple[Blob, ...], W: tuple[Blob, ...]) -> None:
        rounds = int(first(op, "max_trip_count", max_trip_count.get(Tensor)))
        holds = bool(first(op, "condition", condition.get(Tensor)))
        values = [one.get(Tensor).plain().copy() for one in V]
        lists: list[list[Array]] = [[] for _ in W[self._count :]]
        number = 0
        self._hand_in(number, np.array(holds), values)
        while (not op.has_trip_count or number < rounds) and (not op.has_cond or holds):
            self._check()
            self._body.run()
            given, *left = (self._value(op, name) for name in op.body.external_output)
            holds = bool(given.reshape(-1)[0]) if given.size else False
            values = left[: self._count]
            for place, (found, element) in enumerate(zip(lists, left[self._count :], strict=True)):
                _add(op, found, element, op.body.external_output[1 + self._count + place])
            number += 1
            self._hand_in(number, given, values)
        for target, value in zip(W[: self._count], values, strict=True):
            target.tensor().assign(value)
        for target, found in zip(W[self._count :], lists, strict=True):
            target.tensor().assign(np.concatenate(found) if found else np.zeros(0, np.int32))

    def _hand_in(self, number: int, condition: Array, values: list[Array]) -> None:
        given = (np.array(number, np.int64), condition, *values)
        for name, value in zip((self._number, self._condition, *self._bound), given, strict=True):
            self._home.create_blob(name).tensor().assign(value)

    def _value(self, op: OpView, name: str) -> Array:
        found = self._home.get_blob(name)
        if found is None:
            raise op.error(NotFoundError, f"the body gives {name!r}, which nothing in it writes")
        return found.get(Tensor).plain().copy()


def _add(op: OpView, found: list[Array], element: Array, name: str) -> None:
    op.require(element.ndim > 0, f"{name!r}, an element of a list, has rank 0, it needs a first axis")
    if found:
        before, now = found[0].shape, element.shape
        op.require(before == now, f"{name!r}, an element of a list, has the shape {now}, in the first round {before}")
    found.append(element)
