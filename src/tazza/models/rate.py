"""The rates at which a net learns, by what the schemas of its operators say."""

from __future__ import annotations

from tazza.operator import SCHEMAS
from tazza.proto import NetDef


def rates_of(net: NetDef) -> list[str]:
    """Return the blobs of a net that hold learning rates, in the order in which they are made.

    >>> from tazza.operator import operator_def
    >>> rates_of(NetDef(op=[operator_def("LearningRate", ["t"], ["lr"], base_lr=0.1, policy="fixed")]))
    ['lr']
    """
    found: list[str] = []
    for op in net.op:
        schema = SCHEMAS.get(op.type)
        if schema is not None and schema.rate is not None:
            letters = schema.typed_view(op).output_letters
            found.extend(name for letter, name in zip(letters, op.output, strict=True) if letter == schema.rate)
    return found
