"""How a convolution is cut into tiles, blocks and slices, and how long that takes: a model, in cycles of one core.

    cycles = scratch + turns * (ITEM_CYCLES + transforms)
             + hypot(products, first) + (turns - 1) * hypot(products, again)

`first` is bringing in filters from memory, `again` from a cache: loads overlap with products, so that the longer one
counts, and a part of the other. `scratch` is bringing in V and M, whose places other operators had before. What a cycle
is, and what memory brings in one, follows from the model of the machine.
The constants are those with which, of some 3,000 tilings of 46 layers (of GoogLeNet, ResNet-50, VGG-16 and LeNet), the
fastest tiles are found but for 2 % of their time, and the fastest tilings but for a tenth, on two cores with AVX-512.
"""

from __future__ import annotations

import math

from tazza.codegen.kernel import lane_count
from tazza.data_class import dataclass
from tazza.engines.native.winograd.algorithm import FORMS, Algorithm, algorithm
from tazza.engines.native.winograd.filters import Filters
from tazza.engines.native.winograd.writer import GAP
from tazza.runtime.cache import remembered
from tazza.runtime.machine import Machine, machine
from tazza.tensor.offer import BYTES_PER_NS

ROWS = {16: (14, 12, 10, 8), 8: (6,), 4: (6,)}
"""L -> tiles of a register tile: as many as there are registers for, fewer where few tiles are left."""
L2_BYTES = 1 << 20
"""The cache of a core: what a thread uses again and again should fit in."""
TRANSFORM_CYCLES = {
    (2, 3): (85, 65),
    (4, 3): (350, 200),
    (5, 3): (900, 600),
    (2, 5): (350, 125),
    (4, 5): (600, 450),
}
"""(m, r) -> of one tile and one vector of channels: into V, out of M."""
SPILL = 1.5
"""How many times that takes where V and M do not fit into the cache of a core."""
PRODUCT_SHARE = 0.75
"""Part of the rate at which cores compute that the products here reach."""
MEMORY_GAIN, CACHE_GAIN = 1.6, 1.5
"""How many times the rates of a copy, which writes too, filters come to a core at: from memory, and from a cache."""
SCRATCH_GAIN = 0.7
"""How many times that of a copy from a cache V and M come at: what was there is written back before."""
ITEM_CYCLES = 100
BLOCK_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Register tiles in a block that are tried."""


@dataclass(frozen=True)
class Problem:
    """A convolution of stride 1: Y (N, oH, oW, K) from X (N, H, W, C) with r x r filters."""

    N: int
    C: int
    K: int
    r: int
    image: tuple[int, int]
    out: tuple[int, int]
    pads: tuple[int, int]

    @property
    def flops(self) -> int:
        """Those of the direct algorithm."""
        return 2 * self.N * math.prod(self.out) * self.K * self.C * self.r**2

    @property
    def weights(self) -> int:
        """Elements of W."""
        return self.K * self.C * self.r**2

    def across(self, m: int) -> tuple[int, int]:
        """Return how many tiles of m x m outputs there are down and across an image."""
        down, across = (-(-extent // m) for extent in self.out)
        return down, across

    def tiles(self, m: int) -> int:
        """Return how many tiles of m x m outputs all images have."""
        return self.N * math.prod(self.across(m))

    def words(self, m: int) -> dict[str, int]:
        """Return what the words of TILES, but for steps, are in tiles of m x m outputs."""
        down, across = self.across(m)
        return {
            **{"H": self.image[0], "W": self.image[1], "C": self.C, "oH": self.out[0], "oW": self.out[1], "K": self.K},
            **{"top": self.pads[0], "left": self.pads[1]},
            **{"tiles_down": down, "tiles_across": across, "tiles": self.tiles(m)},
        }


def cycle_ns() -> float:
    """Return how long a cycle takes, in which a core multiplies and adds two vectors."""
    return 4 * lane_count() / machine().flops_per_ns


def cache_bytes() -> float:
    """Return the bytes of filters that a core reads from the last cache in a cycle."""
    return CACHE_GAIN * machine().cache_bytes_per_ns * cycle_ns()


@dataclass(frozen=True)
class Tiling:
    """How Winograd's algorithm goes about a problem; words as in `code`."""

    problem: Problem
    algorithm: Algorithm
    rows: int
    block_rows: int
    slices: int
    threads: int

    @property
    def tiles(self) -> int:
        """T."""
        return self.problem.tiles(self.algorithm.m)

    @property
    def groups(self) -> int:
        """Vectors of input channels."""
        return -(-self.problem.C // lane_count())

    @property
    def panels(self) -> int:
        """Panels of output channels."""
        return -(-self.problem.K // (2 * lane_count()))

    @property
    def slice_panels(self) -> int:
        """Panels of a slice."""
        return -(-self.panels // self.slices)

    @property
    def scratch_floats(self) -> int:
        """V and M of one thread, and what keeps those of two apart."""
        tiles = self.rows * self.block_rows
        channels = self.groups * lane_count() + self.slice_panels * 2 * lane_count()
        return self.algorithm.a**2 * (tiles * channels + 2 * GAP) + 64

    def filters(self, *, last: bool, turned: bool = False) -> Filters:
        """Return the form of U; see `Filters`."""
        return Filters(self.algorithm.m, self.problem.r, self.problem.C, self.problem.K, last, turned)

    @property
    def filter_bytes(self) -> int:
        """U."""
        return self.filters(last=False).nbytes

    @property
    def blocks(self) -> int:
        """How many blocks of tiles there are."""
        return -(-self.tiles // (self.rows * self.block_rows))

    @property
    def has_full_block(self) -> bool:
        """Whether there are tiles for every register tile of a block."""
        return self.tiles > self.rows * (self.block_rows - 1)

    @property
    def cycles(self) -> float:
        """What it takes: computing, bringing in the filters, and what the caches cannot keep."""
        turns = -(-self.blocks * self.slices // self.threads)  # the last turn may leave threads idle
        # Slices come to several cores at once, which have more of the memory's rate than one, but not each all of it.
        shared = math.sqrt(self.slices) * MEMORY_GAIN * machine().memory_bytes_per_ns * cycle_ns()
        first = self.filter_bytes / shared
        products, again = self._product_cycles, self._again_cycles
        loaded = math.hypot(products, first) + (turns - 1) * math.hypot(products, again)
        scratch = self._own_bytes / (SCRATCH_GAIN * machine().cache_bytes_per_ns * cycle_ns())
        return scratch + turns * (ITEM_CYCLES + self._transform_cycles) + loaded

    @property
    def estimate_ns(self) -> float:
        """What it takes, to be compared with what others say."""
        return self.cycles * cycle_ns()

    @property
    def price(self) -> float:
        """What it takes together with transformed filters: training makes them in every step, inference keeps them."""
        return self.cycles + self.filter_bytes / (BYTES_PER_NS * cycle_ns())

    @property
    def _own_bytes(self) -> int:
        """V and M of one thread."""
        return 4 * self.scratch_floats

    @property
    def _transform_cycles(self) -> float:
        """Those of one block and slice."""
        into, out = TRANSFORM_CYCLES[self.algorithm.m, self.algorithm.r]
        tiles = min(self.rows * self.block_rows, self.tiles)
        vectors = -(-self.problem.K // lane_count()) / self.slices
        spill = SPILL if self._own_bytes > L2_BYTES else 1.0
        return spill * tiles * (self.groups * into + vectors * out)

    @property
    def _product_cycles(self) -> float:
        """Those of one block and slice, with filters at hand; the last register tile may have idle rows."""
        tiles = self.rows * min(self.block_rows, -(-self.tiles // self.rows))
        return self.filter_bytes / 4 / self.slices * 2 * tiles / (4 * lane_count() * PRODUCT_SHARE)

    @property
    def _again_cycles(self) -> float:
        """Bringing in the filters of a slice once more."""
        filters = self.filter_bytes / self.slices
        return filters / cache_bytes() if self._own_bytes + filters > L2_BYTES else 0.0


def best_tiling(problem: Problem, threads: int, m: int | None = None) -> Tiling:
    """Return the way by Winograd's algorithm with the least price; with `m` only tiles of that size count.

    Few tiles are best taken as one block, of which each thread computes a slice of the output channels and reads the
    filters of that slice alone. Many are cut into blocks that stay in the cache.
    """
    return _best_tiling(problem, threads, m, (machine(), lane_count()))


@remembered("tilings", entries=1024)
def _best_tiling(problem: Problem, threads: int, m: int | None, model: tuple[Machine, int]) -> Tiling:
    """Return the best one; `model` is what else that depends on: rates of the machine, and its lanes."""
    del model
    found = [
        Tiling(problem, algorithm(size, r), rows, block_rows, slices, threads)
        for size, r in FORMS
        if r == problem.r and m in (None, size)
        for rows in ROWS[lane_count()]
        for block_rows in BLOCK_ROWS
        for slices in {1, threads}
    ]
    fit = [one for one in found if one.slices <= one.panels and (one.block_rows == 1 or one.has_full_block)]
    return min(fit, key=lambda tiling: tiling.price)
