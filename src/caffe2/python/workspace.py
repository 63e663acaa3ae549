"""`from caffe2.python import workspace`: blobs and nets of the current workspace under their old names."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import socket
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import Message

from caffe2.python import _import_c_extension as C
from caffe2.python import scope, utils
from caffe2.python._refusal import refuses
from tazza.proto import NetDef, TensorProto, TensorShapes
from tazza.tensor import Int8Tensor as Int8Tensor

logger = logging.getLogger(__name__)

Blobs = C.blobs
ResetBlob = C.reset_blob
CreateBlob = C.create_blob
CurrentWorkspace = C.current_workspace
DeserializeBlob = C.deserialize_blob
GlobalInit = C.global_init
HasBlob = C.has_blob
RegisteredOperators = C.registered_operators
SerializeBlob = C.serialize_blob
SwitchWorkspace = C.switch_workspace
RootFolder = C.root_folder
Workspaces = C.workspaces
BenchmarkNet = C.benchmark_net
BenchmarkNetOnce = C.benchmark_net_once
GetStats = C.get_stats
CreateOfflineTensor = C.create_offline_tensor

operator_tracebacks: defaultdict[str, dict[int, Any]] = defaultdict(dict)

is_asan = C.is_asan
has_cuda_support = C.has_cuda_support
has_hip_support = C.has_hip_support
has_gpu_support = C.has_gpu_support

IsNUMAEnabled = C.is_numa_enabled
GetNumNUMANodes = C.get_num_numa_nodes
GetBlobNUMANode = C.get_blob_numa_node
GetBlobSizeBytes = C.get_blob_size_bytes

NumCudaDevices = C.num_cuda_devices
GpuDeviceType = 1
Workspace = C.Workspace


def NumGpuDevices() -> int:
    """Return how many GPUs there are to run on."""
    return C.num_cuda_devices()


def GetCUDAVersion() -> int:
    """Return the version of CUDA, 0 without it."""
    return C.get_cuda_version()


def GetCuDNNVersion() -> int:
    """Return the version of cuDNN, 0 without it."""
    return C.get_cudnn_version()


_without_gpu = refuses("there is no GPU to run on", "workspace.has_gpu_support says so")


@_without_gpu
def GetDeviceProperties(x: int) -> Any:
    """Return what a GPU is.

    Raises:
        UnavailableError: there is none.
    """


@_without_gpu
def GetGPUMemoryInfo() -> Any:
    """Return the free and all bytes of each GPU.

    Raises:
        UnavailableError: there is none.
    """


def GetGpuPeerAccessPattern() -> Any:
    """Return which GPU reads which: each its own memory alone, whatever the machine could; others' is copied."""
    return np.eye(NumGpuDevices(), dtype=bool)


def FillRandomNetworkInputs(
    net: Any, input_dims: Sequence[Sequence[Sequence[int]]], input_types: Sequence[Sequence[str]]
) -> None:
    """Feed inputs of a net with random numbers of given shapes and types."""
    C.fill_random_network_inputs(net.Proto(), input_dims, input_types)


def _GetFreeFlaskPort() -> int:  # pyright: ignore[reportUnusedFunction] -- an old name
    with socket.socket() as found:
        found.bind(("", 0))
        return found.getsockname()[1]


@refuses("the page of logs is not there", "tazza profile draws; curves are in out/<model>")
def StartMint(root_folder: str | None = None, port: int | None = None) -> None:
    """Fail: the page that showed logs is not there.

    Raises:
        UnavailableError: always.
    """


def _last_failed() -> int:
    return C.Workspace.current._last_failed_op_net_position()  # pyright: ignore[reportPrivateUsage] -- a private door


