"""The batches of a training, each by its number: the same number gives the same batch, in any process.

So a training that goes on from a checkpoint sees what it would have seen without an end. All pictures come once in a
round, in an order that is drawn for each round; batches follow each other in that stream, so that one may lie across
two rounds. While a net learns from a batch, a thread makes the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.device import Event
from tazza.fitting.augmentation import Augmentation
from tazza.fitting.records import PictureRecords
from tazza.fitting.share import WHOLE, Share
from tazza.images.preprocessing import Preprocessing
from tazza.models.zoo.classifier import DATA, LABEL
from tazza.runtime.closing import Closing
from tazza.runtime.workers import WorkerPool

Batch = Mapping[str, NDArray[Any]]
ORDER, CHANGES = 0, 1
"""What generators are for, in their seeds."""


@dataclass(slots=True)
class _Asked:
    """A batch that a thread makes; one of the two is there when it is done."""

    number: int
    done: Event = field(default_factory=Event)
    batch: Batch | None = None
    error: BaseException | None = None


class PictureBatches(Closing):
    """Batches `data` (N, C, H, W), as the net takes them, and `label` (N).

    Who calls is one thread; the order of the round it is in, and the batch that is made ahead, are its state.
    """

    def __init__(
        self,
        records: PictureRecords,
        size: int,
        prepare: Preprocessing,
        augmentation: Augmentation,
        seed: int,
        *,
        share: Share = WHOLE,
    ) -> None:
        """Draw from `records`, which it closes in the end; of batches of `size` pictures only a share is made."""
        self.size, self._share = size, share
        self._records, self._prepare, self._augmentation, self._seed = records, prepare, augmentation, seed
        self._orders: dict[int, NDArray[np.intp]] = {}
        self._thread = WorkerPool(1, "tazza-batches")
        self._asked: _Asked | None = None

    def close(self) -> None:
        """End the thread and close the records; closing twice is allowed."""
        self._asked = None
        self._thread.close()
        self._records.close()

    def batch(self, number: int) -> Batch:
        """Return the batch of a step, by its number from 0; the next one is begun.

        Raises:
            TazzaError: a picture cannot be read.
        """
        asked = self._asked
        if asked is None or asked.number != number:
            asked = _Asked(number)
            self._make(asked)
        asked.done.wait()
        if asked.error is not None:
            self._asked = None
            raise asked.error
        assert asked.batch is not None, "it was made"
        following = _Asked(number + 1)
        self._thread.submit(lambda: self._make(following))
        self._asked = following  # only now: an interrupt before would leave one that nobody makes
        return asked.batch

    def _make(self, asked: _Asked) -> None:
        try:
            asked.batch = self.made(asked.number)
        except BaseException as error:
            asked.error = error
        finally:
            asked.done.finish()

    def made(self, number: int) -> Batch:
        """Make the batch of a number, here and now."""
        pixels, labels = self._records.batch(self.places(number).tolist())
        changed = self._augmentation(pixels, np.random.default_rng([self._seed, CHANGES, number]), self._share)
        return {DATA: self._prepare.numbers(changed), LABEL: labels}

    def places(self, number: int) -> NDArray[np.intp]:
        """Return the positions of the pictures of a batch, or of the share of one."""
        count = self._records.count
        at = np.arange(number * self.size, (number + 1) * self.size)[self._share.part_of(self.size)]
        rounds = at // count
        orders = {each: self._order(each) for each in np.unique(rounds).tolist()}
        self._orders = orders
        return np.array([orders[each][place] for each, place in zip(rounds.tolist(), at % count, strict=True)])

    def _order(self, number: int) -> NDArray[np.intp]:
        known = self._orders.get(number)
        if known is not None:
            return known
        return np.random.default_rng([self._seed, ORDER, number]).permutation(self._records.count)
