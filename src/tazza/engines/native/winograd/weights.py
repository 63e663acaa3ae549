"""The gradient of filters by Winograd's algorithm: how it is cut into blocks, what it costs, and its launch."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tazza.codegen.block import BlockLaunch
from tazza.codegen.kernel import lane_count
from tazza.data_class import dataclass
from tazza.engines.native.winograd import SOURCES
from tazza.engines.native.winograd.algorithm import FORMS, Algorithm, algorithm
from tazza.engines.native.winograd.tiling import TRANSFORM_CYCLES, Problem, cycle_ns
from tazza.engines.native.winograd.weights_code import BLOCK, WeightsCode, unit_floats
from tazza.engines.native.winograd.writer import GAP
from tazza.runtime.cache import remembered
from tazza.runtime.machine import Machine, machine

LEAST_BLOCK_BYTES, MOST_BLOCK_BYTES = 1 << 20, 20 << 20
"""What V and Z of a block may take: as much as U, all of which every block reads and writes, within these bounds."""
TILES_ALONE = 16
"""Tiles of a block of one thread."""
MOST_SUM_BYTES = 6 << 20
"""What the sums of all threads may take where each has some of its own: every block reads and writes them."""
GROUP_BYTES = 256 << 10
"""What the sums of a group of units may take: they stay in the cache of a core beside V and Z of one matrix."""
PRODUCT_SHARE, CACHE_SHARE = 0.7, 0.68
"""Parts of the rates at which cores compute, and copy what the last cache holds, that products and sums reach."""
TRANSFORMS = 1.7
"""How many times what a transform of the forward pass takes these take: each tile is written to memory."""


@dataclass(frozen=True)
class WeightsTiling:
    """How the gradient of the filters of a problem is computed, with tiles of m x m outputs."""

    problem: Problem
    m: int
    threads: int

    @property
    def algorithm(self) -> Algorithm:
        """F(r, m): the outputs of this correlation are the taps."""
        return algorithm(self.problem.r, self.m)

    @property
    def tiles(self) -> int:
        """T."""
        return self.problem.tiles(self.m)

    @property
    def channels(self) -> tuple[int, int]:
        """C and K, filled up to whole vectors and panels."""
        L = lane_count()
        return -(-self.problem.C // L) * L, -(-self.problem.K // (2 * L)) * 2 * L

    @property
    def alone(self) -> bool:
        """Whether each thread has tiles and sums of its own."""
        return self.tiles > self.threads * TILES_ALONE and self.threads * self.sum_bytes <= MOST_SUM_BYTES

    @property
    def sum_bytes(self) -> int:
        """U."""
        return 4 * self.algorithm.a**2 * math.prod(self.channels)

    @property
    def block(self) -> int:
        """Tiles of a block."""
        if self.alone:
            return TILES_ALONE
        limit = min(max(self.sum_bytes, LEAST_BLOCK_BYTES), MOST_BLOCK_BYTES)
        return max(16, min(self.tiles, limit // (4 * self.algorithm.a**2 * sum(self.channels))))

    @property
    def units(self) -> int:
        """Units of U."""
        return math.prod(self.channels) // unit_floats(lane_count())

    @property
    def group(self) -> int:
        """Units of a group: all of them where each thread has its own sums, of which it reads every block anyway."""
        most = GROUP_BYTES // (4 * self.algorithm.a**2 * unit_floats(lane_count()))
        return self.units if self.alone else max(1, min(most, -(-self.units // self.threads)))

    @property
    def groups(self) -> int:
        """Groups whose sums are kept: one for each thread, unless there are several blocks to add up."""
        if self.alone:
            return 1
        return self.threads if self.block >= self.tiles else -(-self.units // self.group)

    @property
    def matrices(self) -> dict[str, int]:
        """Floats of one matrix of V, of Z and of the U of a group, with a gap."""
        C, K = self.channels
        sums = self.group * unit_floats(lane_count())
        return {"v_matrix": self.block * C + GAP, "z_matrix": self.block * K + GAP, "u_matrix": sums + GAP}

    @property
    def set_floats(self) -> int:
        """Floats of V, Z and U: of one thread where each has its own, else of all."""
        V, Z, U = self.matrices.values()
        return self.algorithm.a**2 * (V + Z + self.groups * U) + 64

    @property
    def scratch_bytes(self) -> int:
        """V, Z and U of all threads."""
        return 4 * self.set_floats * (self.threads if self.alone else 1)

    @property
    def cycles(self) -> float:
        """What it takes."""
        into, _ = TRANSFORM_CYCLES[self.m, self.problem.r]
        C, K = self.channels
        products = 2 * self.algorithm.a**2 * self.tiles * C * K / (4 * lane_count() * PRODUCT_SHARE)
        transforms = TRANSFORMS * self.tiles * (C + K) / lane_count() * into
        # Written with a block, read with the next; where each thread has its own they stay in its caches.
        again = 0 if self.alone else -(-self.tiles // self.block) - 1
        sums = again * 2 * self.sum_bytes / (CACHE_SHARE * machine().cache_bytes_per_ns * cycle_ns())
        return (products + transforms + sums) / self.threads

    @property
    def estimate_ns(self) -> float:
        """What it takes, to be compared with what others say."""
        return self.cycles * cycle_ns()


def best_weights_tiling(problem: Problem, threads: int) -> WeightsTiling:
    """Return the fastest way by Winograd's algorithm."""
    return _best_weights_tiling(problem, threads, (machine(), lane_count()))


@remembered("tilings for weights", entries=1024)
def _best_weights_tiling(problem: Problem, threads: int, model: tuple[Machine, int]) -> WeightsTiling:
    """Return the fastest one; `model` is what else that depends on: rates of the machine, and its lanes."""
    del model
    return min(
        (WeightsTiling(problem, m, threads) for m, r in FORMS if r == problem.r), key=lambda tiling: tiling.cycles
    )


def weights_launch(tiling: WeightsTiling, steps: Mapping[str, int], *, bias: bool) -> BlockLaunch:
    """Return the launch for letters X, dY, dW and db; `steps` are the words of these: x_image ..., w_x."""
    code = WeightsCode(tiling.algorithm, bias, tiling.alone)
    words = BLOCK.words(
        **{"threads": tiling.threads, "thread_floats": tiling.set_floats if tiling.alone else 0},
        **tiling.problem.words(tiling.m),
        **steps,
        **{"N": tiling.problem.N, "block": tiling.block, "group": tiling.group, **tiling.matrices},
        **({} if bias else {"db": 0}),
    )
    return BlockLaunch(SOURCES.compiled(code.description, code.write, rewrite=False), words, tiling.scratch_bytes)
