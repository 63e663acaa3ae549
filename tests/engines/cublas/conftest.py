"""A CUDA device for each test of the engine: a real one where there is one, else the fake one."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.device.cuda_cases import some_device


@pytest.fixture(autouse=True)
def device() -> Generator[None]:
    """Have a device."""
    with some_device():
        yield
