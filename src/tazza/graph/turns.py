"""Who may have one berth after the other: tenants of berths, in turns.

Which tenants have ended when another one begins is a partial order: in a graph of operators two may have neither order.
A berth is a chain of it. Two ways to divide tenants among berths:

- `fewest`: as few berths as there can be. A chain is a path of pairs "next in the same berth"; a largest matching of
  such pairs leaves the fewest chains (Fulkerson 1956, on Dilworth's theorem). The matching begins with the one who left
  last, whose size is near in most nets, and is mended by augmenting paths where that would need one berth more.
- `smallest`: as little as is found greedily of the sum of the largest tenants of all berths. Tenants come from the
  largest to the smallest, each into the smallest berth that has a gap for it: one that is there costs nothing.

A `settled` tenant has a berth that it does not leave, a `lending` one a berth that it would rather not leave: no two of
one kind share a berth, and where berths are counted no two of both. The matching leaves them out; they take what gaps
there are afterwards.
"""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Sequence

from tazza.data_class import dataclass


@dataclass(frozen=True, slots=True)
class Tenant:
    """Somebody who wants a berth.

    Args:
        name: who.
        begins: tells a possible order of all tenants: who has ended when another one begins, begins before it.
        before: bit i is set where tenant number i has ended when this one begins. Numbers are given as tenants leave.
        size: in any unit.
        settled: has a berth that it does not leave.
        lending: has one that it would rather not leave.
    """

    name: str
    begins: int
    before: int
    size: int = 1
    settled: bool = False
    lending: bool = False

    def bears(self, other: Tenant) -> bool:
        """Whether two could share a berth as far as their own ones are concerned."""
        return not (self.settled and other.settled) and not (self.lending and other.lending)


Berth = list[int]
"""Numbers of the tenants of a berth, in turn."""


def fewest(tenants: Sequence[Tenant]) -> list[Berth]:
    """Return berths of which there could not be fewer, but for settled tenants, who take a berth that has a gap.

    >>> fewest([Tenant("a", 0, 0), Tenant("b", 1, 0), Tenant("c", 2, 0b11)])
    [[0], [1, 2]]
    """
    bound = [i for i, tenant in enumerate(tenants) if tenant.settled or tenant.lending]
    follower = _matched(tenants, set(bound))
    led = {*bound, *follower.values()}
    berths = [[i] for i in range(len(tenants)) if i not in led]
    for berth in berths:
        while berth[-1] in follower:
            berth.append(follower[berth[-1]])
    free = list(berths)
    for i in bound:
        at = next((berth for berth in free if _enter(tenants, berth, i)), None)
        if at is None:
            berths.append([i])
        else:
            free.remove(at)
    return sorted(berths)


def smallest(tenants: Sequence[Tenant]) -> list[Berth]:
    """Return berths the sum of whose largest tenants is small.

    >>> smallest([Tenant("a", 0, 0, 9), Tenant("b", 1, 0, 4), Tenant("c", 2, 0b11, 3)])
    [[0], [1, 2]]
    """
    berths: list[Berth] = []
    for i in sorted(range(len(tenants)), key=lambda i: (-tenants[i].size, tenants[i].begins)):
        if not any(_enter(tenants, berth, i) for berth in reversed(berths)):  # the last one is the smallest
            berths.append([i])
    return sorted(berths)


def cost(tenants: Sequence[Tenant], berths: Sequence[Berth]) -> int:
    """Return the sum of the largest tenants of all berths.

    >>> cost([Tenant("a", 0, 0, 9), Tenant("b", 1, 1, 4)], [[0, 1]])
    9
    """
    return sum(max(tenants[i].size for i in berth) for berth in berths)


def _enter(tenants: Sequence[Tenant], berth: Berth, i: int) -> bool:
    """Give a tenant its turn in a berth, if there is a gap and all bear it."""
    at = bisect(berth, tenants[i].begins, key=lambda other: tenants[other].begins)
    if at and not tenants[i].before >> berth[at - 1] & 1:
        return False
    if at < len(berth) and not tenants[berth[at]].before >> i & 1:
        return False
    if not all(tenants[i].bears(tenants[other]) for other in berth):
        return False
    berth.insert(at, i)
    return True


def _matched(tenants: Sequence[Tenant], bound: set[int]) -> dict[int, int]:
    """Return who follows whom, as many pairs as there can be without those who are bound."""
    follower: dict[int, int] = {}
    leader: dict[int, int] = {}
    unbound = sum(1 << i for i in range(len(tenants)) if i not in bound)
    free = unbound
    for i in sorted(set(range(len(tenants))) - bound, key=lambda i: tenants[i].begins):
        left = tenants[i].before & free
        path = [left.bit_length() - 1, i] if left else _augmenting(tenants, follower, leader, (i, unbound, free))
        for one, other in zip(path[::2], path[1::2], strict=True):
            follower[one], leader[other] = other, one
        if path:
            free &= ~(1 << path[0])
    return follower


def _augmenting(
    tenants: Sequence[Tenant], follower: dict[int, int], leader: dict[int, int], given: tuple[int, int, int]
) -> list[int]:
    """Return pairs leader, follower ... that are to be, from a leader who is free to the one who wants one; or none.

    `given`: who that is, who may lead (bits), and who of these is free.
    """
    start, unseen, free = given
    reached_from: dict[int, int] = {}
    queue = deque([start])
    while queue:
        wanting = queue.popleft()
        found = tenants[wanting].before & unseen
        unseen &= ~found
        while found:
            one = found.bit_length() - 1
            found ^= 1 << one
            reached_from[one] = wanting
            if free >> one & 1:
                return _path(reached_from, leader, one, start)
            queue.append(follower[one])
    return []


def _path(reached_from: dict[int, int], leader: dict[int, int], one: int, start: int) -> list[int]:
    path = [one, reached_from[one]]
    while path[-1] != start:
        path += [leader[path[-1]], reached_from[leader[path[-1]]]]
    return path
