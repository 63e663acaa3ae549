"""How rows are dealt out to threads: every element has one, blocks are as large as they may be."""

from __future__ import annotations

import itertools

import pytest

from tazza.engines.cuda.team import Limits, ceiling_power, deal_of, parts_of
from tazza.operator.row_program import Cut

LENGTHS = (1, 2, 3, 5, 31, 32, 33, 100, 1000, 1024, 1025, 8192, 8193, 32768, 32769, 100_000)
ROWS = (1, 7, 1000, 1 << 18)


@pytest.mark.parametrize("behind", [1, 2, 7, 32, 1000])
def test_every_element_has_a_thread(behind: int) -> None:
    limits = Limits()
    for n, rows, loads, written in itertools.product(LENGTHS, ROWS, (1, 3), (False, True)):
        deal = deal_of(Cut(rows, n, behind), loads, limits, written=written)
        assert deal.threads <= limits.most
        assert deal.team == ceiling_power(deal.team)
        assert deal.groups == 1 or deal.team * deal.side <= limits.warp, "only rows within a warp share a block"
        assert deal.threads % limits.warp == 0, "all threads of a warp exchange numbers"
        if deal.kept:
            assert deal.sure * deal.team < n <= deal.each * deal.team
            assert deal.sure * loads < limits.held
        else:
            assert n > limits.held // (2 * loads if written and n <= limits.short else loads) * deal.team


def test_rows_have_several_blocks_where_few_of_them_are_long() -> None:
    limits = Limits()
    for rows, n, several in ((1, 1 << 26, True), (1, 1000, False), (1 << 18, 100_000, False), (4, 1 << 20, True)):
        cut = Cut(rows, n)
        assert (parts_of(cut, deal_of(cut, 1, limits), limits) > 1) == several
