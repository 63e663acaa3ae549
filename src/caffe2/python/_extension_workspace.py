"""Workspaces, nets, blobs and tensors, as the extension gave them to Python."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from tazza import workspace as home
from tazza.device import place_of
from tazza.errors import ArgumentError, RunFailedError
from tazza.nets import NetBase
from tazza.ops.control.python_function import PythonTensor
from tazza.proto import DeviceOption, NetDef, OperatorDef, PlanDef
from tazza.proto.message import parse
from tazza.tensor import Blob as TazzaBlob
from tazza.tensor import DataType, Place, Tensor
from tazza.tensor.serialization import deserialize, serialize

M = TypeVar("M", bound=Message)


def message(cls: type[M], given: Any) -> M:
    """Return a message that is given as itself or as bytes; a text is neither."""
    if isinstance(given, cls):
        return given
    if isinstance(given, str):
        raise TypeError(f"a {cls.DESCRIPTOR.name} is given as bytes or as itself, {given[:40]!r} is a text")
    return parse(cls, given, f"the {cls.DESCRIPTOR.name} of a call")


class TensorCPU(PythonTensor):
    """A tensor of the host."""

    @property
    def _shape(self) -> list[int]:
        return list(self.shape)

    def _reshape(self, dims: Iterable[int]) -> None:
        self.reshape(dims)


class Blob:
    """A blob."""

    def __init__(self, blob: TazzaBlob, ask: Callable[[], object] | None = None) -> None:
        """Show a blob of tazza; `ask` tells its workspace that somebody wants what it holds."""
        self._blob, self._ask = blob, ask

    @property
    def _asked(self) -> TazzaBlob:
        if self._ask is not None:
            self._ask()
        return self._blob

    def fetch(self) -> Any:
        """Return what it holds."""
        return home.take(self._asked)

    def is_tensor(self) -> bool:
        """Whether it holds a tensor."""
        return self._asked.is_tensor

    def tensor(self) -> TensorCPU:
        """Return its tensor, made where it is empty."""
        return TensorCPU(self._asked.tensor())

    as_tensor = tensor

    def serialize(self, name: str) -> bytes:
        """Return it as one message under a name."""
        return serialize(self._asked, name)

    def deserialize(self, content: bytes) -> None:
        """Take what a message holds."""
        self._blob.set(deserialize(content).value)

    def _feed(self, arg: Any, device_option: Any = None) -> bool:
        value, place = home.feedable(self._blob.name, fed(arg)), place_for(device_option)
        if place.is_host:
            home.put(self._blob, value)
        else:
            home.keep(self._blob, home.there(place, self._blob.value, value))
        return True

    def feed(self, arg: Any, device_option: Any = None) -> bool:
        """Put a value into it."""
        return self._feed(arg, device_option)

    def to_torch(self) -> Any:
        """Return its tensor as one of torch."""
        import torch  # pyright: ignore[reportMissingImports]

        return torch.from_numpy(self.fetch())  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class Net:
    """A created net."""

    def __init__(self, net: NetBase) -> None:
        """Show a net of tazza."""
        self._net = net

    def run(self) -> None:
        """Run it once."""
        self._net.run()

    def cancel(self) -> None:
        """Ask what waits in it to give up."""
        self._net.cancel_waiting()


class _Current:
    """The attribute `Workspace.current`."""

    def __get__(self, instance: object, owner: type) -> Workspace:
        return Workspace.showing(home.current_workspace())


class Workspace:
    """A workspace; `Workspace.current` is the current one."""

    current = _Current()

    def __init__(self, parent: Workspace | None = None) -> None:
        """Make one, below another."""
        self._workspace = home.Workspace(parent=None if parent is None else parent._workspace)

    @classmethod
    def showing(cls, workspace: home.Workspace) -> Workspace:
        """Return what shows a workspace of tazza."""
        made = cls.__new__(cls)
        made._workspace = workspace
        return made

    @property
    def blobs(self) -> dict[str, Blob]:
        """The blobs that it sees by name, those of the workspaces above it too."""
        own = self._workspace
        return {name: Blob(own.blob(name), functools.partial(own.blob, name)) for name in sorted(own.blob_names())}

    @property
    def nets(self) -> dict[str, Net]:
        """Its nets by name."""
        return {name: Net(self._workspace.net(name)) for name in self._workspace.nets()}

    def has_blob(self, name: str) -> bool:
        """Whether a name stands for a blob."""
        return self._workspace.has_blob(name)

    def create_blob(self, name: str) -> Blob:
        """Return a blob, made empty where nobody has it."""
        return Blob(self._workspace.create_blob(name))

    def fetch_blob(self, name: str) -> Any:
        """Return what a blob holds."""
        return self._workspace.fetch(name)

    def feed_blob(self, name: Any, arr: Any, device_option: Any = None) -> bool:
        """Put a value into a blob."""
        return self.create_blob(str(name)).feed(arr, device_option)

    def remove_blob(self, blob: Any) -> None:
        """Remove an own blob."""
        self._remove_blob(str(blob))

    def _remove_blob(self, name: str) -> bool:
        return self._workspace.remove_blob(name)

    def create_net(self, net: Any, overwrite: bool = False) -> Net:
        """Make a net."""
        return self._create_net(stringified(net), overwrite)

    def _create_net(self, definition: Any, overwrite: bool = False) -> Net:
        return Net(self._workspace.create_net(message(NetDef, definition), overwrite=overwrite))

    def run(self, obj: Any) -> Any:
        """Run a created net, or what is given as a plan, a net or an operator, once."""
        from caffe2.python import core

        if isinstance(obj, Net):
            return obj.run()
        if isinstance(obj, (core.Plan, PlanDef)):
            return self._run_plan(stringified(obj))
        if isinstance(obj, (core.Net, NetDef)):
            return self._run_net(stringified(obj))
        if isinstance(obj, OperatorDef):
            return self._run_operator(obj)
        raise ValueError(f"Don't know how to do Workspace.run() on {type(obj)}")

    def _run_net(self, definition: Any) -> None:
        self._workspace.run_net_once(message(NetDef, definition))

    def _run_operator(self, definition: Any) -> None:
        self._workspace.run_operator(message(OperatorDef, definition))

    def _run_plan(self, definition: Any) -> None:
        from tazza.procedure import run_procedure

        run_procedure(message(PlanDef, definition), self._workspace)

    def _last_failed_op_net_position(self) -> int:
        return -1

    def fetch_int8_blob(self, name: str) -> Any:
        """Return what a blob of whole numbers holds, with scale and zero point."""
        return self._workspace.fetch(name)


def stringified(obj: Any) -> Any:
    """Return a message, or bytes, of what is one or has one."""
    return obj.Proto() if hasattr(obj, "Proto") else obj


def place_for(given: Any) -> Place:
    """Return where values are fed: the host, unless an option names a device."""
    return place_of(message(DeviceOption, given) if given else DeviceOption())


def check_device(given: Any) -> None:
    """Check that an option is one of the host, where queues lie."""
    place = place_for(given)
    if not place.is_host:
        raise ArgumentError(f"values cannot be fed to {place}", hint="feed them to the CPU, and copy")


def fed(value: Any) -> Any:
    """Return a value as tazza takes it: texts of any width are texts."""
    if isinstance(value, np.ndarray):
        array = np.asarray(cast("NDArray[Any]", value))  # a mask is left behind
        return array.astype(object) if array.dtype.kind in "SU" else array
    return value


# -- the current workspace -------------------------------------------------------------------------------------------


def blobs() -> list[str]:
    """Return the names of all blobs."""
    return home.current_workspace().blob_names()


def local_blobs() -> list[str]:
    """Return the names of own blobs."""
    return home.current_workspace().local_blobs()


def nets() -> list[str]:
    """Return the names of created nets."""
    return home.current_workspace().nets()


def has_blob(name: object) -> bool:
    """Whether a name stands for a blob."""
    if not isinstance(name, (str, bytes)):
        raise TypeError(f"has_blob(): a blob is asked for by its name, not by {name!r}")
    return home.current_workspace().has_blob(name if isinstance(name, str) else name.decode())


def create_blob(name: Any) -> bool:
    """Make an empty blob where nobody has it."""
    home.current_workspace().create_blob(str(name))
    return True


def reset_blob(name: Any) -> None:
    """Empty a blob."""
    home.current_workspace().reset_blob(str(name))


def fetch_blob(name: str) -> Any:
    """Return what a blob holds."""
    return home.current_workspace().fetch(name)


def feed_blob(name: str, arg: Any, device_option: Any = None) -> bool:
    """Put a value into a blob."""
    home.current_workspace().feed(name, fed(arg), place_for(device_option))
    return True


def serialize_blob(name: str) -> bytes:
    """Return a blob as one message."""
    return serialize(home.current_workspace().blob(name), name)


def deserialize_blob(name: str | bytes, content: bytes | None = None) -> Any:
    """Let a blob take what a message holds; with the message alone return a new blob."""
    if content is None:
        return Blob(deserialize(name.encode("latin-1") if isinstance(name, str) else name))
    home.current_workspace().create_blob(str(name)).set(deserialize(content).value)
    return None


def get_blob_size_bytes(name: str) -> int:
    """Return the bytes of a blob's elements, 0 of what is no tensor."""
    value = home.current_workspace().blob(name).value
    return value.nbytes if isinstance(value, Tensor) else 0


