"""Workspaces: who owns blobs and nets.

A name is looked up among the workspace's own blobs, then among the forwarded names, then in the parent
(`operator.local`). Forwarded names are resolved anew at each use, and may lead to several workspaces.

State: `blobs` and `_nets` change under `_lock`; the values of blobs belong to who runs on them. All living workspaces
of the process are in `_living`, by weak reference.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, overload

import numpy as np

from tazza.device import current_context
from tazza.errors import ArgumentError, DuplicateError, NotFoundError
from tazza.nets import NetBase, create_net
from tazza.nets.base import AS_PLANS, NETS, PLAN, net_class
from tazza.operator import LocalBlobs, Operator, read_first
from tazza.operator.owner import RunnableNet
from tazza.proto import NetDef, OperatorDef, TensorProto
from tazza.runtime.fork import freed_in_child
from tazza.runtime.threads import thread_count
from tazza.tensor import Blob, Int8Tensor, Place, Tensor
from tazza.tensor.tensor_proto import tensor_proto_to_array
from tazza.tensor.transfer import copy_to, to_place

_living: weakref.WeakSet[Workspace] = weakref.WeakSet()
_living_lock = freed_in_child(threading.Lock())


class Workspace(LocalBlobs):
    """Blobs by name, and the nets that run on them.

    >>> from tazza.operator import operator_def
    >>> ws = Workspace()
    >>> ws.feed("x", np.float32([-1, 2]))
    >>> ws.run_operator(operator_def("Relu", ["x"], ["y"]))
    >>> ws.fetch("y")
    array([0., 2.], dtype=float32)
    """

    def __init__(
        self,
        *,
        root: str | os.PathLike[str] = ".",
        parent: Workspace | None = None,
        forwarded: Mapping[str, str | tuple[Workspace, str]] | None = None,
        shared: bool | None = None,
    ) -> None:
        """Create a workspace.

        Args:
            root: folder against which operators resolve relative paths.
            parent: whose blobs are seen too.
            forwarded: own name -> name in `parent`, or another workspace and a name there.
            shared: whether it sees everything of its parent; by default where nothing is forwarded.

        Raises:
            ArgumentError: forwarded names without a parent, or of blobs that the parent does not have.
        """
        sees_all = forwarded is None if shared is None else shared
        super().__init__(Path(root), parent=parent if sees_all else None)
        self.parent = parent
        self._nets: dict[str, NetBase] = {}
        self._lock = freed_in_child(threading.RLock())
        self._pool: ThreadPoolExecutor | None = None
        names: Mapping[str, str | tuple[Workspace, str]] = {} if forwarded is None else forwarded
        for name, target in names.items():
            owner, outer = (parent, target) if isinstance(target, str) else target
            if owner is None:
                raise ArgumentError("forwarded names need a parent workspace")
            if not owner.has_blob(outer):
                raise ArgumentError(f"the parent workspace has no blob {outer!r} to forward")
            self.forwarded[name] = owner, outer
        with _living_lock:
            _living.add(self)

    # -- blobs ---------------------------------------------------------------------------------------------------------

    def has_blob(self, name: str) -> bool:
        """Whether a name stands for a blob, here or in the parent."""
        return self.get_blob(name) is not None

    def create_blob(self, name: str) -> Blob:
        """Return the blob of that name, made empty here when nobody has it."""
        with self._lock:
            return super().create_blob(name)

    def blob(self, name: str) -> Blob:
        """Return the blob of that name.

        Raises:
            NotFoundError: nobody has it.
        """
        gone = self._recall(lambda: (name,))
        found = self.get_blob(name)
        if found is None:
            raise NotFoundError(f"blob {name!r} does not exist", hint=self._why_missing(name))
        if found.is_empty and gone is not None:
            raise NotFoundError(f"blob {name!r} is empty", hint=gone)
        return found

    def _recall(self, names: Callable[[], Iterable[str]]) -> str | None:
        """Tell the nets that want to know which blobs are asked for; return why one is empty, if a net knows."""
        nets = [net for net in list(self._nets.values()) if net.recalls]
        if not nets:
            return None
        from tazza.nets.plan.recall import recall

        return recall(nets, names(), self)

    def _why_missing(self, name: str) -> str:
        reasons = (net.why_missing(name) for net in list(self._nets.values()))
        found = next((reason for reason in reasons if reason is not None), None)
        return f"blobs: {', '.join(self.blob_names()[:20])}" if found is None else found

    def local_blobs(self) -> list[str]:
        """Return the names of the blobs that this workspace itself holds, sorted."""
        return sorted(self.blobs)

    def reset_blob(self, name: str) -> None:
        """Empty a blob and keep it, so that nets stay bound to it; what old scripts call `ResetBlob`.

        Raises:
            NotFoundError: no such blob.
        """
        self.blob(name).reset()

    def remove_blob(self, name: str) -> bool:
        """Remove an own blob; False when there is none. Nets that are bound to it keep it."""
        with self._lock:
            return self.blobs.pop(name, None) is not None

    def rename_blob(self, old: str, new: str) -> Blob:
        """Give an own blob another name.

        Raises:
            NotFoundError, DuplicateError: `old` is not an own blob, or `new` is taken.
        """
        with self._lock:
            if old not in self.blobs:
                raise NotFoundError(
                    f"blob {old!r} is not in this workspace itself", hint="only own blobs can be renamed"
                )
            if self.has_blob(new):
                raise DuplicateError(f"blob {new!r} exists already")
            blob = self.blobs.pop(old)
            blob.name = new
            self.blobs[new] = blob
            return blob

    def feed(self, name: str, value: Any, place: Place | None = None) -> None:
        """Put a value into a blob: an array (copied, dtype kept), a Tensor, Int8Tensor, text, bytes, or a TensorProto.

        Tensors lie at `place` then, by default the host. A feed that fails changes nothing.

        Raises:
            ArgumentError: a Python number or a list; make it an array, so that its dtype is said. Text for a device.
            DTypeError: a dtype that tensors do not have, or that do not lie at the place.
            UnavailableError: the device is not there, and why.
            OutOfMemoryError: it has no room.
        """
        taken = feedable(name, value)
        if place is None or place.is_host:
            put(self.create_blob(name), taken)
        else:
            blob = self.get_blob(name)
            held = there(place, None if blob is None else blob.value, taken)
            keep(self.create_blob(name), held)

    def fetch(self, name: str) -> Any:
        """Return what a blob holds: a tensor as a fresh array, text as bytes, else a describing text in bytes.

        A quantized tensor is an `Int8Tensor`: array, scale and zero point.

        Raises:
            NotFoundError: no such blob.
        """
        return take(self.blob(name))

    def blob_bytes(self) -> dict[str, int]:
        """Return the bytes of memory behind each own blob that holds a tensor; old scripts: `GetBlobSizeBytes`."""
        return {name: blob.value.nbytes for name, blob in self.blobs.items() if isinstance(blob.value, Tensor)}

    # -- nets ----------------------------------------------------------------------------------------------------------

    def create_net(self, definition: NetDef, *, overwrite: bool = False, strict: bool = False) -> NetBase:
        """Make a net and keep it under its name.

        Raises:
            DuplicateError: the name is taken, and `overwrite` is not set.
        """
        if definition.name in self._nets and not overwrite:
            raise self._net_exists(definition.name)
        self._recall(lambda: read_first(definition.op))
        made = self._made(definition, strict=strict)
        with self._lock:
            former = self._nets.get(definition.name)
            taken = former is not None and not overwrite  # by a thread that was quicker
            if not taken:
                self._nets[definition.name] = made
        superseded = made if taken else former
        if superseded is not None:
            superseded.close()
        if taken:
            raise self._net_exists(definition.name)
        return made

    def _made(self, definition: NetDef, *, strict: bool) -> NetBase:
        if not AS_PLANS.value or net_class(definition) is NETS[PLAN]:
            return create_net(definition, self, strict=strict)
        from tazza.nets.plan.recall import RecallNet

        made = RecallNet(definition, self, strict=strict)
        for net in list(self._nets.values()):
            made.ask(read_first(net.definition.op))
        return made

    @staticmethod
    def _net_exists(name: str) -> DuplicateError:
        return DuplicateError(f"net {name!r} exists already", hint="pass overwrite=True, or give it another name")

    @overload
    def net(self, definition: str, *, within: None = None) -> NetBase: ...

    @overload
    def net(self, definition: NetDef, *, within: Operator | None = None) -> RunnableNet: ...

    def net(self, definition: NetDef | str, *, within: Operator | None = None) -> RunnableNet:
        """Return the net of that name, which was created; or, given a NetDef, a new one that only the caller knows.

        Raises:
            NotFoundError: no net of that name.
            TazzaError: the net is not legal.
        """
        if not isinstance(definition, str):
            return super().net(definition, within=within)
        found = self._nets.get(definition)
        if found is None:
            raise NotFoundError(f"net {definition!r} does not exist", hint=f"nets: {', '.join(self.nets())}")
        return found

    def nets(self) -> list[str]:
        """Return the names of the nets that were created, sorted."""
        return sorted(self._nets)

    def run_net(self, name: str, times: int = 1) -> None:
        """Run a created net `times` times (0 or more).

        Raises:
            NotFoundError: no net of that name.
            ArgumentError: a negative number of times.
            TazzaError: what the net raises.
        """
        if times < 0:
            raise ArgumentError(f"net {name!r} cannot run {times} times")
        found = self.net(name)
        for _ in range(times):
            found.run()

    def delete_net(self, name: str) -> bool:
        """Close and forget a net; False when there is none of that name. Its blobs stay."""
        with self._lock:
            found = self._nets.pop(name, None)
        if found is not None:
            found.close()
        return found is not None

    def run_net_once(self, definition: NetDef, *, strict: bool = False) -> None:
        """Make a net, run it once, and forget it.

        Raises:
            TazzaError: the net is not well formed, or what it raises.
        """
        self._recall(lambda: read_first(definition.op))
        made = create_net(definition, self, strict=strict, copy=False)
        try:
            made.run()
        finally:
            made.close()

    def run_operator(self, definition: OperatorDef, *, strict: bool = False) -> None:
        """Make an operator, run it once, and forget it.

        Raises:
            TazzaError: the operator is not legal, or what it raises.
        """
        self._recall(lambda: read_first([definition]))
        made = Operator(definition, self, strict=strict)
        try:
            with np.errstate(all="ignore"):
                made.run()
            current_context(made.place).wait()
        finally:
            made.close()

    # -- the rest ------------------------------------------------------------------------------------------------------

    def thread_pool(self) -> ThreadPoolExecutor:
        """Return this workspace's pool of threads, made on first use."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(thread_count(), thread_name_prefix="tazza-workspace")
            return self._pool

    def reset(self) -> None:
        """Remove all nets and own blobs; readers, queues and the like end here, whoever still holds a closed net."""
        with self._lock:
            nets, self._nets = list(self._nets.values()), {}
            blobs = list(self.blobs.values())
            self.blobs.clear()
            pool, self._pool = self._pool, None
        for net in nets:
            net.close()
        if pool is not None:
            pool.shutdown()
        for blob in blobs:
            if not blob.is_tensor:
                blob.reset()


