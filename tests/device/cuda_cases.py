"""The cases of all families, run by one engine on a CUDA device: a real one where there is one, else the fake one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import tests.ops
from tazza.engines.cuda import rows
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
    patch.setattr(rows, "THREADS", 8)
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


def all_cases(engine: str) -> Iterator[Case]:
    """Yield the cases of each operator that an engine has a kernel of for CUDA devices.

    Without a device these are the cases of some files: to import all takes long.
    """
    seen = set[int]()
    for found in sampled(_families(), 7):
        for listed in vars(importlib.import_module(found)).values():
            if not isinstance(listed, list) or id(cast("list[object]", listed)) in seen:
                continue
            cases = cast("list[object]", listed)
            seen.add(id(cases))
            for case in cases:
                if (
                    isinstance(case, Case)
                    and not _text(case)
                    and kernel_for(case.type, DEVICE.kind, engine) is not None
                ):
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
