"""`from caffe2.python import core`: nets, operators, gradients, devices, steps and plans under their old names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from caffe2.proto import caffe2_pb2
from caffe2.python import _import_c_extension as C
from caffe2.python import scope, utils, workspace
from caffe2.python._devices import (
    InferBlobDevices,
    InferOpBlobDevices,
    InferOpBlobDevicesAsDict,
    InferOpDeviceAsBlobDevices,
    InjectCrossDeviceCopies,
    InjectDeviceCopiesAmongNets,
    InjectDeviceCopiesAmongNetsWithoutB2D,
    RemapEntry,
    update_placeholder_op_output,
)
from caffe2.python._gradient import (
    IR,
    GetIndexFromGradientList,
    GradGenMeta,
    GradientRegistry,
    OpSSA,
    SparseGradGenMeta,
)
from caffe2.python._net import Net
from caffe2.python._net import get_blob_ref as _get_blob_ref
from caffe2.python._net_tools import (
    DEFAULT_REMAP_FUNCS,
    clone_and_bind_net,
    control_op_remap,
    get_op_ids_in_path,
    get_output_producers,
    get_ssa,
    get_undefined_blobs,
    recurrent_network_op_remap,
    remap_proto,
)
from caffe2.python._operators import (
    BlobReference,
    CreateOperator,
    CreatePythonOperator,
    DataType,
    DeviceOption,
    GradientSlice,
    IsGPUDeviceType,
    IsOperator,
    IsOperatorWithEngine,
    RefreshRegisteredOperators,
    ScopedBlobReference,
    ScopedName,
    copy_func_between_devices,
    device_equal,
    device_option_equal,
    output_to_list,
    remap_input,
)
from caffe2.python._operators import RectifyInputOutput as _RectifyInputOutput
from caffe2.python._operators import RegisterPythonImpl as _RegisterPythonImpl
from caffe2.python._operators import extract_stacktrace as _extract_stacktrace
from caffe2.python._steps import (
    ExecutionStep,
    Plan,
    add_nets_in_order,
    execution_step,
    get_net_name,
    scoped_execution_step,
    to_execution_step,
)
from caffe2.python.scope import DeviceScope, NameScope

__all__ = [
    "DEFAULT_REMAP_FUNCS",
    "IR",
    "BlobReference",
    "C",
    "CreateOperator",
    "CreatePythonOperator",
    "DataType",
    "DeviceOption",
    "DeviceScope",
    "ExecutionStep",
    "GetGlobalInitArgs",
    "GetIndexFromGradientList",
    "GlobalInit",
    "GradGenMeta",
    "GradientRegistry",
    "GradientSlice",
    "InferBlobDevices",
    "InferOpBlobDevices",
    "InferOpBlobDevicesAsDict",
    "InferOpDeviceAsBlobDevices",
    "InjectCrossDeviceCopies",
    "InjectDeviceCopiesAmongNets",
    "InjectDeviceCopiesAmongNetsWithoutB2D",
    "IsGPUDeviceType",
    "IsOperator",
    "IsOperatorWithEngine",
    "NameScope",
    "Net",
    "OpSSA",
    "Plan",
    "RefreshRegisteredOperators",
    "RemapEntry",
    "ScopedBlobReference",
    "ScopedName",
    "SetEnginePref",
    "SetGlobalEnginePref",
    "SetOpEnginePref",
    "SetPerOpEnginePref",
    "SparseGradGenMeta",
    "_RectifyInputOutput",
    "_RegisterPythonImpl",
    "_extract_stacktrace",
    "_get_blob_ref",
    "add_nets_in_order",
    "caffe2_pb2",
    "clone_and_bind_net",
    "control_op_remap",
    "copy_func_between_devices",
    "device_equal",
    "device_option_equal",
    "execution_step",
    "get_net_name",
    "get_op_ids_in_path",
    "get_output_producers",
    "get_ssa",
    "get_undefined_blobs",
    "output_to_list",
    "recurrent_network_op_remap",
    "remap_input",
    "remap_proto",
    "scope",
    "scoped_execution_step",
    "to_execution_step",
    "update_placeholder_op_output",
    "utils",
    "workspace",
]


class _RegisteredOperators(Set[str]):
    """The names of all operator types, looked up when somebody asks."""

    def __contains__(self, op_type: object) -> bool:
        return isinstance(op_type, str) and IsOperator(op_type)

    def __iter__(self) -> Iterator[str]:
        return iter(workspace.RegisteredOperators())

    def __len__(self) -> int:
        return len(workspace.RegisteredOperators())


_REGISTERED_OPERATORS = _RegisteredOperators()
_GLOBAL_INIT_ARGS: list[str] = []

SetGlobalEnginePref = C.set_global_engine_pref
SetPerOpEnginePref = C.set_per_op_engine_pref
SetOpEnginePref = C.set_op_engine_pref
SetEnginePref = C.set_engine_pref


def GlobalInit(args: Sequence[str]) -> None:
    """Parse flags, and start what waits for that."""
    _GLOBAL_INIT_ARGS.extend(args[1:])
    C.global_init(list(args))


def GetGlobalInitArgs() -> list[str]:
    """Return the flags that were given so far."""
    return _GLOBAL_INIT_ARGS[:]
