"""What there is to fuzz: for each kind how an input is drawn from a seed, and what is done with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import commands, files, net_acts, net_bytes, nets
from tests.fuzz.case import Case, read_case


@dataclass(frozen=True, slots=True)
class Kind:
    """`draw` is a pure function of the seed and the corpus; `prepare` does once what inputs take for granted."""

    draw: Callable[[int], Case]
    attempt: Callable[[Case, Path], None]
    prepare: Callable[[], None]


KINDS: dict[str, Kind] = {
    "nets": Kind(nets.draw, net_acts.attempt, net_acts.prepare),
    "bytes": Kind(net_bytes.draw, net_bytes.attempt, net_acts.prepare),
    "files": Kind(files.draw, files.attempt, files.prepare),
    "commands": Kind(commands.draw, commands.attempt, commands.prepare),
}

REPLAY = "replay "
"""Behind it stands a folder, or a file: the kind of the inputs there, in the order of their names."""


def kind_named(name: str) -> Kind:
    """Return a kind by its name."""
    if not name.startswith(REPLAY):
        return KINDS[name]
    paths = stored_cases(Path(name.removeprefix(REPLAY)))

    def prepare() -> None:
        for kind in {read_case(path).kind for path in paths}:
            KINDS[kind].prepare()

    return Kind(
        lambda seed: read_case(paths[seed]), lambda case, folder: KINDS[case.kind].attempt(case, folder), prepare
    )


def stored_cases(place: Path) -> list[Path]:
    """Return the files of inputs in a folder, or the one file."""
    return [place.resolve()] if place.is_file() else sorted(place.resolve().glob("*.json"))
