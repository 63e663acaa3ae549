"""Tests that have devices of HIP."""

from __future__ import annotations

from collections.abc import Iterable

from tazza.proto import PROTO_HIP, DeviceOption


def run_in_hip(gc: DeviceOption, dc: Iterable[DeviceOption]) -> bool:
    """Whether one of the devices of a test is of HIP."""
    return PROTO_HIP in {gc.device_type, *(one.device_type for one in dc)}
