"""How much memory a process can still get, from files as kernels write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tazza.errors import OutOfMemoryError
from tazza.interop import init_net
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.runtime import cgroup, memory
from tazza.runtime.memory import available_bytes
from tazza.workspace import Workspace

Machine = Callable[..., int | None]
GIB = 2**30
MEMINFO = "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:    8388608 kB\nBuffers: 1 kB\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a function that returns what is available on a machine that some files describe."""
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(cgroup, "OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(cgroup, "CGROUPS", tmp_path / "groups")

    def available(own: str, files: dict[str, str], meminfo: str = MEMINFO) -> int | None:
        (tmp_path / "meminfo").write_text(meminfo)
        (tmp_path / "own").write_text(own)
        for name, text in files.items():
            (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "groups" / name).write_text(text)
        return available_bytes()

    return available


def test_this_machine_has_some() -> None:
    found = available_bytes()
    assert found is None or found > 0


def test_free_swap_counts(machine: Machine) -> None:
    assert machine("", {}, f"{MEMINFO}SwapTotal: 4194304 kB\nSwapFree: 1048576 kB\n") == 9 * GIB


def test_without_groups_the_machine_counts(machine: Machine) -> None:
    assert available_bytes() is not None
    assert machine("", {}) == 8 * GIB


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a/b/memory.max": "max\n"}, 8 * GIB),
        ({"a/b/memory.max": str(2 * GIB)}, 2 * GIB),
        ({"a/b/memory.max": str(2 * GIB), "a/b/memory.current": str(GIB)}, GIB),
        ({"a/b/memory.max": str(3 * GIB), "a/memory.max": str(GIB)}, GIB),
        ({"memory.max": str(GIB)}, GIB),
        (
            {
                "a/b/memory.max": str(2 * GIB),
                "a/b/memory.current": str(2 * GIB),
                "a/b/memory.stat": f"anon 5\nfile {GIB}\nshmem {GIB // 4}\n",
            },
            GIB - GIB // 4,
        ),
        ({"a/b/memory.max": str(GIB), "a/b/memory.current": str(2 * GIB)}, 0),
        ({"a/b/memory.max": "", "a/b/memory.stat": "odd"}, 8 * GIB),
        ({"a/b/memory.max": "-5"}, 8 * GIB),
    ],
)
def test_groups_of_version_2(machine: Machine, files: dict[str, str], expected: int) -> None:
    assert machine("0::/a/b\n", files) == expected


def test_groups_of_version_1(machine: Machine) -> None:
    files = {
        "memory/a/memory.limit_in_bytes": str(3 * GIB),
        "memory/a/memory.usage_in_bytes": str(2 * GIB),
        "memory/a/memory.stat": f"cache 1\ntotal_cache {GIB}\ntotal_shmem 0\n",
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "cpu/a/memory.limit_in_bytes": "1",
    }
    assert machine("7:cpu:/a\n4:memory,hugetlb:/a\n0::/\n", files) == 2 * GIB


def test_an_odd_list_of_groups_is_none(machine: Machine) -> None:
    assert machine("no colon\n:\n1:memory\n", {}) == 8 * GIB


def test_a_net_that_fills_more_than_the_group_grants_is_refused(machine: Machine) -> None:
    machine("0::/a\n", {"a/memory.max": str(2**20)})
    net = NetDef(name="big", op=[operator_def("ConstantFill", [], ["x"], shape=[1024, 1024])])
    with pytest.raises(OutOfMemoryError, match="makes 4194304 bytes of blobs, and 1048576 are available"):
        init_net.run_init_net(net, Workspace(), source="a file")
