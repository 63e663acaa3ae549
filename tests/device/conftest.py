"""What tests of devices share."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

from tazza.device import context, initializer, stream
from tazza.device.cuda import driver
from tazza.tensor import ALLOCATORS, allocation
from tests.device.cuda_driver import FakeCUDA


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Generator[FakeCUDA]:
    """Two devices of a fake driver; what tazza knew of devices before is put back."""
    fake = FakeCUDA()
    pinned = ALLOCATORS.entry("pinned")
    assert pinned is not None
    monkeypatch.setattr(driver, "_loaded", driver.Driver(fake.library))
    monkeypatch.setattr(initializer, "_found", None)
    monkeypatch.setattr(stream, "_pools", {})
    monkeypatch.setattr(allocation, "_made", {})
    monkeypatch.setattr(context, "_kept", context._Kept())  # pyright: ignore[reportPrivateUsage] -- contexts of its own
    try:
        yield fake
        assert fake.faults == []
    finally:
        monkeypatch.undo()
        ALLOCATORS.unregister("cuda")
        ALLOCATORS.unregister("pinned")
        ALLOCATORS.register("pinned", pinned.value, help=pinned.help, priority=pinned.priority)
        gc.collect()  # what is left of the devices is ended while the driver is there
        fake.go()
        fake.close()
