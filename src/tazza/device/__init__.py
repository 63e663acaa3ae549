"""Where work runs: devices, contexts, streams, events, device options and random generators."""

from tazza.device.context import CONTEXTS, Context, CPUContext, current_context, new_context
from tazza.device.event import DeviceEvent, Event, EventState
from tazza.device.generator import Generator
from tazza.device.guard import DeviceGuard, current_place
from tazza.device.initializer import Device, DeviceProperties, Devices, device_of, initialize_devices
from tazza.device.option import device_option, device_scope, merge, place_of, scoped_device
from tazza.device.stream import STREAMS, Stream, StreamPool, current_stream, stream_pool, streaming

__all__ = [
    "CONTEXTS",
    "STREAMS",
    "CPUContext",
    "Context",
    "Device",
    "DeviceEvent",
    "DeviceGuard",
    "DeviceProperties",
    "Devices",
    "Event",
    "EventState",
    "Generator",
    "Stream",
    "StreamPool",
    "current_context",
    "current_place",
    "current_stream",
    "device_of",
    "device_option",
    "device_scope",
    "initialize_devices",
    "merge",
    "new_context",
    "place_of",
    "scoped_device",
    "stream_pool",
    "streaming",
]
