"""Devices: found once, described, with allocators, generators and handles; what is not there and why."""

from __future__ import annotations

import ctypes
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tazza.device import Device, DeviceProperties, Devices, cpu, cuda, device_of, initialize_devices, initializer
from tazza.errors import UnavailableError
from tazza.runtime.threads import allowed_cpus
from tazza.tensor import CPUPlace, CUDAPlace, PinnedPlace, default_allocator


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let devices be found anew; what was found before is put back."""
    monkeypatch.setattr(initializer, "_found", None)
    return monkeypatch


def test_the_processor_is_there() -> None:
    device = device_of(CPUPlace())
    assert device.allocator is default_allocator()
    assert device.properties.parallel_units == allowed_cpus()
    memory = device.properties.memory_bytes
    assert memory is None or memory > 1 << 20
    assert str(device.properties.parallel_units) in repr(device)


def test_all_threads_get_what_is_found_once(fresh: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def find() -> list[DeviceProperties]:
        calls.append(1)
        time.sleep(0.01)  # long enough for all threads to ask meanwhile
        return [DeviceProperties(CPUPlace(), "one", None, 1)]

    initializer.FINDERS.register("cpu", find, priority=1)
    seen: list[Devices] = []
    try:
        threads = [threading.Thread(target=lambda: seen.append(initialize_devices())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        initializer.FINDERS.unregister("cpu")
        initializer.FINDERS.register("cpu", cpu.find_cpu, help="the host's processor")
    assert len(calls) == 1
    assert all(devices is seen[0] for devices in seen)
    assert str(seen[0].present[CPUPlace()].properties) == "one, 1 units, memory not known"


def test_handles_are_made_once_and_ended_in_reverse() -> None:
    device, events = Device(DeviceProperties(CPUPlace(), "x", 1 << 30, 2)), list[str]()

    def make(name: str) -> str:
        time.sleep(0.005)
        events.append(f"make {name}")
        return name

    def ask() -> None:
        for name in ("blas", "dnn"):
            assert device.handle(name, lambda name=name: make(name), lambda name: events.append(f"end {name}")) == name

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device.close()
    device.close()
    assert events == ["make blas", "make dnn", "end dnn", "end blas"]


def test_random_numbers_of_a_device_start_with_its_seed() -> None:
    device, drawn = Device(DeviceProperties(CPUPlace(), "x", None, 1)), list[list[float]]()
    for _ in range(2):
        device.seed(7)
        with device.generator() as generator:
            drawn.append(generator.uniform(3).tolist())
    assert drawn[0] == drawn[1]


def test_devices_that_are_not_there(fresh: pytest.MonkeyPatch) -> None:
    fresh.setattr(cuda, "DRIVER", "libno_such_driver.so.1")
    with pytest.raises(UnavailableError, match="no device cuda:3 here: the NVIDIA driver cannot be loaded: libno_such"):
        device_of(CUDAPlace(3))
    with pytest.raises(UnavailableError, match="no device pinned here: nothing finds devices of kind 'pinned'"):
        device_of(PinnedPlace())


def test_a_device_whose_memory_nothing_allocates(fresh: pytest.MonkeyPatch) -> None:
    def load(name: str) -> Driver:
        return Driver()

    fresh.setattr(ctypes, "CDLL", load)
    with pytest.raises(UnavailableError, match="no allocator for cuda:1 here"):
        _ = device_of(CUDAPlace(1)).allocator
    with pytest.raises(UnavailableError, match="no device cuda:2 here: there are cuda:0, cuda:1"):
        device_of(CUDAPlace(2))


class Driver:
    """Answers like the NVIDIA driver: some devices, or an error."""

    def __init__(self, count: int = 2, status: int = 0) -> None:
        self.count, self.status = count, status

    def cuInit(self, flags: int) -> int:
        """Succeed, or not."""
        return self.status

    def cuDeviceGetCount(self, count: Any) -> int:
        """Tell how many there are."""
        count._obj.value = self.count
        return 0

    def cuDeviceGet(self, device: Any, index: int) -> int:
        """Tell the handle of a device."""
        device._obj.value = 100 + index
        return 0

    def cuDeviceGetName(self, name: Any, nbytes: int, device: Any) -> int:
        """Tell the name."""
        name.value = f"GPU {device.value}".encode()
        return 0

    def cuDeviceTotalMem_v2(self, memory_bytes: Any, device: Any) -> int:
        """Tell the memory."""
        memory_bytes._obj.value = 3 << 30
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, device: Any) -> int:
        """Tell an attribute: here its number."""
        value._obj.value = number
        return 0

    def cuGetErrorString(self, status: int, text: Any) -> int:
        """Tell what a status means."""
        text._obj.value = b"no CUDA-capable device is detected"
        return 0


def test_what_a_driver_tells() -> None:
    first, second = cuda.described_by(Driver())
    assert (first.name, first.memory_bytes, first.parallel_units) == ("GPU 100", 3 << 30, 16)
    assert (second.place, second.features) == (CUDAPlace(1), ("compute capability 75.76",))
    with pytest.raises(UnavailableError, match="cuInit with status 100: no CUDA-capable device is detected"):
        cuda.described_by(Driver(status=100))
    with pytest.raises(UnavailableError, match="lists no device"):
        cuda.described_by(Driver(count=0))
    with pytest.raises(UnavailableError, match="has no cuInit"):
        cuda.described_by(object())


def test_a_processor_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "CPU_INFO", tmp_path / "none")
    assert cpu.find_cpu()[0].features == ()
    info = tmp_path / "cpuinfo"
    info.write_text("model name\t: Cup 9\nflags\t\t: fpu avx2 avx512f sse4_2\n\nmodel name\t: Other\n")
    monkeypatch.setattr(cpu, "CPU_INFO", info)
    monkeypatch.delattr("os.sysconf")
    (found,) = cpu.find_cpu()
    assert (found.name, found.features, found.memory_bytes) == ("Cup 9", ("avx2", "avx512f", "sse4_2"), None)
