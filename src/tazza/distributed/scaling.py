"""How long a step takes on many ranks: computed, from the times of one rank and two numbers of a network.

A reduction of n bytes over p ranks by rings takes 2 (p - 1) alpha + 2 n (p - 1) / p / bandwidth seconds: each rank
sends and receives every part twice, but for its own. Buckets go around one after the other, each when the backward pass
has made it and the one before is through; the step ends when the last one is, and parameters are updated.

Source: Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective Communication Operations in MPICH" (alpha,
bandwidth, rings); 10.1177/1094342005051521.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.data_class import dataclass


@dataclass(frozen=True, slots=True)
class Network:
    """What joins ranks: seconds that a message takes at least, and bytes a second of one rank."""

    name: str
    alpha_s: float
    bytes_per_s: float

    def reduction_s(self, nbytes: int, ranks: int) -> float:
        """Return the seconds that a reduction takes.

        >>> Network("slow", 0.0, 100.0).reduction_s(50, 2), Network("far", 1.0, 1e9).reduction_s(0, 4)
        (0.5, 6.0)
        """
        return 2 * (ranks - 1) * self.alpha_s + 2 * nbytes * (ranks - 1) / ranks / self.bytes_per_s


@dataclass(frozen=True, slots=True)
class Bucket:
    """A part of the gradients: when it is ready, in seconds since the step began, and its size."""

    ready_s: float
    nbytes: int


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A step of one rank: when its buckets are ready, when the backward pass ends, and what follows that."""

    buckets: Sequence[Bucket]
    backward_s: float
    update_s: float

    @property
    def alone_s(self) -> float:
        """Seconds of the step without other ranks."""
        return self.backward_s + self.update_s

    def on(self, network: Network, ranks: int) -> float:
        """Return the seconds of the step on so many ranks.

        >>> step = MeasuredStep([Bucket(1.0, 100), Bucket(3.0, 100)], backward_s=3.0, update_s=0.5)
        >>> step.on(Network("n", 0.0, 100.0), 1), step.on(Network("n", 0.0, 100.0), 2)
        (3.5, 4.5)
        """
        if ranks == 1:
            return self.alone_s
        through_s = 0.0
        for bucket in self.buckets:
            through_s = max(through_s, bucket.ready_s) + network.reduction_s(bucket.nbytes, ranks)
        return max(through_s, self.backward_s) + self.update_s

    def efficiency(self, network: Network, ranks: int) -> float:
        """Return the share of the speed of as many single ranks."""
        return self.alone_s / self.on(network, ranks)
