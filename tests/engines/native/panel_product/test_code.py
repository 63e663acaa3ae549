"""How rows are cut: blocks of nearly as many rows, tiles of `tall` rows or one less, which fit into registers."""

from __future__ import annotations

import itertools

import pytest

from tazza.codegen.kernel import lane_count
from tazza.engines.native.panel_product.code import REGISTERS, Tiling
from tazza.engines.native.panel_product.panels import Panels


@pytest.mark.parametrize("K", [1, 300, 70_000])
def test_tiles_cover_every_number_of_rows(K: int) -> None:
    for N in (*range(1, 60), 1000, 1601):
        tiling = Tiling(N, Panels(40, K, 2))
        assert tiling.tall * 2 <= REGISTERS[lane_count()]
        borders = [N * block // tiling.blocks for block in range(tiling.blocks + 1)]
        for begin, end in itertools.pairwise(borders):
            taller = end - begin - tiling.tiles * (tiling.tall - 1)
            assert 0 <= taller <= tiling.tiles