def get_blob_numa_node(name: str) -> int:
    """Return the node of memory that a blob lies on, -1: nobody says."""
    home.current_workspace().blob(name)
    return -1


def create_offline_tensor(name: str, dims: Sequence[int], data_type: int) -> bool:
    """Make a tensor of a shape, without elements."""
    blob = home.current_workspace().create_blob(name)
    made = Tensor()
    made.resize(tuple(dims), DataType.from_proto(data_type))
    blob.set(made)
    return True


def current_workspace() -> str:
    """Return the name of the current workspace."""
    return home.current_workspace_name()


def workspaces() -> list[str]:
    """Return the names of all named workspaces."""
    return home.workspace_names()


def switch_workspace(name: Any, create_if_missing: Any = None) -> None:
    """Make a workspace the current one.

    Raises:
        TypeError: the workspace itself is given, which has no name.
    """
    if isinstance(name, Workspace):
        raise TypeError("switch_workspace(): a workspace is made current by its name")
    home.switch_workspace(str(name), create=bool(create_if_missing))


def create_child_workspace(parent_ws_name: str, child_ws_name: str) -> None:
    """Make a named workspace below another."""
    present = home.current_workspace_name()
    parent = home.switch_workspace(parent_ws_name)
    try:
        home.switch_workspace(child_ws_name, create=True, parent=parent)
    finally:
        home.switch_workspace(present)


