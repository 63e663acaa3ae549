"""Where blobs lie, and copies between devices that nets need: what `core` lends of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from caffe2.python._operators import BlobReference, IsGPUDeviceType, copy_func_between_devices, device_equal
from tazza.operator import find_schema
from tazza.proto import DeviceOption, OperatorDef

Blobs = dict[str, DeviceOption]


def InferBlobDevices(net: Any) -> Blobs:
    """Return the device of each blob that a net makes: that of its operator."""
    return {name: op.device_option for op in net.Proto().op for name in op.output}


def InferOpBlobDevices(op: OperatorDef) -> tuple[list[DeviceOption], list[DeviceOption]]:
    """Return the devices that inputs and outputs of an operator lie on."""
    schema = find_schema(op.type)
    view = schema.typed_view(op)

    def option(host: bool) -> DeviceOption:
        made = DeviceOption()
        if not host:
            made.CopyFrom(op.device_option)
        return made

    inputs = [option(schema.inputs_by_letter[letter].host) for letter in view.input_letters]
    return inputs, [option(schema.outputs_by_letter[letter].host) for letter in view.output_letters]


def InferOpBlobDevicesAsDict(op: OperatorDef) -> tuple[Blobs, Blobs]:
    """Return the devices of inputs and outputs by name."""
    inputs, outputs = InferOpBlobDevices(op)
    return dict(zip(op.input, inputs, strict=True)), dict(zip(op.output, outputs, strict=True))


def InferOpDeviceAsBlobDevices(op: OperatorDef) -> tuple[list[DeviceOption], list[DeviceOption]]:
    """Return the operator's own device for each input and output."""
    return [op.device_option] * len(op.input), [op.device_option] * len(op.output)


def update_placeholder_op_output(op: OperatorDef, blob_to_device: Blobs) -> None:
    """Note where the outputs of a placeholder lie: on the CPU, where it is a Recv of a remote blob."""
    outputs = [name for name in op.output if op.type != "Recv" or not name.startswith("id")]
    for name in outputs:
        blob_to_device[name] = op.device_option


class RemapEntry:
    """A blob on a device, as a key."""

    def __init__(self, blob: Any, device: DeviceOption) -> None:
        """Name both."""
        self.blob = blob
        self.device = device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemapEntry) and self.blob == other.blob and self.device == other.device

    def __hash__(self) -> int:
        return hash(str(self.blob) + str(self.device))


def _name_on(blob: str, device: DeviceOption) -> str:
    if device.device_type == 0:
        return f"{blob}_cpu"
    if IsGPUDeviceType(device.device_type):
        return f"{blob}_gpu_{device.device_id}"
    raise RuntimeError(f"Unknown device type: {device.device_type}")


@dataclass
class _Copier:
    """Rewrites one net: `places` of blobs, names of their `copies`, and which are there by now."""

    net: Any
    places: Blobs
    copies: dict[RemapEntry, str]
    there: dict[RemapEntry, str] = field(default_factory=dict[RemapEntry, str])

    def input(self, op: OperatorDef, name: str, wanted: DeviceOption) -> str:
        """Return the name under which an operator reads a blob, after a copy where it lies elsewhere."""
        present = self.places[name]
        if device_equal(present, wanted):
            return name
        entry = RemapEntry(name, wanted)
        if entry not in self.there:
            copy = copy_func_between_devices(present, wanted)
            assert copy is not None, "two devices"
            made = self.copies.setdefault(entry, _name_on(name, wanted))
            copy(self.net, [BlobReference(name)], [BlobReference(made)])
            self.places[made] = wanted
            self.there[entry] = made
        return self.there[entry]

    def forget(self, name: str) -> None:
        """Drop the copies of a blob that is written anew."""
        for entry in [one for one in self.there if one.blob == name]:
            del self.there[entry]


def InjectCrossDeviceCopies(
    net: Any,
    blob_to_device: Blobs | None = None,
    blob_remap: dict[RemapEntry, str] | None = None,
    placeHolderOps: Iterable[str] | None = None,
) -> tuple[Any, Blobs]:
    """Return a net in which blobs are copied to where operators read them, and where blobs lie.

    Inputs from outside of which `blob_to_device` says nothing lie on the CPU.
    """
    made = net.Clone(net.Name() + "_cross_device", keep_schema=True)
    ops = list(made.Proto().op)
    del made.Proto().op[:]
    places: Blobs = {} if blob_to_device is None else blob_to_device
    copier = _Copier(made, places, {} if blob_remap is None else blob_remap)
    holders = frozenset(() if placeHolderOps is None else placeHolderOps)
    for op in ops:
        is_holder = op.type in holders
        infer: Callable[[OperatorDef], Any] = InferOpDeviceAsBlobDevices if is_holder else InferOpBlobDevices
        inputs, outputs = infer(op)
        own = OperatorDef()
        own.CopyFrom(op)
        for position, (name, wanted) in enumerate(zip(op.input, inputs, strict=True)):
            if name not in places:
                if name not in made.Proto().external_input:
                    raise AttributeError(f"No device information found for blob {name}.")
                places[name] = DeviceOption()
            own.input[position] = name if is_holder else copier.input(op, name, wanted)
        moved = dict(zip(op.input, own.input, strict=True))
        own.output[:] = [str(moved.get(name, name)) for name in op.output]
        made.extend_ops([own])
        if is_holder:
            update_placeholder_op_output(own, places)
        for name, place in zip(own.output, outputs, strict=True):
            copier.forget(name)
            places[name] = place
    return made, places


def InjectDeviceCopiesAmongNets(
    nets: Iterable[Any], blob_to_device_init: Blobs | None = None
) -> tuple[list[Any], Blobs]:
    """Return nets in which blobs are copied, one after the other, and where blobs lie in the end."""
    assert isinstance(nets, list), f"nets {nets} should be a list of nets."
    assert len(nets) > 0, f"nets {nets} is empty"
    places: Blobs = {} if blob_to_device_init is None else blob_to_device_init
    copies: dict[RemapEntry, str] = {}
    return [InjectCrossDeviceCopies(net, places, copies)[0] for net in nets], places


def InjectDeviceCopiesAmongNetsWithoutB2D(
    nets: Iterable[Any], blob_to_device_init: Mapping[str, DeviceOption] | None = None
) -> list[Any]:
    """Return the nets alone."""
    return InjectDeviceCopiesAmongNets(nets, None if blob_to_device_init is None else dict(blob_to_device_init))[0]