def feedable(name: str, value: Any) -> Any:
    """Return what `put` takes: text, bytes, an array, or one with scale and zero point.

    Arrays of other libraries are taken by `__array__` or DLPack; numbers and lists have neither.

    Raises:
        ArgumentError: a Python number, a list or another object.
    """
    if isinstance(value, (str, bytes, Int8Tensor)) or _is_array(value):
        return value
    if isinstance(value, TensorProto):
        return tensor_proto_to_array(value)
    if isinstance(value, Tensor):
        return value.plain() if value.quantization is None else value.fetched()
    if not isinstance(cast("object", value), (np.ndarray, np.generic)):  # of another library
        if hasattr(value, "__array__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            return Tensor.from_dlpack(value).plain()
    kind = type(value).__name__
    raise ArgumentError(f"cannot feed a {kind} into blob {name!r}", hint="feed an array, text, bytes or a TensorProto")


def put(blob: Blob, value: Any) -> None:
    """Put text, bytes or a copy of an array into a blob; a tensor in it stays the same object.

    Raises:
        DTypeError: a dtype that tensors do not have.
    """
    if isinstance(value, (str, bytes)):
        blob.set(value)
        return
    array, meaning = (value.data, value.quantization) if isinstance(value, Int8Tensor) else (value, None)
    tensor = blob.value if isinstance(blob.value, Tensor) else Tensor()
    tensor.assign(array)
    tensor.quantize_as(meaning)
    if blob.value is not tensor:
        blob.set(tensor)


def there(place: Place, present: object, value: Any) -> Tensor:
    """Return a copy of an array on a device: the tensor that is `present`, written over, if it lies so, or a new one.

    Raises:
        ArgumentError: text, which lies on no device.
        UnavailableError, OutOfMemoryError: the device is not there, or has no room.
    """
    if isinstance(value, (str, bytes)):
        raise ArgumentError(f"text is not fed to {place}", hint="feed it to the CPU")
    array, meaning = (value.data, value.quantization) if isinstance(value, Int8Tensor) else (value, None)
    given = Tensor()
    given.assign(array)
    if isinstance(present, Tensor) and present.place == place and present.spec == replace(given.spec, place=place):
        copy_to(given, present)
        held = present
    else:
        held = to_place(given, place)
    held.quantize_as(meaning)
    return held


def keep(blob: Blob, tensor: Tensor) -> None:
    """Let a blob hold a tensor, which it may hold already."""
    if blob.value is not tensor:
        blob.set(tensor)


def take(blob: Blob) -> Any:
    """Return what a blob holds: a tensor as `fetched` gives it, text as bytes, else a describing text in bytes."""
    value = blob.value
    if isinstance(value, Tensor) and value.allocated:
        return value.fetched()
    if isinstance(value, (str, bytes)):
        return value.encode() if isinstance(value, str) else value
    return blob.describe().encode()


def _is_array(value: Any) -> bool:
    """Whether a value is an array without a mask, which a tensor could not keep."""
    if type(value) is np.ndarray:
        return True
    # Looking at `np.ma` imports it, which only somebody who has such an array did.
    masked = sys.modules.get("numpy.ma")
    return isinstance(value, np.ndarray) and (masked is None or not isinstance(value, masked.MaskedArray))


def living_workspaces() -> Iterator[Workspace]:
    """Yield every workspace of the process that is still referred to."""
    with _living_lock:
        found = list(_living)
    yield from found


# -- named workspaces: one of them is current --------------------------------------------------------------------------

_named: dict[str, Workspace] = {}
_current = "default"
_named_lock = freed_in_child(threading.RLock())


def current_workspace() -> Workspace:
    """Return the current workspace; at first one called `default`."""
    with _named_lock:
        if _current not in _named:
            _named[_current] = Workspace()
        return _named[_current]


def current_workspace_name() -> str:
    """Return the name of the current workspace."""
    return _current


def workspace_names() -> list[str]:
    """Return the names of all named workspaces, sorted; what old scripts call `Workspaces`."""
    with _named_lock:
        return sorted({*_named, _current})


def switch_workspace(name: str, *, create: bool = False, parent: Workspace | None = None) -> Workspace:
    """Make the workspace of that name the current one.

    Args:
        name: which.
        create: make it when it does not exist.
        parent: parent of a workspace that is made.

    Raises:
        NotFoundError: it does not exist and `create` is not set.
        DuplicateError: it exists, and a parent is given, which would have no effect.
    """
    global _current
    with _named_lock:
        current_workspace()
        if name in _named and parent is not None:
            raise DuplicateError(f"workspace {name!r} exists already, it cannot get a parent")
        if name not in _named:
            if not create:
                raise NotFoundError(f"workspace {name!r} does not exist", hint="pass create=True")
            _named[name] = Workspace(parent=parent)
        _current = name
        return _named[name]