def root_folder() -> str:
    """Return the folder that relative paths count from."""
    return str(home.current_workspace().root)


def reset_workspace(root_folder: Any = None) -> bool:
    """Remove all nets and blobs, and begin in another folder."""
    workspace = home.current_workspace()
    workspace.reset()
    if root_folder is not None:
        workspace.root = Path(root_folder)
    return True


def get_stats() -> dict[str, int]:
    """Return the counters of operators that keep some."""
    return {}


# -- running -----------------------------------------------------------------------------------------------------------


def create_net(net_def: Any, overwrite: bool = False) -> bool:
    """Make a net."""
    home.current_workspace().create_net(message(NetDef, net_def), overwrite=overwrite)
    return True


def delete_net(name: str) -> bool:
    """Forget a net."""
    return home.current_workspace().delete_net(name)


def run_net(name: str, num_iter: int, allow_fail: bool) -> bool:
    """Run a created net so often; False where `allow_fail` and an operator says that it failed, without more."""
    try:
        home.current_workspace().run_net(name, num_iter)
    except RunFailedError:
        if not allow_fail:
            raise
        return False
    return True


def run_net_once(net_def: Any) -> bool:
    """Make a net, run it and forget it."""
    home.current_workspace().run_net_once(message(NetDef, net_def))
    return True


def run_operator_once(op_def: Any) -> bool:
    """Make an operator, run it and forget it."""
    home.current_workspace().run_operator(message(OperatorDef, op_def))
    return True


def run_operator_multiple(op_def: Any, num_runs: int) -> bool:
    """Make an operator, run it so often and forget it."""
    net = NetDef(op=[message(OperatorDef, op_def)])
    made = home.create_net(net, home.current_workspace(), copy=False)
    try:
        for _ in range(num_runs):
            made.run()
    finally:
        made.close()
    return True
