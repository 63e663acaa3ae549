"""Parallel regions of our own: every part is run once, whoever comes; barriers, loops, nesting, modes, ends."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tazza.runtime.fork import note_threads
from tazza.runtime.openmp import openmp_threads, openmp_unavailable, own_functions, set_openmp_threads
from tazza.runtime.team import looks_of, team_unavailable
from tazza.runtime.team.code import team_text
from tests.region_stress import stress

REASON = openmp_unavailable() or team_unavailable()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_NUMBER = ctypes.CFUNCTYPE(ctypes.c_int)
_NOTHING = ctypes.CFUNCTYPE(None)
_PARALLEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
_START = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_LOOP_START = ctypes.CFUNCTYPE(ctypes.c_bool, *[ctypes.c_int64] * 4, *[ctypes.c_void_p] * 2)
_LOOP_NEXT = ctypes.CFUNCTYPE(ctypes.c_bool, *[ctypes.c_void_p] * 2)


def functions() -> Mapping[str, int]:
    return own_functions()


def number(name: str) -> int:
    return _NUMBER(functions()[name])()


def barrier() -> None:
    _NOTHING(functions()["GOMP_barrier"])()


def region(count: int, body: Callable[[], None]) -> None:
    """Run body in all parts; what one raises is raised."""
    note_threads()
    errors: list[BaseException] = []

    def guarded(_: int | None) -> None:
        try:
            body()
        except BaseException as error:
            errors.append(error)

    function = _BODY(guarded)
    _PARALLEL(functions()["GOMP_parallel"])(ctypes.cast(function, ctypes.c_void_p), None, count, 0)
    for error in errors:
        raise error


def parts_of(count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    region(count, lambda: found.append((number("omp_get_thread_num"), number("omp_get_num_threads"))))
    return sorted(found)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_part_is_run_once(count: int) -> None:
    for _ in range(20):
        assert parts_of(count) == [(i, count) for i in range(count)]


def test_outside_of_regions_there_is_one_part() -> None:
    assert parts_of(3)
    assert (number("omp_get_thread_num"), number("omp_get_num_threads"), number("omp_in_parallel")) == (0, 1, 0)


def test_a_region_in_a_region_is_one_part() -> None:
    inner: list[list[tuple[int, int]]] = []
    after: list[tuple[int, int, int]] = []

    def body() -> None:
        inner.append(parts_of(2))
        numbers = ("omp_get_thread_num", "omp_get_num_threads", "omp_in_parallel")
        after.append(tuple(number(name) for name in numbers))  # type: ignore[arg-type]

    region(3, body)
    assert inner == [[(0, 1)]] * 3
    assert sorted(after) == [(0, 3, 1), (1, 3, 1), (2, 3, 1)]


def test_start_and_end_are_a_region_whose_first_part_the_caller_runs() -> None:
    found: list[int] = []

    def body(_: int | None) -> None:
        found.append(number("omp_get_thread_num"))

    function = _BODY(body)
    _START(functions()["GOMP_parallel_start"])(ctypes.cast(function, ctypes.c_void_p), None, 3)
    assert number("omp_get_thread_num") == 0
    function(None)
    _NOTHING(functions()["GOMP_parallel_end"])()
    assert sorted(found) == [0, 1, 2]


def test_the_caller_takes_parts_that_nobody_has_taken() -> None:
    """As soon as it is done with its own before workers come, which happens soon."""
    main, most, end = threading.get_native_id(), 0, time.monotonic() + 60
    while most < 2 and time.monotonic() < end:
        runners = list[int]()
        region(4, lambda runners=runners: runners.append(threading.get_native_id()))
        assert len(runners) == 4
        most = runners.count(main)
    assert most >= 2


def test_barriers_separate_what_all_do() -> None:
    for _ in range(30):
        first, second = list[int](), list[int]()

        def body(first: list[int] = first, second: list[int] = second) -> None:
            first.append(1)
            barrier()
            second.append(len(first))
            barrier()

        region(4, body)
        assert second == [4] * 4


def turns(start: int, end: int, step: int, chunk: int, count: int) -> list[list[int]]:
    """Return which turns of a loop each part gets."""
    found: list[list[int]] = [[] for _ in range(count)]

    def body() -> None:
        first, last = ctypes.c_int64(), ctypes.c_int64()
        where = ctypes.addressof(first), ctypes.addressof(last)
        mine = found[number("omp_get_thread_num")]
        more = _LOOP_START(functions()["GOMP_loop_static_start"])(start, end, step, chunk, *where)
        while more:
            mine += range(first.value, last.value, step)
            more = _LOOP_NEXT(functions()["GOMP_loop_static_next"])(*where)
        _NOTHING(functions()["GOMP_loop_end_nowait"])()

    region(count, body)
    return found


@pytest.mark.parametrize(("start", "end", "step"), [(0, 10, 1), (3, 30, 4), (20, -1, -3), (5, 5, 1), (6, 5, 1)])
def test_static_loops_share_all_turns(start: int, end: int, step: int) -> None:
    for chunk in (0, 1, 2, 5):
        shared = turns(start, end, step, chunk, 3)
        assert sorted(turn for part in shared for turn in part) == sorted(range(start, end, step))


def test_static_loops_share_as_openmp_says() -> None:
    assert turns(0, 10, 1, 0, 3) == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert turns(0, 10, 1, 2, 3) == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5]]


def told(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code that may import from this file in a process of its own."""
    path = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", path + code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