def StringifyProto(obj: Any) -> Any:
    """Return the bytes of a message, or of what has one.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(obj, (str, bytes)):
        return obj
    if isinstance(obj, Message):
        return obj.SerializeToString()
    if hasattr(obj, "Proto"):
        return obj.Proto().SerializeToString()
    raise ValueError(f"Unexpected argument to StringifyProto of type {type(obj).__name__}")


def _message(obj: Any) -> Any:
    """Return what functions of `C` take: the message itself, where there is one."""
    if isinstance(obj, Message):
        return obj
    return obj.Proto() if hasattr(obj, "Proto") else StringifyProto(obj)


def ResetWorkspace(root_folder: str | None = None) -> bool:
    """Remove all blobs and nets; relative paths count from a folder from then on."""
    if root_folder is None:
        return C.reset_workspace()
    os.makedirs(root_folder, exist_ok=True)
    return C.reset_workspace(root_folder)


def CreateNet(net: Any, overwrite: bool = False, input_blobs: Iterable[Any] | None = None) -> Any:
    """Make a net, so that it can be run by its name; its inputs first, where they are listed."""
    for blob in () if input_blobs is None else input_blobs:
        C.create_blob(blob)
    return CallWithExceptionIntercept(C.create_net, _last_failed, GetNetName(net), _message(net), overwrite)


def Predictor(init_net: Any, predict_net: Any) -> C.Predictor:
    """Return what runs a net on given inputs, behind its init net."""
    return C.Predictor(_message(init_net), _message(predict_net))


def GetOperatorCost(operator: Any, blobs: Sequence[str]) -> tuple[int, int]:
    """Return operations and bytes of an operator."""
    return C.get_operator_cost(_message(operator), blobs)


def RunOperatorOnce(operator: Any) -> bool:
    """Run an operator."""
    return C.run_operator_once(_message(operator))


def RunOperatorMultiple(operator: Any, num_runs: int) -> bool:
    """Run an operator so often."""
    return C.run_operator_multiple(_message(operator), num_runs)


def RunOperatorsOnce(operators: Iterable[Any]) -> bool:
    """Run operators one after the other."""
    return all(RunOperatorOnce(operator) for operator in operators)


def ClearGlobalNetObserver() -> None:
    """Forget the observer of all nets."""
    return C.clear_global_net_observer()


def CallWithExceptionIntercept(
    func: Callable[..., Any], op_id_fetcher: Callable[[], int], net_name: str, *args: Any, **kwargs: Any
) -> Any:
    """Call a function; where it raises, log where the operator was added that failed."""
    try:
        return func(*args, **kwargs)
    except Exception:
        position = op_id_fetcher()
        noted = operator_tracebacks.get(net_name, {}).get(position)
        if noted:
            places = "\n".join(f'  File "{file}", line {line}, in {name}' for file, line, name in noted)
            logger.warning("Original python traceback for operator %s in network %s:\n%s", position, net_name, places)
        raise


def RunNetOnce(net: Any) -> bool:
    """Make a net, run it and forget it."""
    return CallWithExceptionIntercept(C.run_net_once, _last_failed, GetNetName(net), _message(net))


def RunNet(name: Any, num_iter: int = 1, allow_fail: bool = False) -> bool:
    """Run a created net so often."""
    return CallWithExceptionIntercept(
        C.run_net,
        _last_failed,
        GetNetName(name),
        StringifyNetName(name),
        num_iter,
        allow_fail,
    )


def _plan_of(plan_or_step: Any) -> Any:
    from caffe2.python import core

    return _message(core.Plan(plan_or_step) if isinstance(plan_or_step, core.ExecutionStep) else plan_or_step)


def RunPlan(plan_or_step: Any) -> bool:
    """Run a plan, or a step."""
    return C.run_plan(_plan_of(plan_or_step))


def RunPlanInBackground(plan_or_step: Any) -> C.BackgroundPlan:
    """Run a plan, or a step, in a thread of its own."""
    return C.run_plan_in_background(_plan_of(plan_or_step))


def InferShapesAndTypes(
    nets: Iterable[Any],
    blob_dimensions: Mapping[str, Sequence[int]] | None = None,
    nets_proto: bool = False,
    blob_types: Mapping[str, int] | None = None,
) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Return shapes and types of the blobs of nets, from those in the workspace, or from given ones."""
    messages = [net if nets_proto else net.Proto() for net in nets]
    if blob_dimensions is None:
        assert blob_types is None
        found = C.infer_shapes_and_types_from_workspace(messages)
    elif blob_types is None:
        found = C.infer_shapes_and_types_from_map(messages, blob_dimensions)
    else:
        found = C.infer_shapes_and_types_from_map(messages, blob_dimensions, blob_types)
    listed = TensorShapes.FromString(found)
    known = [one for one in listed.shapes if not one.unknown_shape]
    return {one.name: list(one.dims) for one in known}, {one.name: one.data_type for one in known}


def _StringifyName(name: Any, expected_type: str) -> str:
    if isinstance(name, (str, bytes)):
        return name if isinstance(name, str) else name.decode()
    assert type(name).__name__ == expected_type, f"Expected a string or {expected_type}"
    return str(name)


def StringifyBlobName(name: Any) -> str:
    """Return the name of a blob."""
    return _StringifyName(name, "BlobReference")


def StringifyNetName(name: Any) -> str:
    """Return the name of a net."""
    return _StringifyName(name, "Net")


def GetNetName(net: Any) -> Any:
    """Return the name of a net, its message or a name; bytes, of a name or a message, are returned as they are."""
    if isinstance(net, (str, bytes)):
        return net
    if type(net).__name__ == "Net":
        return net.Name()
    if isinstance(net, NetDef):
        return net.name
    raise Exception(f"Not a Net object: {net}")


def FeedBlob(name: Any, arr: Any, device_option: Any = None) -> bool:
    """Put an array, text, or a TensorProto into a blob."""
    if type(arr) is TensorProto:
        arr = utils.Caffe2TensorToNumpyArray(arr)
    option = scope.CurrentDeviceScope() if device_option is None else device_option
    return C.feed_blob(StringifyBlobName(name), arr, option)


