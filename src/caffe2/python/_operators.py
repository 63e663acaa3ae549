"""Names of blobs, and operators made from them: what `core` lends of both.

A `BlobReference` is a name that no scope is put in front of again. Operators are called on it, or on a net.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from caffe2.python import scope, utils
from tazza.operator import SCHEMAS
from tazza.proto import DeviceOption as DeviceOptionProto
from tazza.proto import OperatorDef, TensorProto

if TYPE_CHECKING:
    from caffe2.python._net import Net

PYTHON = "Python"


class _ByName(type):
    if TYPE_CHECKING:

        def __getattr__(cls, name: str) -> int: ...


class DataType(metaclass=_ByName):
    """Numbers of element types, by the names in `TensorProto`."""


for _name, _number in TensorProto.DataType.items():
    setattr(DataType, _name, _number)


class GradientSlice(NamedTuple):
    """A gradient of some rows: the blob of their indices, and that of their values."""

    indices: Any
    values: Any


def RefreshRegisteredOperators(trigger_lazy: bool = True) -> None:
    """Do nothing: types are looked up when they are asked for."""
    del trigger_lazy


def IsOperator(op_type: str) -> bool:
    """Whether somebody declares an operator type."""
    return op_type in SCHEMAS


def IsOperatorWithEngine(op_type: str, engine: str) -> bool:
    """Whether an engine, by the name that nets give it, computes an operator type."""
    from tazza.operator import why_unavailable

    if engine in ("", "DEFAULT"):
        return IsOperator(op_type)
    return IsOperator(op_type) and why_unavailable(op_type, "cpu", engine.lower()) is None


def IsGPUDeviceType(device_type: int) -> bool:
    """Whether a number of a device type is that of a GPU."""
    from tazza.proto import PROTO_CUDA, PROTO_HIP

    return device_type in (PROTO_CUDA, PROTO_HIP)


def DeviceOption(
    device_type: int,
    device_id: int = 0,
    random_seed: int | None = None,
    node_name: str | None = None,
    numa_node_id: int | None = None,
    extra_info: Sequence[str] | None = None,
) -> DeviceOptionProto:
    """Return the option of a device."""
    option = DeviceOptionProto(device_type=device_type, device_id=device_id)  # pyright: ignore[reportArgumentType]
    if node_name is not None:
        option.node_name = node_name
    if random_seed is not None:
        option.random_seed = random_seed
    if numa_node_id is not None:
        assert device_type == 0, "numa_node_id is of the CPU"
        option.numa_node_id = numa_node_id
    if extra_info is not None:
        option.extra_info.extend(extra_info)
    return option


def device_option_equal(
    opt1: DeviceOptionProto | None,
    opt2: DeviceOptionProto | None,
    ignore_node_name: bool = True,
    ignore_random_seed: bool = True,
) -> bool:
    """Whether two options mean the same device."""
    if not opt1 or not opt2:
        return opt1 == opt2
    if not ignore_node_name and opt1.node_name != opt2.node_name:
        return False
    if not ignore_random_seed and opt1.random_seed != opt2.random_seed:
        return False
    if not opt1.device_type or not opt2.device_type:
        # At least one option is for the CPU; both have to be.
        return not opt1.device_type and not opt2.device_type
    return opt1.device_id == opt2.device_id


class BlobReference:
    """The name of a blob, and the net that named it."""

    meta: dict[str, Any]

    def __init__(self, name: str | bytes, net: Net | None = None) -> None:
        """Refer to a blob as it is called."""
        if isinstance(name, bytes):
            name = name.decode("utf-8")
        self._name: str = name
        self._from_net = net
        self.meta = {}

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self._name == other
        if isinstance(other, bytes):
            return self._name == other.decode("utf-8")
        return isinstance(other, BlobReference) and self._name == other._name

    def __str__(self) -> str:
        return str(self._name)

    def __repr__(self) -> str:
        return f'BlobReference("{self._name}")'

    def __add__(self, other: object) -> BlobReference:
        if not isinstance(other, str):
            raise RuntimeError("Cannot add BlobReference to a non-string.")
        return BlobReference(self._name + other, self._from_net)

    def __radd__(self, other: object) -> BlobReference:
        if not isinstance(other, str):
            raise RuntimeError("Cannot add a non-string to BlobReference.")
        return BlobReference(other + self._name, self._from_net)

    def Net(self) -> Net | None:
        """Return the net that named it."""
        return self._from_net

    def GetNameScope(self) -> str:
        """Return what stands before the last separator, with it."""
        return self._name[: self._name.rfind(scope._NAMESCOPE_SEPARATOR) + 1]  # pyright: ignore[reportPrivateUsage]

    def GetUnscopedName(self) -> str:
        """Return what stands behind the last separator."""
        return self._name[self._name.rfind(scope._NAMESCOPE_SEPARATOR) + 1 :]  # pyright: ignore[reportPrivateUsage]

    def _CreateAndAddToNet(self, op_type: str, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Add an operator whose first input this is to the net that named it."""
        rest = RectifyInputOutput(inputs)
        rest.insert(0, self)
        return self._from_net.__getattr__(op_type)(rest, *args, **kwargs)  # pyright: ignore[reportOptionalMemberAccess]

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        """Return what adds an operator of a type to the net."""
        if op_type.startswith("__"):
            raise AttributeError(f"Attribute {op_type} not found.")
        if self._from_net is None:
            raise AttributeError(
                "You cannot use a blob reference that does not have a net source to create operators. "
                "Create the operator from an explicit net object."
            )
        if not IsOperator(op_type):
            raise unknown_operator(op_type)
        return lambda *args, **kwargs: self._CreateAndAddToNet(op_type, *args, **kwargs)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *SCHEMAS})


