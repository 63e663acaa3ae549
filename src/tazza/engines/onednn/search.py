"""Variants of one operator: every layout and implementation that may be the fastest, for a plan to time.

They stand in `tazza.operator.choice.VARIANTS`; names are the same in another process.

Kernels that have a choice register a `Requests` function: it returns the ways to ask oneDNN by name, best first, and
what makes an answer of what oneDNN found. The kernel itself takes the first fast one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from tazza.data_class import dataclass
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.prepare import name_specs
from tazza.engines.onednn.primitive import PrimitiveDescriptor, first_fast
from tazza.operator import LaidOut, OpSchema, OpView, Spec, kernel_key
from tazza.operator.choice import VARIANTS, Variant
from tazza.tensor import TensorSpec


@dataclass(frozen=True)
class Requests:
    """Ways to ask for a primitive, by name and best first, and what turns a found one into the kernel's answer.

    `first` takes one of them. `otherwise` has more ways, with an answer of another form; a kernel tries them where
    these find no fast code.
    """

    ways: Mapping[str, Callable[[], PrimitiveDescriptor]]
    answer: Callable[[PrimitiveDescriptor], LaidOut]
    otherwise: Requests | None = None
    first: Callable[[Iterable[Callable[[], PrimitiveDescriptor]]], PrimitiveDescriptor] = first_fast

    def best(self) -> LaidOut:
        """Return the answer for the first way that finds fast code.

        Raises:
            Unimplemented: none does.
        """
        try:
            return self.answer(self.first(self.ways.values()))
        except Unimplemented:
            if self.otherwise is None:
                raise
            return self.otherwise.best()


Ask: TypeAlias = Callable[[OpView, dict[str, TensorSpec]], Requests]


def searched(*schemas: OpSchema) -> Callable[[Ask], Ask]:
    """Register what asks for the primitives of schemas."""

    def decorate(ask: Ask) -> Ask:
        for one in schemas:
            VARIANTS.register(kernel_key(one.type, "onednn"), partial(_variants, ask), help=ask.__qualname__)
        return ask

    return decorate


def _variants(ask: Ask, op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> list[Variant]:
    """Return all variants of an operator for these specs, reference code left out; none where there is no choice."""
    specs = name_specs(op, inputs, outputs)
    if any(spec.size == 0 for spec in specs.values()):
        return []
    requests = ask(op, specs)
    found: dict[tuple[Any, ...], Variant] = {}
    for way, request in requests.ways.items():
        for one in _implementations(request):
            answer = requests.answer(one)
            # Another way to ask often leads to the same code on the same layouts.
            key = (one.implementation, *sorted(answer.layouts.items(), key=lambda item: item[0]))
            found.setdefault(key, Variant(f"{way} {one.implementation}", answer))
    return list(found.values())


def _implementations(request: Callable[[], PrimitiveDescriptor]) -> list[PrimitiveDescriptor]:
    try:
        return [one for one in request().alternatives() if not one.is_slow]
    except Unimplemented:
        return []
