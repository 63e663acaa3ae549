"""Where work runs: devices, contexts, events, device options and random generators."""

from tazza.device.context import CONTEXTS, Context, CPUContext, Stream, current_context
from tazza.device.event import Event, EventState
from tazza.device.generator import Generator
from tazza.device.guard import DeviceGuard, current_place
from tazza.device.initializer import Device, DeviceProperties, Devices, device_of, initialize_devices
from tazza.device.option import device_option, device_scope, merge, place_of, scoped_device

__all__ = [
    "CONTEXTS",
    "CPUContext",
    "Context",
    "Device",
    "DeviceGuard",
    "DeviceProperties",
    "Devices",
    "Event",
    "EventState",
    "Generator",
    "Stream",
    "current_context",
    "current_place",
    "device_of",
    "device_option",
    "device_scope",
    "initialize_devices",
    "merge",
    "place_of",
    "scoped_device",
]
