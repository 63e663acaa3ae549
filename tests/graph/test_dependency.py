"""Hazards between operators, against a plain search through all pairs."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tazza.graph.dependency import Access, chains, dependencies

NAMES = st.lists(st.sampled_from("abcde"), max_size=3).map(tuple)
ACCESSES = st.lists(st.builds(Access, NAMES, NAMES), max_size=12)


def hazard(first: Access, second: Access) -> bool:
    """Whether one writes what the other reads or writes."""
    before, after = set(first.writes), set(second.writes)
    return bool(before & {*second.reads, *after} or after & set(first.reads))


def ancestors(parents: tuple[tuple[int, ...], ...]) -> list[set[int]]:
    """Return whom each waits for, directly or not."""
    found: list[set[int]] = []
    for own in parents:
        found.append(set(own).union(*(found[parent] for parent in own)))
    return found


@given(ACCESSES)
def test_whoever_has_a_hazard_waits_and_nobody_else(accesses: list[Access]) -> None:
    waits = ancestors(dependencies(accesses).parents)
    direct = tuple(tuple(i for i in range(j) if hazard(accesses[i], accesses[j])) for j in range(len(accesses)))
    assert waits == ancestors(direct)


@given(ACCESSES)
def test_what_follows_from_other_edges_is_left_out(accesses: list[Access]) -> None:
    parents = dependencies(accesses).parents
    waits = ancestors(parents)
    for own in parents:
        assert list(own) == sorted(set(own))
        assert not any(parent in waits[other] for parent in own for other in own)


@given(ACCESSES)
def test_children_are_the_same_edges_turned(accesses: list[Access]) -> None:
    found = dependencies(accesses)
    edges = {(parent, child) for child, own in enumerate(found.parents) for parent in own}
    assert edges == {(parent, child) for parent, own in enumerate(found.children) for child in own}
    assert all(list(own) == sorted(own) for own in found.children)


@given(ACCESSES, st.data())
def test_chains_hold_each_operator_once_and_need_nobody_in_between(accesses: list[Access], data: st.DataObject) -> None:
    found = dependencies(accesses)
    size = len(accesses)
    kinds = data.draw(st.lists(st.sampled_from(["cpu", "cuda", None]), min_size=size, max_size=size))
    made = chains(found, kinds)
    assert sorted(position for chain in made for position in chain) == list(range(size))
    assert [chain[0] for chain in made] == sorted(chain[0] for chain in made)
    for chain in made:
        assert len(chain) == 1 or kinds[chain[0]] is not None
        for before, after in pairwise(chain):
            assert found.parents[after] == (before,)
            assert found.children[before] == (after,)
            assert kinds[before] == kinds[after]
    heads = {chain[0] for chain in made}
    for before, own in enumerate(found.children):
        if len(own) == 1 and found.parents[own[0]] == (before,) and own[0] in heads:
            assert kinds[before] != kinds[own[0]] or kinds[before] is None, "they could have been one chain"


def test_the_three_hazards() -> None:
    assert dependencies([Access((), ("x",)), Access(("x",), ())]).parents == ((), (0,))
    assert dependencies([Access(("x",), ()), Access((), ("x",))]).parents == ((), (0,))
    assert dependencies([Access((), ("x",)), Access((), ("x",))]).parents == ((), (0,))
    assert dependencies([Access(("x",), ()), Access(("x",), ())]).parents == ((), ())
