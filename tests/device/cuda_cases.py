"""The cases of all families, run by one engine on a CUDA device: a real one where there is one, else the fake one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet
from numpy.typing import NDArray

import tests.ops
from tazza.engines.cuda import rows
from tazza.engines.cuda.sparse import division
from tazza.engines.cuda.team import Limits
from tazza.errors import UnknownOperatorError, UnsupportedError
from tazza.operator.kernel import kernel_for
from tazza.tensor import CUDAPlace
from tests.check import Case, check_op
from tests.cuda_there import why_no_device
from tests.device.cublas_library import fake_gpu

DEVICE = CUDAPlace(0)
T = TypeVar("T")


@contextmanager
def some_device() -> Generator[None]:
    """Let there be a device until the block ends: the real one, or the fake one with a fake cuBLAS.

    Blocks of the fake one have few threads where these meet: each is a thread of the system.
    """
    if why_no_device() is None:
        yield
        return
    patch = pytest.MonkeyPatch()
    patch.setattr(division, "TEAM", 8)
    patch.setattr(rows, "LIMITS", Limits(warp=4, block=8, most=8, held=8, apart=4, busy=32, long=8))
    try:
        with fake_gpu():
            yield
    finally:
        patch.undo()


def sampled(given: Iterable[T], every: int) -> list[T]:
    """Return all of them where there is a device, else one of so many."""
    return list(given)[:: 1 if why_no_device() is None else every]


def _families() -> Iterator[str]:
    """Yield the names of the test files of families."""
    for found in pkgutil.walk_packages(tests.ops.__path__, "tests.ops."):
        if found.name.rpartition(".")[2].startswith("test_"):
            yield found.name


def cases_in(module: ModuleType) -> Iterator[Case]:
    """Yield the cases of numbers that a module lists, and those that its tests are parametrized by, once each."""
    seen = set[int]()
    for listed in vars(module).values():
        given = list(_parameters(listed)) if callable(listed) else listed
        for case in cast("list[object]", given) if isinstance(given, list) else ():
            if isinstance(case, Case) and id(case) not in seen and not _text(case):
                seen.add(id(case))
                yield case


def _parameters(test: object) -> Iterator[object]:
    """Yield the values that a test is run with."""
    for mark in cast("list[pytest.Mark]", getattr(test, "pytestmark", [])):
        if mark.name == "parametrize":
            for values in cast("Iterable[Any]", mark.args[1]):
                yield from values.values if isinstance(values, ParameterSet) else [values]


def all_cases(engine: str) -> Iterator[Case]:
    """Yield the cases of each operator that an engine has a kernel of for CUDA devices.

    Without a device these are the cases of some files: to import all takes long.
    """
    yield from _cases_of(sampled(_families(), 7), engine)


def every_case(engine: str) -> Iterator[Case]:
    """Yield the cases of each such operator, of all files."""
    yield from _cases_of(_families(), engine)


def _cases_of(files: Iterable[str], engine: str) -> Iterator[Case]:
    for found in files:
        for case in cases_in(importlib.import_module(found)):
            if kernel_for(case.type, DEVICE.kind, engine) is not None:
                yield case


def _text(case: Case) -> bool:
    """Whether there is something else than numbers in it: strings do not lie on devices."""
    arrays = (cast("NDArray[Any]", value) for value in case.inputs if isinstance(value, np.ndarray))
    return any(array.dtype.kind in "OSU" for array in arrays)


def run_there(case: Case, engine: str) -> str | None:
    """Assert all that holds for a case on the device; return why the engine refuses it, or None.

    Gradients are compared where the device has a kernel of the gradient operator.
    """
    try:
        try:
            check_op(case, engine, DEVICE)
        except UnknownOperatorError as error:
            if f"{case.type} has no kernel" in error.message:
                raise
            check_op(replace(case, gradient=False), engine, DEVICE)
    except UnsupportedError as error:
        if error.hint is None or f"{engine}: " not in error.hint:
            raise
        return error.hint.split(f"{engine}: ", 1)[1].split(";")[0]
    return None