def FetchBlobs(names: Iterable[Any]) -> list[Any]:
    """Return what several blobs hold."""
    return [FetchBlob(name) for name in names]


def FetchBlob(name: Any) -> Any:
    """Return what a blob holds: a new array, bytes of a text, or of a text about it.

    Raises:
        TypeError: it holds whole numbers with a scale; see `FetchInt8Blob`.
    """
    result = C.fetch_blob(StringifyBlobName(name))
    if isinstance(result, tuple):
        raise TypeError(f"Use FetchInt8Blob to fetch Int8 Blob {name}")
    return result


def FetchTorch(name: Any) -> Any:
    """Return the tensor of a blob as one of torch."""
    return C.Workspace.current.blobs[StringifyBlobName(name)].to_torch()


def FetchInt8Blob(name: Any) -> Any:
    """Return whole numbers with scale and zero point."""
    result = C.fetch_blob(StringifyBlobName(name))
    assert isinstance(result, Int8Tensor), f"You are not fetching an Int8Blob {name}. Please use FetchBlob"
    return result


def FetchInt8BlobRealVal(name: Any) -> Any:
    """Return what the whole numbers of a blob stand for."""
    data, scale, zero_point = FetchInt8Blob(name)
    return (data.astype(np.float32) - zero_point) * np.float32(scale)


def _Workspace_fetch_int8_blob(ws: Any, name: Any) -> Any:  # pyright: ignore[reportUnusedFunction] -- an old name
    return ws.fetch_int8_blob(str(name))


def ApplyTransform(transform_key: str, net: Any) -> NetDef:
    """Return what a transform makes of a net."""
    return NetDef.FromString(C.apply_transform(str(transform_key), _message(net)))


def ApplyTransformIfFaster(transform_key: str, net: Any, init_net: Any, **kwargs: Any) -> NetDef:
    """Return what a transform makes of a net where that runs faster, else the net."""
    warm_up, runs = int(kwargs.get("warmup_runs", 5)), int(kwargs.get("main_runs", 10))
    threshold = float(kwargs.get("improvement_threshold", 1.01))
    return NetDef.FromString(
        C.apply_transform_if_faster(str(transform_key), _message(net), _message(init_net), warm_up, runs, threshold)
    )


def GetNameScope() -> str:
    """Return the prefix of the innermost scope."""
    return scope.CurrentNameScope()


class _BlobDict:
    """The blobs of the current workspace as a mapping."""

    def __getitem__(self, key: Any) -> Any:
        return FetchBlob(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        FeedBlob(key, value)

    def __len__(self) -> int:
        return len(C.blobs())

    def __iter__(self) -> Iterator[str]:
        return iter(C.blobs())

    def __contains__(self, item: Any) -> bool:
        return C.has_blob(str(item))


blobs = _BlobDict()

_immediate_mode = False
_immediate_workspace_name = "_CAFFE2_IMMEDIATE"
_immediate_root_folder = ""


def IsImmediate() -> bool:
    """Whether operators run as soon as they are made."""
    return _immediate_mode


@contextlib.contextmanager
def WorkspaceGuard(workspace_name: str) -> Generator[None, None, None]:
    """Let a workspace be the current one inside; it is made where it is not there."""
    current = CurrentWorkspace()
    SwitchWorkspace(workspace_name, True)
    try:
        yield
    finally:
        SwitchWorkspace(current)


def StartImmediate(i_know: bool = False) -> None:
    """Run operators as soon as they are made, in a workspace for that."""
    global _immediate_mode, _immediate_root_folder
    del i_know
    if IsImmediate():
        StopImmediate()
    _immediate_mode = True
    with WorkspaceGuard(_immediate_workspace_name):
        _immediate_root_folder = tempfile.mkdtemp()
        ResetWorkspace(_immediate_root_folder)


def StopImmediate() -> None:
    """End that, and forget what was made."""
    global _immediate_mode, _immediate_root_folder
    if not IsImmediate():
        return
    with WorkspaceGuard(_immediate_workspace_name):
        ResetWorkspace()
    shutil.rmtree(_immediate_root_folder, ignore_errors=True)
    _immediate_root_folder = ""
    _immediate_mode = False


def ImmediateBlobs() -> list[str]:
    """Return the blobs of the workspace of operators that ran at once."""
    with WorkspaceGuard(_immediate_workspace_name):
        return Blobs()


def RunOperatorImmediate(op: Any) -> None:
    """Run an operator in that workspace."""
    with WorkspaceGuard(_immediate_workspace_name):
        RunOperatorOnce(op)


def FetchImmediate(*args: Any, **kwargs: Any) -> Any:
    """Fetch a blob from that workspace."""
    with WorkspaceGuard(_immediate_workspace_name):
        return FetchBlob(*args, **kwargs)


def FeedImmediate(*args: Any, **kwargs: Any) -> Any:
    """Feed a blob of that workspace."""
    with WorkspaceGuard(_immediate_workspace_name):
        return FeedBlob(*args, **kwargs)
