"""Devices: found once, described, with handles; what is not there and why."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tazza.device import Device, DeviceProperties, Devices, cpu, device_of, initialize_devices, initializer
from tazza.errors import UnavailableError
from tazza.runtime.threads import allowed_cpus
from tazza.tensor import CPUPlace, PinnedPlace


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let devices be found anew; what was found before is put back."""
    monkeypatch.setattr(initializer, "_found", None)
    return monkeypatch


def test_the_processor_is_there() -> None:
    device = device_of(CPUPlace())
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


def test_devices_that_are_not_there(fresh: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match="no device pinned here: nothing finds devices of kind 'pinned'"):
        device_of(PinnedPlace())


def test_a_processor_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "CPU_INFO", tmp_path / "none")
    assert cpu.find_cpu()[0].features == ()
    info = tmp_path / "cpuinfo"
    info.write_text("model name\t: Cup 9\nflags\t\t: fpu avx2 avx512f sse4_2\n\nmodel name\t: Other\n")
    monkeypatch.setattr(cpu, "CPU_INFO", info)
    monkeypatch.delattr("os.sysconf")
    (found,) = cpu.find_cpu()
    assert (found.name, found.features, found.memory_bytes) == ("Cup 9", ("avx2", "avx512f", "sse4_2"), None)
