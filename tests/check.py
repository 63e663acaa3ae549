"""The judge of operators (`tazza.testing`) as the tests use it: what engines may refuse is declared, call by call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import pytest

from tazza import testing
from tazza.operator import Operator
from tazza.proto import OperatorDef
from tazza.tensor import Place, Tensor
from tazza.testing import Case, assert_close, assert_ran, engines_of, evaluate, refusal, trials
from tazza.testing.gradient import in_some_direction
from tazza.testing.value import TOLERANCE, Array
from tests.declared import LEDGER
from tests.sampled import is_fast

__all__ = [
    "TOLERANCE",
    "Array",
    "Case",
    "assert_close",
    "assert_ran",
    "check_engine",
    "check_gradient",
    "check_op",
    "engines_of",
    "evaluate",
    "in_some_direction",
    "on_all_engines",
    "run",
]


class CaseOfBlobs(Protocol):
    """A case of another kind than arrays, over a workspace: a `Sequence` or a `Nested`."""

    def check(self, place: Place | None = None) -> None:
        """Assert everything that must hold."""
        ...


def on_all_engines(cases: Iterable[Case]) -> Callable[[Any], Any]:
    """Parametrize a test over cases and the engines that have a kernel for each; a quarter of them is fast."""
    listed = [
        pytest.param(one.case, one.engine, id=one.name, marks=() if is_fast(one.name, 4) else pytest.mark.slow)
        for one in trials(cases)
    ]
    return pytest.mark.parametrize(("case", "engine"), listed)


def check_op(case: Case | CaseOfBlobs, engine: str = "", place: Place | None = None) -> None:
    """Run `case` on `engine`, at a place if that is not the host, and assert everything that must hold."""
    if isinstance(case, Case):
        testing.check_op(case, engine, place, settle=LEDGER.settle)
    else:
        case.check(place)


def check_gradient(case: Case, engine: str, *, seed: int = 0) -> None:
    """Compare gradients with central differences; see `testing.check_gradient`."""
    testing.check_gradient(case, engine, seed=seed, settle=LEDGER.settle)


def run(
    definition: OperatorDef,
    inputs: Sequence[Any],
    engine: str | None = None,
    *,
    refusable: bool = False,
    held: Sequence[Tensor] = (),
) -> tuple[list[Array], Operator]:
    """Run an operator; the engine that is asked for refuses as it is declared, or either where it is `refusable`."""
    return testing.run(definition, inputs, engine, settle=None if refusable else LEDGER.settle, held=held)


def check_engine(operator: Operator, engine: str, *, refusable: bool = False) -> str | None:
    """Assert that `engine` ran, or gave a reason not to, which is returned: as declared, or either if `refusable`."""
    reason = refusal(operator, engine)
    if not refusable:
        LEDGER.settle(operator, engine, reason)
    return reason
