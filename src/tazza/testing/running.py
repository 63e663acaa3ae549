"""Running one operator on the engine that is asked for, and seeing which one ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from tazza.device import place_of
from tazza.errors import CheckError
from tazza.operator import LocalBlobs, Operator, find_schema, why_unavailable
from tazza.proto import OperatorDef
from tazza.tensor import Tensor
from tazza.tensor.transfer import to_place
from tazza.testing.value import Array, hold, tensor_of

Settle: TypeAlias = Callable[[Operator, str, "str | None"], None]
"""What judges an answer of an engine that was asked for: the operator, the engine, and why it refused, or None."""


def run(
    definition: OperatorDef,
    inputs: Sequence[Any],
    engine: str | None = None,
    *,
    settle: Settle | None = None,
    held: Sequence[Tensor] = (),
) -> tuple[list[Array], Operator]:
    """Run an operator on tensors, or arrays whose memory is shared; returns its outputs and the operator.

    Args:
        definition: the operator.
        inputs: one for each of its inputs.
        engine: is asked for, and must run or refuse with a reason; None asks for none.
        settle: judges which of both it may do; without it either will do.
        held: what outputs hold before, in order, but for those in place.

    Raises:
        CheckError: the engine did neither.
        TazzaError: the operator refuses these inputs.
    """
    asked = OperatorDef.FromString(definition.SerializeToString())
    if engine is not None:
        asked.engine = engine
    blobs = LocalBlobs()
    schema = find_schema(asked.type)
    places, _ = schema.infer_places(schema.typed_view(asked), place_of(asked.device_option))
    for name, value, place in zip(asked.input, inputs, places, strict=True):
        if name not in blobs.blobs:
            given = tensor_of(value)
            blobs.create_blob(name).set(to_place(given, place) if isinstance(given, Tensor) else given)
    for name, before in zip(asked.output, held, strict=False):
        if name not in blobs.blobs:
            blobs.create_blob(name).set(before)
    operator = Operator(asked, blobs, strict=True)
    with np.errstate(all="ignore"):
        operator.run()
    results = [cast("Array", blob.tensor().fetched()) for blob in operator.outputs]
    operator.close()
    if engine is not None:
        reason = refusal(operator, engine)
        if settle is not None:
            settle(operator, engine, reason)
    return results, operator


def refusal(operator: Operator, engine: str) -> str | None:
    """Return why `engine` refused what an operator ran last, None where it ran.

    Raises:
        CheckError: it neither ran nor said why not.
    """
    return None if engine_that_ran(operator) == engine else _why_refused(operator, engine)


def assert_ran(operator: Operator, engine: str) -> None:
    """Require that `engine` ran.

    Raises:
        CheckError: another one did.
    """
    hold(engine_that_ran(operator) == engine, f"asked for {engine}, ran {operator.choices}")


def engine_that_ran(operator: Operator) -> str:
    """Return the engine that computed what an operator ran last.

    Raises:
        CheckError: not one did.
    """
    taken = [choice.engine for choice in operator.choices if choice.reason is None]
    hold(len(taken) == 1, f"not one engine ran: {operator.choices}")
    return taken[0]


def _why_refused(operator: Operator, engine: str) -> str:
    reasons = [choice.reason for choice in operator.choices if choice.engine == engine]
    reason = reasons[0] if reasons else None
    if not reason:
        raise CheckError(f"{engine} was passed over without a reason: {operator.choices}")
    hold(why_unavailable(operator.op.type, operator.place.kind, engine) is None, f"{engine} was not there to refuse")
    return reason