def unknown_operator(op_type: str) -> AttributeError:
    """Return the error for an attribute that is no operator."""
    near = ",".join(difflib.get_close_matches(op_type, SCHEMAS, n=8, cutoff=0.5))
    return AttributeError(f"Method {op_type} is not a registered operator. Did you mean: [{near}]")


def ScopedName(name: str | bytes) -> str:
    """Return a name with the current scope in front."""
    if isinstance(name, bytes):
        name = name.decode("ascii")
    return scope.CurrentNameScope() + name


def ScopedBlobReference(name: str | bytes, *args: Any, **kwargs: Any) -> BlobReference:
    """Return a reference to a name with the current scope in front."""
    return BlobReference(ScopedName(name), *args, **kwargs)


def RectifyInputOutput(blobs: Any, net: Net | None = None) -> list[BlobReference]:
    """Return what a caller names as a list of references; strings get the current scope."""
    if blobs is None:
        return []
    if isinstance(blobs, (str, bytes)):
        return [ScopedBlobReference(blobs, net=net)]
    if type(blobs) is BlobReference:
        return [blobs]
    if type(blobs) not in (list, tuple):
        raise TypeError(f"Unknown input/output type: {blobs} of type {type(blobs)}.")
    made: list[BlobReference] = []
    for blob in blobs:
        if isinstance(blob, (str, bytes)):
            made.append(ScopedBlobReference(blob, net=net))
        elif type(blob) is BlobReference:
            made.append(blob)
        else:
            raise TypeError(f"I/O blob #{len(made)} of unsupported type: {blob} of type {type(blob)}")
    return made


def CreateOperator(
    operator_type: str,
    inputs: Any,
    outputs: Any,
    name: str = "",
    control_input: Any = None,
    device_option: DeviceOptionProto | None = None,
    arg: Iterable[Any] | None = None,
    engine: Any = None,
    debug_info: str | None = None,
    **kwargs: Any,
) -> OperatorDef:
    """Return an operator; what else is given by name are its arguments."""
    made = OperatorDef(type=operator_type, name=name)
    made.input.extend(map(str, RectifyInputOutput(inputs)))
    made.output.extend(map(str, RectifyInputOutput(outputs)))
    made.control_input.extend(map(str, RectifyInputOutput(control_input)))
    option = scope.CurrentDeviceScope() if device_option is None else device_option
    if option is not None:
        made.device_option.CopyFrom(option)
    if engine is not None:
        if not isinstance(engine, (str, bytes)):
            raise TypeError(f"engine of {operator_type} is the name of one, got {engine!r} of type {type(engine)}")
        made.engine = cast("str", engine)  # messages take both
    if debug_info is not None:
        made.debug_info = debug_info
    if "random_seed" in kwargs:
        made.device_option.random_seed = kwargs.pop("random_seed")
    if arg is not None:
        made.arg.extend(arg)
    made.arg.extend(utils.MakeArgument(key, value) for key, value in kwargs.items() if value is not None)
    return _run_if_immediate(made)


