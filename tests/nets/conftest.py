"""What tests of nets share."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.nets.simulated import simulated_device


@pytest.fixture(scope="module")
def device() -> Generator[None]:
    """Simulate CUDA devices on the host, and have the test operators."""
    with simulated_device():
        yield
