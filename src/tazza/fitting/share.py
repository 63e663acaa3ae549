"""What one of several ranks has of a training of pictures; a training by itself has the whole."""

from __future__ import annotations

from tazza.data_class import dataclass
from tazza.proto import NetDef


@dataclass(frozen=True, slots=True)
class Share:
    """The whole; the base of what ranks have, which a floor above knows.

    Attributes:
        rank: which part of each batch.
        size: of how many, all as long.
    """

    rank: int
    size: int

    def part_of(self, batch: int) -> slice:
        """Return which pictures of a joint batch these are.

        >>> Share(1, 4).part_of(32)
        slice(8, 16, None)
        """
        each = batch // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def prepared(self) -> None:
        """Be told that the databases lie there, before the init net runs."""

    def nets(self, init_net: NetDef, train_net: NetDef) -> tuple[NetDef, NetDef]:
        """Return the nets with what the ranks exchange."""
        return init_net, train_net


WHOLE = Share(0, 1)
"""That of a training by itself."""
