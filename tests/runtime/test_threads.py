"""The thread count: flag, OMP_NUM_THREADS, affinity, control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tazza.runtime import cgroup, threads


def test_the_flag_wins() -> None:
    with threads.NUM_THREADS.override(7):
        assert threads.thread_count() == 7


@pytest.mark.parametrize(
    ("text", "count"),
    [(None, None), ("3", 3), (" 3 , 2", 3), ("0", None), ("-1", None), ("", None), ("all", None)],
)
def test_omp_count(text: str | None, count: int | None, caplog: pytest.LogCaptureFixture) -> None:
    assert threads.omp_count(text) == count
    assert count is None or not caplog.messages


PROGRAM = "from tazza.runtime.threads import thread_count; print(thread_count())"


@pytest.mark.slow
def test_the_environment_of_a_process() -> None:
    clean = {name: value for name, value in os.environ.items() if name != "TAZZA_NUM_THREADS"}
    variables = clean | {"OMP_NUM_THREADS": "5,2"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("5\n", "")


def groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lines: str, files: dict[str, str]) -> float | None:
    own = tmp_path / "cgroup"
    own.write_text(lines)
    for name, text in files.items():
        file = tmp_path / "fs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(cgroup, "OWN_CGROUPS", own)
    monkeypatch.setattr(cgroup, "CGROUPS", tmp_path / "fs")
    return threads.cgroup_quota()


@pytest.mark.parametrize(
    ("lines", "files", "quota"),
    [
        ("0::/\n", {}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "250000 100000\n"}, 2.5),
        ("0::/a/b\n", {"a/b/cpu.max": "300000 100000\n", "a/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/not/mounted\n", {"cpu.max": "200000 100000\n"}, 2.0),
        ("0::/a\n", {"a/cpu.max": "5 0\n"}, None),
        (
            "4:cpu,cpuacct:/a\n2:memory:/a\n",
            {"cpu,cpuacct/a/cpu.cfs_quota_us": "350000\n", "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"},
            3.5,
        ),
        ("4:cpu,cpuacct:/a\n", {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.5),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
    ],
)
def test_cgroup_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, files: dict[str, str], quota: float | None
) -> None:
    assert groups(monkeypatch, tmp_path, lines, files) == quota


def test_no_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "OWN_CGROUPS", tmp_path / "missing")
    assert threads.cgroup_quota() is None


@pytest.mark.parametrize(("quota", "count"), [(None, 6), (2.5, 2), (0.5, 1), (9.0, 6)])
def test_allowed_cpus_rounds_a_quota_down(monkeypatch: pytest.MonkeyPatch, quota: float | None, count: int) -> None:
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _pid: set(range(6)), raising=False)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType] - stands in for the system's
    monkeypatch.setattr(threads, "cgroup_quota", lambda: quota)
    assert threads.allowed_cpus() == count
