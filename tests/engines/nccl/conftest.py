"""CUDA devices for each test of the engine: real ones where there are, else two fake ones with a fake NCCL."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tazza.engines.nccl.library import NCCL
from tests.cuda_there import why_no_device
from tests.device.cublas_library import fake_gpu
from tests.device.nccl_library import fake_nccl


@pytest.fixture(autouse=True)
def device() -> Generator[None]:
    """Have devices."""
    if why_no_device() is None:
        if (reason := NCCL.unavailable()) is not None:
            pytest.skip(reason)
        yield
        return
    with fake_gpu() as made, fake_nccl(made.gpu):
        yield
