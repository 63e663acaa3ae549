"""Adding operators to a program once for each slice of the images, and the memory that all slices use in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Protocol

from tazza.errors import UnsupportedError
from tazza.nets.plan.program import PlanValue, Program, Step
from tazza.nets.plan.slicing import Slicing
from tazza.operator.images import resized
from tazza.tensor import TensorSpec


class Unsliceable(Exception):
    """A kernel keeps images in a layout that cannot be cut between them, so that this cut is none."""

    def __init__(self, cut: Slicing) -> None:
        """Say which."""
        super().__init__(f"operators {cut.first} to {cut.last - 1}")
        self.cut = cut


class Building(Protocol):
    """What is known while a program is built: the value of each name, and the steps so far."""

    current: dict[str, PlanValue]
    steps: list[Step]


def add_slices(state: Building, cut: Slicing, add: Callable[[int], None]) -> tuple[int, ...]:
    """Add operators for each slice by `add(position)`; return the step with which each begins, and the next one.

    Raises:
        Unsliceable: the layout of a blob that comes from outside, or is needed there, does not allow it.
    """
    before = state.current
    wholes: dict[str, PlanValue] = {}
    begins: list[int] = []
    for number in range(cut.count):
        begins.append(len(state.steps))
        parts = {name: _part(before[name], number, cut) for name in cut.taken}
        state.current = before | parts
        for position in range(cut.first, cut.last):
            add(position)
        for name in cut.given:
            part = state.current[name]
            if any(owner in parts.values() for owner in _owners(part)):
                # Written over a blob from outside: what that has for each slice is where the results are.
                wholes[name] = PlanValue(name, _resized(part.spec, cut, cut.images * cut.count), owner=part.root)
            else:
                wholes[name] = _collected(part, wholes.get(name), number, cut)
    state.current = before | wholes
    begins.append(len(state.steps))
    _pair(state.steps, begins)
    return tuple(begins)


def _part(whole: PlanValue, number: int, cut: Slicing) -> PlanValue:
    """Return the images of one slice."""
    part = PlanValue(whole.name, _resized(whole.spec, cut, cut.images), owner=whole)
    part.offset = number * part.nbytes
    return part


def _owners(value: PlanValue) -> Iterator[PlanValue]:
    """Yield a value, its owner, and so on."""
    found: PlanValue | None = value
    while found is not None:
        yield found
        found = found.owner


def _collected(part: PlanValue, whole: PlanValue | None, number: int, cut: Slicing) -> PlanValue:
    """Put the result of a slice into the value of all, which is made with the first."""
    root = part.root
    if root.blob is not None or root.source is not None:
        raise Unsliceable(cut)
    if whole is None:
        whole = PlanValue(part.name, _resized(part.spec, cut, cut.images * cut.count))
    root.owner, root.offset = whole, number * part.nbytes
    return whole


def _resized(spec: TensorSpec, cut: Slicing, images: int) -> TensorSpec:
    """Return the spec of another number of images, in the same layout."""
    try:
        return resized(spec, images)
    except UnsupportedError:
        raise Unsliceable(cut) from None


def _pair(steps: list[Step], begins: list[int]) -> None:
    """Tell each step which one of the first slice it repeats.

    The first slice may have more steps: what brings a filter into another layout runs there, once. Where a later one
    had steps of its own, none would have a twin: each would have places of its own in memory then.
    """
    first = steps[begins[0] : begins[1]]
    found: list[tuple[Step, Step]] = []
    for begin, end in pairwise(begins[1:]):
        ahead = iter(first)
        for step in steps[begin:end]:
            twin = next((one for one in ahead if _repeats(step, one)), None)
            if twin is None:
                return
            found.append((step, twin))
    for step, twin in found:
        step.twin = twin


def _repeats(step: Step, first: Step) -> bool:
    names = ([value.name for value in (*one.inputs, *one.outputs)] for one in (step, first))
    return (step.key, step.engine) == (first.key, first.engine) and next(names) == next(names)


# -- memory ------------------------------------------------------------------------------------------------------------


def lifetimes(program: Program) -> dict[PlanValue, tuple[int, int]]:
    """Return for each value of the arena with which step it begins and ends to live.

    Of slices only the first counts, the others take its places. But what several of them use, such as a result that
    each writes a part of, lives from the beginning of the first to the end of the last.
    """
    lives: dict[PlanValue, tuple[int, int]] = {}
    loops = {begin: (begins[0], begins[-1] - 1) for begins in program.loops for begin in range(begins[0], begins[-1])}
    for position, step in enumerate(program.steps):
        for value in (*step.inputs, *step.outputs):
            root = value.root
            if root.home != "arena":
                continue
            if step.twin is None:
                lives[root] = (lives.get(root, (position,))[0], position)
            elif root in lives:
                begin, end = loops[position]
                lives[root] = (min(lives[root][0], begin), max(lives[root][1], end))
    return lives


def take_places(program: Program) -> None:
    """Give the values and the scratch memory of later slices the places of their twins."""
    positions = {id(step): position for position, step in enumerate(program.steps)}
    for position, step in enumerate(program.steps):
        if step.twin is None:
            continue
        scratch = program.scratch_offsets.get(positions[id(step.twin)])
        if scratch is not None:
            program.scratch_offsets[position] = scratch
        pairs = zip((*step.inputs, *step.outputs), (*step.twin.inputs, *step.twin.outputs), strict=True)
        for value, twin in pairs:
            if value.root.home == "arena":
                program.offsets.setdefault(value.root, program.offsets[twin.root])