def _run_if_immediate(op: OperatorDef) -> OperatorDef:
    from caffe2.python import workspace

    if workspace.IsImmediate():
        workspace.RunOperatorImmediate(op)
    return op


def called(function: Any) -> Any:
    """Return a function that is given as one, or as (maker, arguments, named arguments)."""
    if not isinstance(function, tuple):
        return function
    maker, args, kwargs = cast("tuple[Any, Any, Any]", function)
    return maker(*args, **kwargs)


def RegisterPythonImpl(f: Any, grad_f: Any = None, python_func_type: Any = None, pass_workspace: bool = False) -> str:
    """Let operators of this process call a function, and return the token by which they name it."""
    from caffe2.python import _import_c_extension as C

    if python_func_type:
        made = python_func_type(f)
        f, grad_f = made.forward, made.backward
    else:
        f, grad_f = called(f), called(grad_f)
    token = C.register_python_op(f, pass_workspace, "")
    if grad_f:
        C.register_python_gradient_op(token, grad_f)
    return token


def RegisterPythonBuilders(f: Any, grad_f: Any = None, pass_workspace: bool = False) -> str:
    """Let each operator call what builders, a function with its arguments, make for it; return their token."""
    from caffe2.python._extension_operators import register_python_builders

    gradient = (lambda: called(grad_f)) if grad_f else None
    return register_python_builders(lambda: called(f), gradient, pass_workspace)


def CreatePythonOperator(
    f: Any,
    inputs: Any,
    outputs: Any,
    grad_f: Any = None,
    pass_workspace: bool = False,
    python_func_type: Any = None,
    *args: Any,
    **kwargs: Any,
) -> OperatorDef:
    """Return an operator that calls a function of this process; it gets lists of inputs and outputs."""
    kwargs["token"] = RegisterPythonImpl(f, grad_f, python_func_type, pass_workspace=pass_workspace)
    return CreateOperator(PYTHON, inputs, outputs, *args, **kwargs)


def copy_func_between_devices(src: DeviceOptionProto, dst: DeviceOptionProto) -> Callable[..., Any] | None:
    """Return what adds a copy from one device to another: `function(net, *inputs_and_outputs)`; None on one device."""
    if src.device_type == dst.device_type == 0:
        return None
    if src.device_type == dst.device_type and src.device_id == dst.device_id:
        return None
    names = {(False, True): "CopyCPUToGPU", (True, False): "CopyGPUToCPU", (True, True): "Copy"}
    key = IsGPUDeviceType(src.device_type), IsGPUDeviceType(dst.device_type)
    kind = names.get(key)
    if kind is None:
        raise ValueError(f"Non-supported devices: {src} and {dst}")
    option = src if key == (True, False) else dst

    def copy(net: Net, *args: Any, **kwargs: Any) -> Any:
        with scope.DeviceScope(option):
            return getattr(net, kind)(*args, **kwargs)

    return copy


def device_equal(src: DeviceOptionProto, dst: DeviceOptionProto) -> bool:
    """Whether two options name one device."""
    return src.device_type == dst.device_type and src.device_id == dst.device_id


def remap_input(op: OperatorDef, blob_name_remapping: Mapping[str, str]) -> None:
    """Give inputs of an operator other names."""
    op.input[:] = [blob_name_remapping.get(name, name) for name in op.input]


def output_to_list(op_output: Any) -> list[Any]:
    """Return what a net gives for an operator as a list."""
    assert type(op_output) in (list, tuple, BlobReference)
    return [op_output] if isinstance(op_output, BlobReference) else list(op_output)


def extract_stacktrace() -> list[tuple[str, int, str]]:
    """Return where the caller stands: file, line and function, the innermost last."""
    found: list[tuple[str, int, str]] = []
    frame = inspect.currentframe()
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found[::-1]
