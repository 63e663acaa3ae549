"""Tenants of berths: nobody meets anybody, and berths are as few, or as small, as they can be."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from tazza.graph.turns import Berth, Tenant, cost, fewest, smallest

KINDS = [(False, False)] * 4 + [(True, False), (False, True)]
"""Whether one is settled, and whether one lends a berth."""


def orders(draw: st.DrawFn) -> list[Tenant]:
    """Draw a partial order of tenants, some with berths of their own: the transitive closure of random pairs."""
    count = draw(st.integers(1, 10))
    before = [0] * count
    for i in range(count):
        for j in range(i):
            if draw(st.integers(0, 2)) == 0:
                before[i] |= before[j] | 1 << j
    return [
        Tenant(f"t{i}", i, bits, draw(st.sampled_from([1, 2, 5, 10])), *draw(st.sampled_from(KINDS)))
        for i, bits in enumerate(before)
    ]


ORDERS = st.composite(orders)()


def check(tenants: list[Tenant], berths: list[Berth]) -> None:
    assert sorted(i for berth in berths for i in berth) == list(range(len(tenants)))
    for berth in berths:
        assert all(tenants[later].before >> earlier & 1 for earlier, later in pairwise(berth))
        assert sum(tenants[i].settled for i in berth) <= 1
        assert sum(tenants[i].lending for i in berth) <= 1


@given(ORDERS)
def test_everybody_has_one_place_and_meets_nobody(tenants: list[Tenant]) -> None:
    check(tenants, fewest(tenants))
    check(tenants, smallest(tenants))


def most_at_once(tenants: list[Tenant]) -> int:
    """Return how many tenants there are at most of whom none waits for another: as many berths have to be there."""
    for count in range(len(tenants), 1, -1):
        for chosen in combinations(range(len(tenants)), count):
            if not any(tenants[later].before >> earlier & 1 for earlier, later in combinations(chosen, 2)):
                return count
    return 1


@given(ORDERS)
def test_places_are_as_few_as_can_be(tenants: list[Tenant]) -> None:
    """Dilworth's theorem: as many as tenants who are there at the same time."""
    free = [Tenant(one.name, one.begins, one.before, one.size) for one in tenants]
    assert len(fewest(free)) == most_at_once(free)


@given(ORDERS)
def test_those_with_places_of_their_own_join_others_where_there_is_a_gap(tenants: list[Tenant]) -> None:
    def own(i: int) -> bool:
        return tenants[i].settled or tenants[i].lending

    berths = fewest(tenants)
    alone = [berth[0] for berth in berths if len(berth) == 1 and own(berth[0])]
    assert all(sum(map(own, berth)) <= 1 for berth in berths)
    for berth in berths:
        if not any(map(own, berth)):
            for i in alone:
                assert any(not tenants[max(i, other)].before >> min(i, other) & 1 for other in berth)


def test_two_that_bear_each_other_can_share_where_sizes_count() -> None:
    one, other = Tenant("a", 0, 0, 9, settled=False, lending=True), Tenant("b", 1, 1, 4, settled=True)
    assert smallest([one, other]) == [[0, 1]]
    assert fewest([one, other]) == [[0], [1]]


@given(ORDERS)
def test_what_is_small_costs_no_more_than_each_by_itself(tenants: list[Tenant]) -> None:
    at_least = max(one.size for one in tenants)
    assert at_least <= cost(tenants, smallest(tenants)) <= sum(one.size for one in tenants)


def test_the_matching_is_mended_where_the_first_choice_costs_a_place() -> None:
    """Behind b come c and d, behind a comes c alone: c has to leave b to d."""
    tenants = [Tenant("a", 0, 0), Tenant("b", 1, 0), Tenant("c", 2, 0b11), Tenant("d", 3, 0b10)]
    assert fewest(tenants) == [[0, 2], [1, 3]]


def test_the_one_who_left_last_is_followed() -> None:
    tenants = [Tenant("a", 0, 0), Tenant("b", 1, 0), Tenant("c", 2, 0b11)]
    assert fewest(tenants) == [[0], [1, 2]]


def test_a_large_tenant_makes_room_for_all_that_fit_around() -> None:
    tenants = [
        Tenant("small", 0, 0, 1),
        Tenant("beside", 1, 0, 2),
        Tenant("large", 2, 0b1, 9),
        Tenant("last", 3, 0b111, 4),
    ]
    assert smallest(tenants) == [[0, 2, 3], [1]]
    assert cost(tenants, smallest(tenants)) == 11
