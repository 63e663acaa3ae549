"""Ranks that are threads: what each has learned, held against another, whatever starts them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.distributed.data_parallel import Exchanging
from tazza.distributed.membership import Membership
from tests.distributed.cases import CASES, Case, Trained, train_rank
from tests.ops.distributed.test_collective import together


def ranks_of(
    case: str, size: int, net_type: str, exchanging: Exchanging | None = None, *, cases: Mapping[str, Case] = CASES
) -> list[Trained]:
    """Train a case on so many threads, and return what each has.

    Raises:
        BaseException: what one of them has raised.
    """

    def act(rank: int, _: object) -> Trained:
        membership = Membership(rank, size, name=f"{case} {size} {net_type}")
        return train_rank(cases[case], membership, net_type=net_type, exchanging=exchanging)

    found = together(size, act)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found


def check_same(one: Trained, other: Trained, slack: float) -> None:
    """Check that both have the same losses and parameters, to a relative slack.

    Raises:
        AssertionError: they have not.
    """
    np.testing.assert_allclose(one.losses, other.losses, rtol=slack, atol=0)
    assert one.parameters.keys() == other.parameters.keys()
    for name, values in one.parameters.items():
        np.testing.assert_allclose(values, other.parameters[name], rtol=slack, atol=slack, err_msg=name)
