"""Adding operators to a program once for each slice of the images, and the memory that all slices use in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Protocol

from tazza.nets.plan.program import Program, Step, Value
from tazza.nets.plan.slicing import Slicing
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec, channels_last


class Unsliceable(Exception):
    """A kernel keeps images in a layout that cannot be cut between them."""


class Building(Protocol):
    """What is known while a program is built: the value of each name, and the steps so far."""

    current: dict[str, Value]
    steps: list[Step]


def add_slices(state: Building, cut: Slicing, add: Callable[[int], None]) -> tuple[int, ...]:
    """Add operators for each slice by `add(position)`; return the step with which each begins, and the next one.

    Raises:
        Unsliceable: the layout of a blob that comes from outside, or is needed there, does not allow it.
    """
    before = state.current
    wholes: dict[str, Value] = {}
    begins: list[int] = []
    for number in range(cut.count):
        begins.append(len(state.steps))
        state.current = before | {name: _part(before[name], number, cut) for name in cut.taken}
        for position in range(cut.first, cut.last):
            add(position)
        for name in cut.given:
            wholes[name] = _collected(state.current[name], wholes.get(name), number, cut)
    state.current = before | wholes
    begins.append(len(state.steps))
    _pair(state.steps, begins)
    return tuple(begins)


def _part(whole: Value, number: int, cut: Slicing) -> Value:
    """Return the images of one slice."""
    spec = _resized(whole.spec, cut.images)
    return Value(whole.name, spec, owner=whole, offset=number * spec.nbytes)


def _collected(part: Value, whole: Value | None, number: int, cut: Slicing) -> Value:
    """Put the result of a slice into the value of all, which is made with the first."""
    root = part.root
    if part.owner is not None and root.spec.shape[:1] == (cut.images * cut.count,):
        # Written over a blob from outside: what it had for each slice is where the results are.
        return Value(part.name, _resized(part.spec, cut.images * cut.count), owner=root) if whole is None else whole
    if root.blob is not None or root.source is not None:
        raise Unsliceable
    if whole is None:
        whole = Value(part.name, _resized(part.spec, cut.images * cut.count))
    root.owner, root.offset = whole, number * part.spec.nbytes
    return whole


def _resized(spec: TensorSpec, images: int) -> TensorSpec:
    """Return the spec of another number of images, in the same layout."""
    dims = (images, *spec.shape[1:])
    return replace(spec, dims=dims, layout=_layout_of(spec, dims))


def _layout_of(spec: TensorSpec, dims: tuple[int, ...]) -> Layout:
    if spec.layout == ROW_MAJOR:
        return ROW_MAJOR
    if len(dims) > 2 and spec.layout == channels_last(spec.shape):
        return channels_last(dims)
    raise Unsliceable


def _pair(steps: list[Step], begins: list[int]) -> None:
    """Tell each step which one of the first slice it repeats; where slices differ in their steps, none has a twin."""
    first, second = begins[:2]
    length = second - first
    if any(end - begin != length for begin, end in pairwise(begins)):
        return
    for position in range(second, begins[-1]):
        steps[position].twin = steps[first + (position - first) % length]


# -- memory ------------------------------------------------------------------------------------------------------------


def lifetimes(program: Program) -> dict[Value, tuple[int, int]]:
    """Return for each value of the arena with which step it begins and ends to live.

    Of slices only the first counts, the others take its places; but what all of them use lives until the last is done.
    """
    lives: dict[Value, tuple[int, int]] = {}
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
