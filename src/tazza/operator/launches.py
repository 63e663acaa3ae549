"""Launches that equal operators share: a step net of T steps prepares once, though each step has operators of its own.

A `Launch` knows no addresses and no names, so what one operator prepared serves every other one whose definition
differs by names only, for the same signature, as long as nobody registered another schema or kernel in between.

State: `LAUNCHES`, and those of each operator.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from google.protobuf.message import Message

from tazza.device import place_of
from tazza.operator.choice import Chosen, find_kernel
from tazza.operator.engine import Candidate, why_unavailable
from tazza.operator.schema import OpSchema
from tazza.operator.view import OpView
from tazza.proto import OperatorDef
from tazza.runtime.cache import Cache

KEPT = 8
"""Signatures of which an operator keeps the launch itself."""
BOUND = 1024
"""Launches that are kept for others, beside those that living operators hold."""
NAMES = frozenset({"name", "debug_info", "control_input", "input", "output"})
"""Fields of a definition that only name."""
DEFINITION_BYTES = 1 << 14
"""Operators with more than that in their definition (the weights of a model, say) share with nobody."""


LAUNCHES: Cache[Hashable, tuple[OpSchema, Chosen]] = Cache("launches", BOUND, kernels=True)
"""Those of the process, with the schema that they were prepared by."""
OWN: Cache[Hashable, Chosen] = Cache("launches of an operator", KEPT, kernels=True)
"""What every operator has another of."""


def find_launch(key: Hashable, schema: OpSchema, kind: str) -> Chosen | None:
    """Return what was prepared under a key by these very declarations of schema and kernel, or None."""
    found = LAUNCHES.get(key)
    return None if found is None or found[0] is not schema or not _stands(found[1], kind) else found[1]


def _stands(chosen: Chosen, kind: str) -> bool:
    type, engine = chosen.kernel.type, chosen.kernel.engine
    return why_unavailable(type, kind, engine) is None and find_kernel(type, kind, engine) is chosen.kernel


class OperatorLaunches:
    """The launches of one operator by signature: few of its own, which live as long as it, over the shared ones."""

    def __init__(self) -> None:
        """Start without."""
        self._own = OWN.another()
        self._definition: tuple[Hashable, ...] | None = None
        self._looked = False

    def get(
        self, signature: tuple[Hashable, ...], op: OpView, ranking: Sequence[Candidate], prepare: Callable[[], Chosen]
    ) -> Chosen:
        """Return what was prepared for a signature, by this operator or an equal one; else prepare it."""
        found = self._own.get(signature)
        if found is None:
            found = self._shared(signature, op, ranking, prepare)
            self._own.put(signature, found)
        return found

    def clear(self) -> None:
        """Hold none any more."""
        self._own.clear()

    def _shared(
        self, signature: tuple[Hashable, ...], op: OpView, ranking: Sequence[Candidate], prepare: Callable[[], Chosen]
    ) -> Chosen:
        if not self._looked:
            self._definition, self._looked = definition_key(op.definition), True
        if self._definition is None:
            return prepare()
        key = self._definition, tuple(ranking), signature
        found = find_launch(key, op.schema, place_of(op.definition.device_option).kind)
        if found is None:
            found = prepare()
            LAUNCHES.put(key, (op.schema, found))
        return found


def definition_key(definition: OperatorDef) -> tuple[Hashable, ...] | None:
    """Return what is equal for definitions that differ by names only; None for one that is too large to share.

    Which blobs are the same one, as an output in place is, makes a difference; what the operator waits for does not.
    No message is made: the library that makes them ends the process where there is no memory.
    """
    if definition.ByteSize() > DEFINITION_BYTES:
        return None
    places = {name: place for place, name in enumerate(dict.fromkeys((*definition.input, *definition.output)))}
    wires = tuple(tuple(places[name] for name in names) for names in (definition.input, definition.output))
    values = ((field.name, value) for field, value in definition.ListFields() if field.name not in NAMES)
    return wires, *((name, _hashable(value)) for name, value in values)


def _hashable(value: Any) -> Hashable:
    """Return the value of a field, messages as bytes."""
    if isinstance(value, (str, bytes, int, float)):
        return value
    if isinstance(value, Message):
        return value.SerializeToString(deterministic=True)
    return tuple(map(_hashable, value))
