"""Draw what two ranks compute and exchange in a step, for docs/machines.md: `python -m tools.draw_overlap [TRACE]`.

Without a trace a training of ResNet-50 is started on two ranks of this machine, with `tazza launch --trace`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tazza.distributed.tracing import LANE
from tazza.observers.timeline import SpanKind, Timeline

DOCS = Path(__file__).parent.parent / "docs"
PICTURE = "machines_overlap.svg"
NET, SIZE, BATCH = "resnet50", 64, 16
RANKS, STEPS = 2, 6
NEAR_S = 2e-3
"""Between operators that are drawn as one."""


def traced(folder: Path) -> Path:
    """Train some steps on two ranks and return their trace."""
    trace = folder / "trace.json"
    options = ["--data", "digits", "--colors", "rgb", "--size", str(SIZE), "--batch-size", str(BATCH)]
    words = ["net", NET, *options, "--iterations", str(STEPS), "--out", str(folder / "out")]
    command = [sys.executable, "-m", "tazza", "launch", "--ranks", str(RANKS), "--trace", str(trace), "train", *words]
    subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)
    return trace


def last_step(document: dict[str, Any]) -> Timeline:
    """Return the last step of a trace: two lanes a rank, what it computes and what it exchanges."""
    events = document["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    lanes = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    spans = sorted((event for event in events if event["ph"] == "X"), key=lambda event: event["ts"])
    # The step begins with what its rank did first of all, whatever that was; each rank has its own beginning.
    begins = {pid: _last_begin([event for event in spans if event["pid"] == pid]) for pid in names}
    found: dict[str, list[_Bar]] = {}
    for event in spans:
        if event["ts"] < begins[event["pid"]]:
            continue
        exchanges = lanes[event["pid"], event["tid"]] == LANE
        start_s = (event["ts"] - min(begins.values())) / 1e6
        kind = SpanKind.COPY if exchanges else SpanKind(event["cat"])
        bars = found.setdefault(f"{names[event['pid']]} {'exchanges' if exchanges else 'computes'}", [])
        _add(bars, _Bar(kind, start_s, start_s + event["dur"] / 1e6))
    timeline = Timeline()
    for lane, bars in found.items():
        for bar in bars:
            timeline.add(lane, "", bar.start_s, bar.end_s, kind=bar.kind)
    return timeline


@dataclass(slots=True)
class _Bar:
    kind: SpanKind
    start_s: float
    end_s: float


def _add(bars: list[_Bar], bar: _Bar) -> None:
    """Add what a lane did next: one behind the other, those that nearly touch are one."""
    last = bars[-1] if bars else None
    if last is not None:
        bar.start_s = max(bar.start_s, last.end_s)
        if bar.kind is last.kind and bar.kind is not SpanKind.COPY and bar.start_s - last.end_s < NEAR_S:
            last.end_s = max(last.end_s, bar.end_s)
            return
    if bar.end_s > bar.start_s:
        bars.append(bar)


def _last_begin(spans: list[dict[str, Any]]) -> float:
    return max(event["ts"] for event in spans if event["name"] == spans[0]["name"])


def overlap(timeline: Timeline) -> str:
    """Return how much of what is exchanged goes on while the same rank computes."""
    told: list[str] = []
    for rank in range(RANKS):
        own = Timeline()
        own.extend(span for span in timeline.spans if span.lane.startswith(f"rank {rank} "))
        exchanged_s = own.busy_s(SpanKind.COPY)
        told.append(f"rank {rank}: {own.overlap_s() * 1e3:.0f} of {exchanged_s * 1e3:.0f} ms")
    return "exchanged while the rank computes: " + ", ".join(told)


def main() -> None:
    """Measure, unless a trace is named, and draw the picture of the page."""
    with TemporaryDirectory(prefix="overlap-") as name:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else traced(Path(name))
        step = last_step(json.loads(path.read_text(encoding="utf-8")))
    step.draw(
        DOCS / PICTURE, title=f"a step of {NET} on {RANKS} ranks of one thread, {BATCH} images of {SIZE} x {SIZE}"
    )
    print(overlap(step))


if __name__ == "__main__":
    main()
