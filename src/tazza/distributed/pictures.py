"""A training of pictures of which one of several ranks learns its share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from tazza.data_class import dataclass
from tazza.distributed.data_parallel import Exchanging, parallel_nets
from tazza.distributed.membership import Membership
from tazza.fitting.share import Share
from tazza.proto import NetDef


@dataclass(frozen=True, slots=True)
class RankShare(Share):
    """The part of a rank: `ready` is called when the databases lie there, before the ranks meet in the init net."""

    membership: Membership
    ready: Callable[[], object]
    exchanging: Exchanging | None = None

    @classmethod
    def of(
        cls, membership: Membership, batch: int, ready: Callable[[], object], exchanging: Exchanging | None = None
    ) -> Self:
        """Return the share that a rank has of joint batches of so many pictures.

        Raises:
            ArgumentError: they cannot be divided among the ranks.
        """
        membership.share_of(batch)
        return cls(membership.rank, membership.size, membership, ready, exchanging)

    def prepared(self) -> None:
        """Let the others come."""
        self.ready()

    def nets(self, init_net: NetDef, train_net: NetDef) -> tuple[NetDef, NetDef]:
        """Return the nets made parallel."""
        return parallel_nets(init_net, train_net, self.membership, self.exchanging)
