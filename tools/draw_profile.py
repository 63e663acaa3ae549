"""Profile a net for docs/profile, and draw its timeline and one of copies: `python -m tools.draw_profile`.

The pictures and the table of the page are those of live runs; they change with the machine and from run to run.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.nets.overlap import FULL, Size, Stages
from tazza.models.zoo import CLASSIFIERS
from tazza.observers.profile import Profile
from tazza.observers.recorder import profile_net
from tazza.operator import make_argument
from tazza.workspace import Workspace

FOLDER = Path(__file__).parent.parent / "docs" / "profile"
PAGE, PICTURE, COPIES = "README.md", "timeline.svg", "overlap.svg"
BEGIN, END = "<!-- the run -->\n", "<!-- the end of the run -->\n"
NET, WORKERS, RUNS, TOP = "googlenet", 2, 10, 8


def run(net: str = NET, runs: int = RUNS, **options: int) -> Profile:
    """Profile a net of the zoo on two workers with operators of one thread each; `options` are those of the model."""
    chosen = CLASSIFIERS[net]
    model = chosen.inference(**options)
    workspace = Workspace()
    workspace.run_net_once(model.init_net.export())
    data = np.random.default_rng(1).random(chosen.input_shape(1, size=options.get("size")), np.float32)
    workspace.feed("data", data)
    definition = model.net.export()
    definition.type, definition.num_workers = "async_scheduling", WORKERS
    definition.arg.append(make_argument("threads_per_operator", 1))
    found = profile_net(workspace.create_net(definition), runs=runs)
    workspace.reset()
    return found


def last_run(profile: Profile) -> Profile:
    """Return the profile of the last run alone."""
    last = len(profile.runs) - 1
    return replace(profile, occurrences=tuple(one for one in profile.occurrences if one.run == last))


def session(profile: Profile) -> str:
    """Return what the page shows of a profile: sums, the operators that took longest, types, lanes."""
    slowest = sorted(profile.by_operator(), key=lambda row: -row.total_s)[:TOP]
    tables = (
        profile.table(slowest),
        profile.table(profile.by_type(), what="type"),
        profile.table(profile.by_lane(), what="lane"),
    )
    text = "\n\n".join((profile.headline(), *map(str, tables)))
    return f"```text\n{text}\n```\n"


def with_session(page: str, text: str) -> str:
    """Return a page with what stands between the marks replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{text}{END}{after}"


def draw_copies(path: Path, size: Size) -> None:
    """Draw copies of blocks beside products on one thread."""
    stages = Stages(size)
    stages.run()  # the first run prepares
    title = f"{size.stages} blocks of {stages.block.nbytes / 2**20:.0f} MiB beside products on one thread"
    stages.observed().timeline().draw(path, title=title)


def main() -> None:
    """Run, write the page anew and draw the pictures."""
    profile = run()
    page = FOLDER / PAGE
    page.write_text(with_session(page.read_text(), session(profile)))
    last_run(profile).timeline().draw(FOLDER / PICTURE, title=f"{NET}, one image, {WORKERS} workers")
    draw_copies(FOLDER / COPIES, replace(FULL, stages=8))


if __name__ == "__main__":
    main()
