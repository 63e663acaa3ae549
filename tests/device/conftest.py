"""What tests of devices share."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.device.cuda_driver import FakeCUDA, fake_cuda


@pytest.fixture
def gpu() -> Generator[FakeCUDA]:
    """Two devices of a fake driver; what tazza knew of devices before is put back."""
    with fake_cuda() as fake:
        yield fake
