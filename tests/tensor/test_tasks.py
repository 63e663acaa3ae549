"""Tasks: who is asked, who is taken, what is said of the others; places, and registrations that replace others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import DuplicateError, NotFoundError, UnsupportedError
from tazza.tensor.dtype import DataType
from tazza.tensor.offer import Offer, Unsupported
from tazza.tensor.place import CPUPlace, CUDAPlace, Place
from tazza.tensor.tasks import Taken, Tasks


@dataclass(frozen=True)
class Sum:
    """Something to be computed."""

    place: Place
    dtype: DataType = DataType.FLOAT
    rank: int = 2

    def __str__(self) -> str:
        return f"a sum of {self.dtype}"


HERE = Sum(CPUPlace())
Solver = Callable[[Sum], Offer[str] | Unsupported]


def offering(name: str, estimate_ns: float | None = None) -> Solver:
    return lambda task: Offer(name, estimate_ns=estimate_ns)


def refusing(reason: str) -> Solver:
    return lambda task: Unsupported(reason)


def sums() -> Tasks[Sum, str]:
    return Tasks("engine of sums", "a noun that no engine has")


def test_the_place_is_part_of_the_question() -> None:
    tasks = sums()
    tasks.register("blas", offering("on the CPU"), help="a library")
    tasks.register("cuda", offering("on the GPU"), place="cuda", dtype=DataType.FLOAT, priority=5)
    there = Sum(CUDAPlace(1))
    assert (tasks.choose(HERE).run, tasks.choose(there).run) == ("on the CPU", "on the GPU")
    assert str(tasks.choose(HERE)) == "cuda: place cpu is missing, there is place cuda\nblas: taken"
    with pytest.raises(UnsupportedError, match="no engine of sums takes a sum of int8 on cuda:0: cuda: dtype int8 is"):
        tasks.choose(Sum(CUDAPlace(), DataType.INT8))
    with pytest.raises(UnsupportedError, match="engine of sums 'blas' does not take a sum of float32: place cuda is"):
        tasks.choose(there, "blas")
    with pytest.raises(NotFoundError, match="unknown engine of sums 'abacus'"):
        tasks.choose(there, "abacus")
    assert (tasks.engines(), "cuda" in tasks, tasks.help("blas")) == (["blas", "cuda"], True, "a library")


def test_a_registration_that_replaces_another_takes_effect() -> None:
    tasks = sums()
    tasks.register("native", offering("old"), priority=5)
    assert (tasks.choose(HERE).run, tasks.generation) == ("old", 1)
    with pytest.raises(DuplicateError, match="of engine of sums 'native'"):
        tasks.register("native", offering("again"), priority=5)
    tasks.solving("native", priority=6)(offering("new"))
    assert tasks.choose(HERE).run == "new"
    tasks.unregister("native")
    tasks.register("slow", offering("slow"))
    assert tasks.choose(HERE).run == "slow"


def test_one_case_may_be_more_special_than_another() -> None:
    tasks = sums()
    tasks.register("native", offering("any"))
    tasks.register("native", offering("matrices"), rank=2, priority=3)
    assert [tasks.choose(Sum(CPUPlace(), rank=rank)).run for rank in (1, 2)] == ["any", "matrices"]


def test_explain_has_one_form() -> None:
    offers = ("b", Offer("", estimate_ns=2500.0)), ("c", Offer("", "three loops", estimate_ns=3000.0))
    choice = Taken("a", Offer("", "a loop", estimate_ns=12.0), offers, (("d", "it is Monday"),))
    wanted = ["d: it is Monday", "b: could, about 2.5 us", "c: could, three loops, about 3 us"]
    assert str(choice).splitlines() == [*wanted, "a: taken, a loop, about 0.012 us"]


ENGINES = st.lists(st.tuples(st.integers(-2, 2), st.none() | st.integers(0, 5), st.booleans()), min_size=1, max_size=8)


@given(ENGINES)
def test_the_least_estimate_is_taken_of_those_up_to_the_first_without_one(
    engines: list[tuple[int, int | None, bool]],
) -> None:
    tasks = sums()
    for k, (priority, estimate_ns, takes) in enumerate(engines):
        tasks.register(str(k), offering(str(k), estimate_ns) if takes else refusing("no"), priority=priority)
    ranked = sorted(range(len(engines)), key=lambda k: -engines[k][0])
    able = [k for k in ranked if engines[k][2]]
    if not able:
        with pytest.raises(UnsupportedError, match="0: no"):
            tasks.choose(HERE)
        return
    silent = next((n for n, k in enumerate(able) if engines[k][1] is None), len(able))
    compared, asked = able[:silent], able[: silent + 1]
    wanted = min(compared, key=lambda k: engines[k][1] or 0) if compared else able[silent]
    choice = tasks.choose(HERE)
    assert choice.engine == choice.run == str(wanted)
    assert [name for name, _ in choice.others] == [str(k) for k in asked if k != wanted]