def test_workers_that_sleep_are_woken() -> None:
    code = (
        "import random, time\n"
        "from test_team import parts_of, barrier, region\n"
        "for _ in range(300):\n"
        "    region(random.choice([2, 3, 5]), barrier)\n"  # needs as many threads
        "    time.sleep(random.choice([0, 0, 1e-5, 1e-4, 1e-3]))\n"
        "print(parts_of(3))\n"
    )
    for looks in ("0", "50"):
        assert told(code, GOMP_SPINCOUNT=looks).stdout.strip() == "[(0, 3), (1, 3), (2, 3)]"


@pytest.mark.slow
def test_threads_that_come_first_at_once_agree() -> None:
    code = (
        "import threading\n"
        "from test_team import barrier, parts_of, region\n"
        "start, found = threading.Barrier(8), []\n"
        "def first():\n"
        "    start.wait()\n"
        "    region(3, barrier)\n"
        "    found.append(parts_of(3) == [(0, 3), (1, 3), (2, 3)])\n"
        "threads = [threading.Thread(target=first) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(found == [True] * 8)\n"
    )
    for _ in range(3):
        assert told(code).stdout.strip() == "True"


@pytest.mark.slow
def test_more_threads_than_there_can_be_end_the_process_with_a_message() -> None:
    done = told("from test_team import barrier, region\nregion(5000, barrier)")
    assert done.returncode == -signal.SIGABRT
    assert "gives no threads" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["OMP_PROC_BIND", "OMP_PLACES", "OMP_THREAD_LIMIT"])
def test_what_only_libgomp_does_is_left_to_it(name: str) -> None:
    given = {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores", "OMP_THREAD_LIMIT": "3"}[name]
    done = told("from tazza.runtime.openmp import own_functions\nprint(dict(own_functions()))", **{name: given})
    assert done.stdout.strip() == "{}"


ATOMIC = re.compile(r"\b(?:cmpxchg|atomicrmw|(?:load|store) atomic)\b")
ORDERS = re.compile(r"\b(?:monotonic|acquire|release|acq_rel|seq_cst)\b")


def test_the_order_of_every_atomic_operation_is_argued() -> None:
    """By its name in a table; the table names no others, and no other orders."""
    page = (Path(__file__).parents[2] / "docs" / "threads.md").read_text(encoding="utf-8")
    told = {
        name: ORDERS.findall(order) for name, order in re.findall(r"^\| `([a-z ]+)` \| (.*?) \|", page, re.MULTILINE)
    }
    found: dict[str, list[str]] = {}
    for line in filter(ATOMIC.search, team_text("name").splitlines()):
        code, _, name = line.partition(" ; ")
        assert name, f"no name behind {line}"
        assert found.setdefault(name, ORDERS.findall(code)) == ORDERS.findall(code), name
    assert found == told


@pytest.mark.slow
def test_regions_are_right_beside_busy_processes() -> None:
    assert len(stress(regions=3000, seconds=3, busy=2)) == 3


def test_workers_round_as_the_caller_does() -> None:
    libm, upward = ctypes.CDLL("libm.so.6"), 0x800
    tiny = float("1e-30")
    for mode, grows in ((upward, True), (0, False), (upward, True)):
        found: list[bool] = []

        def body(found: list[bool] = found) -> None:
            barrier()  # one part for each thread
            found.append(1.0 + tiny > 1.0)

        libm.fesetround(mode)
        try:
            region(3, body)
        finally:
            libm.fesetround(0)
        assert found == [grows] * 3


def test_a_loop_goes_on_after_a_region_within_it() -> None:
    found: list[list[int]] = [[] for _ in range(2)]

    def body() -> None:
        first, last = ctypes.c_int64(), ctypes.c_int64()
        where = ctypes.addressof(first), ctypes.addressof(last)
        mine = found[number("omp_get_thread_num")]
        more = _LOOP_START(functions()["GOMP_loop_static_start"])(0, 12, 1, 2, *where)
        while more:
            mine += range(first.value, last.value)
            region(2, lambda: turns(0, 3, 1, 1, 1).clear())
            more = _LOOP_NEXT(functions()["GOMP_loop_static_next"])(*where)

    region(2, body)
    assert found == [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11]]


def test_many_threads_have_regions_side_by_side() -> None:
    def work(_: int) -> list[list[tuple[int, int]]]:
        return [parts_of(3) for _ in range(25)]

    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(work, range(6)):
            assert found == [[(0, 3), (1, 3), (2, 3)]] * 25


def test_workers_end_with_the_thread_that_began_regions() -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    def several() -> None:
        region(4, barrier)

    before = threads()
    for _ in range(10):
        thread = threading.Thread(target=several)
        thread.start()
        thread.join()
    end = time.monotonic() + 60
    while threads() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threads() <= before


@pytest.mark.parametrize(
    ("count", "policy", "expected"),
    [
        ("", "", 100_000),
        ("12", "", 12),
        ("30k", "", 30_000),
        ("INFINITE", "passive", (1 << 63) - 1),
        ("", "ACTIVE", (1 << 63) - 1),
    ],
)
def test_users_say_how_workers_wait(count: str, policy: str, expected: int) -> None:
    assert looks_of(count, policy) == expected


def test_a_region_uses_the_number_of_threads_that_is_set() -> None:
    former = openmp_threads()
    set_openmp_threads(3)
    try:
        assert [part for part, _ in parts_of(0)] == [0, 1, 2]
    finally:
        set_openmp_threads(former)
