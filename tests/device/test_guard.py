"""Guards of the current device."""

from __future__ import annotations

import threading

import pytest

from tazza.device import DeviceGuard, current_context, current_place
from tazza.errors import UnavailableError
from tazza.tensor import CPUPlace, CUDAPlace
from tests.device.cuda_driver import FakeCUDA


def test_guards_nest_and_restore(gpu: FakeCUDA) -> None:
    assert (current_place(), gpu.current) == (CPUPlace(), None)
    with DeviceGuard(CUDAPlace(1)) as context:
        assert context is current_context(CUDAPlace(1))
        assert (current_place(), gpu.current) == (CUDAPlace(1), 1010)
        with DeviceGuard(CUDAPlace(0)):
            assert (current_place(), gpu.current) == (CUDAPlace(0), 1000)
            with DeviceGuard(CPUPlace()):
                assert current_place() == CPUPlace()
            assert current_place() == CUDAPlace(0)
        assert (current_place(), gpu.current) == (CUDAPlace(1), 1010)
    assert (current_place(), gpu.current) == (CPUPlace(), None)


def test_errors_restore_the_former_device(gpu: FakeCUDA) -> None:
    def fail() -> None:
        with DeviceGuard(CUDAPlace(0)), DeviceGuard(CPUPlace()):
            raise ValueError("inside")

    with DeviceGuard(CUDAPlace(1)):
        with pytest.raises(ValueError, match="inside"):
            fail()
        assert (current_place(), gpu.current) == (CUDAPlace(1), 1010)
        with pytest.raises(UnavailableError, match="no device cuda:7 here"), DeviceGuard(CUDAPlace(7)):
            pass
        assert current_place() == CUDAPlace(1)


def test_a_device_that_cannot_be_entered_leaves_the_former_one(gpu: FakeCUDA) -> None:
    current_context(CUDAPlace(0))
    gpu.answers["cuCtxPushCurrent_v2"] = 201
    with pytest.raises(RuntimeError, match="cuCtxPushCurrent_v2 with status 201"), DeviceGuard(CUDAPlace(0)):
        pass
    assert current_place() == CPUPlace()


def test_threads_share_a_guard_but_no_place(gpu: FakeCUDA) -> None:
    guard, inside, leave = DeviceGuard(CUDAPlace(1)), threading.Event(), threading.Event()
    seen: list[object] = []

    def work() -> None:
        with DeviceGuard(CUDAPlace(0)):
            with guard:
                seen.append((current_place(), gpu.current))
                inside.set()
                leave.wait(60)
            seen.append((current_place(), gpu.current))
        seen.append(current_place())

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60)
    assert current_place() == CPUPlace()
    with guard:
        assert (current_place(), gpu.current) == (CUDAPlace(1), 1010)
        leave.set()
        thread.join()
        assert current_place() == CUDAPlace(1)
    assert current_place() == CPUPlace()
    assert seen == [(CUDAPlace(1), 1010), (CUDAPlace(0), 1000), CPUPlace()]
