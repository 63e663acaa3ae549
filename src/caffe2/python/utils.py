"""Conversions between messages, arrays and arguments, as old scripts call them."""

from __future__ import annotations

import copy
import functools
import pdb
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray

from tazza.operator.definition import make_argument
from tazza.proto import Argument, OperatorDef, TensorProto
from tazza.tensor.tensor_proto import array_to_tensor_proto, tensor_proto_to_array

OPTIMIZER_ITERATION_NAME = "optimizer_iteration"
ITERATION_MUTEX_NAME = "iteration_mutex"


def OpAlmostEqual(op_a: OperatorDef, op_b: OperatorDef, ignore_fields: Any = None) -> bool:
    """Whether two operators are equal but for some fields, and for where they were made."""
    ignored = [ignore_fields] if isinstance(ignore_fields, str) else list(ignore_fields or [])

    def clean(op: OperatorDef) -> OperatorDef:
        made = copy.deepcopy(op)
        for field in ("debug_info", *ignored):
            made.ClearField(field)
        return made

    return clean(op_a) == clean(op_b)


def CaffeBlobToNumpyArray(blob: Any) -> Any:
    """Return the data of a blob of Caffe's own messages as an array."""
    if blob.num != 0:  # the old form: four extents
        return np.asarray(blob.data, dtype=np.float32).reshape(blob.num, blob.channels, blob.height, blob.width)
    return np.asarray(blob.data, dtype=np.float32).reshape(blob.shape.dim)


def Caffe2TensorToNumpyArray(tensor: TensorProto) -> Any:
    """Return the elements of a message as an array."""
    return tensor_proto_to_array(tensor)


def NumpyArrayToCaffe2Tensor(arr: Any, name: str | None = None) -> TensorProto:
    """Return a message with the elements of an array."""
    return array_to_tensor_proto(np.asarray(arr), name or "")


def MakeArgument(key: str, value: Any) -> Argument:
    """Return an argument; the type of the value says in which field it goes."""
    if isinstance(value, np.ndarray):
        return make_argument(key, cast("NDArray[Any]", value).flatten())
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Message)):
        return make_argument(key, list(cast("Iterable[Any]", value)))
    return make_argument(key, value)


def TryReadProtoWithClass(cls: type[Message], s: bytes) -> Message | None:
    """Return the message of a class that text or bytes hold, or None."""
    from google.protobuf import text_format

    made = cls()
    try:
        text_format.Parse(s, made)
        return made
    except (text_format.ParseError, UnicodeDecodeError):
        pass
    made = cls()
    try:
        made.ParseFromString(s)
        return made
    except DecodeError:
        return None


def GetContentFromProto(obj: Message, function_map: Mapping[Any, Callable[[Any], Any]]) -> Any:
    """Return what the function of the message's class makes of it."""
    for cls, function in function_map.items():
        if type(obj) is cls:
            return function(obj)
    return None


def GetContentFromProtoString(s: bytes, function_map: Mapping[Any, Callable[[Any], Any]]) -> Any:
    """Return what the function of the first class that can read it makes of a text or bytes.

    Raises:
        DecodeError: none can.
    """
    for cls, function in function_map.items():
        obj = TryReadProtoWithClass(cls, s)
        if obj is not None:
            return function(obj)
    raise DecodeError("Cannot find a fit protobuffer class.")


def ConvertProtoToBinary(proto_class: type[Message], filename: str, out_filename: str) -> None:
    """Write a message of a file in binary form."""
    from pathlib import Path

    from tazza.proto.message import serialize
    from tazza.runtime.files import write_bytes_atomically

    made = TryReadProtoWithClass(proto_class, Path(filename).read_bytes())
    assert made is not None, f"{filename} is no {proto_class.__name__}"
    write_bytes_atomically(out_filename, serialize(made))


def GetGPUMemoryUsageStats() -> dict[str, Any]:
    """Return bytes that each GPU has given; the flag that keeps count is not there, so that it is empty."""
    return {"total_by_gpu": np.zeros(0), "max_by_gpu": np.zeros(0), "total": 0, "max_total": 0}


def ResetBlobs(blobs: Iterable[Any]) -> None:
    """Empty blobs."""
    from caffe2.python import core, workspace

    workspace.RunOperatorOnce(core.CreateOperator("Free", list(blobs), list(blobs), device_option=core.DeviceOption(0)))


class DebugMode:
    """Runs a function, and enters the debugger where it raises."""

    @classmethod
    def run(cls, func: Callable[[], Any]) -> Any:
        """Call a function."""
        try:
            return func()
        except KeyboardInterrupt:
            raise
        except Exception:
            print("Entering interactive debugger. Type 'bt' to print the full stacktrace.")
            print(traceback.format_exc())
            pdb.post_mortem(sys.exc_info()[2])
        return None


def raiseIfNotEqual(a: Any, b: Any, msg: str) -> None:
    """Raise where two values differ."""
    if a != b:
        raise Exception(f"{msg}. {a} != {b}")


def debug(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that enters the debugger where `f` raises."""

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return DebugMode.run(lambda: f(*args, **kwargs))

    return wrapper


def BuildUniqueMutexIter(init_net: Any, net: Any, iter: Any = None, iter_mutex: Any = None, iter_val: int = 0) -> Any:
    """Add the one counter of a training, with its mutex, unless it is there; returns its blob."""
    from caffe2.python import core

    with core.DeviceScope(core.DeviceOption(0, extra_info=["device_type_override:cpu"])):
        name = OPTIMIZER_ITERATION_NAME if iter is None else iter
        if not net.BlobIsDefined(name):
            iter = init_net.ConstantFill(
                [], OPTIMIZER_ITERATION_NAME if iter is None else iter, shape=[1], value=iter_val, dtype=10
            )
            iter_mutex = init_net.CreateMutex([], [ITERATION_MUTEX_NAME if iter_mutex is None else iter_mutex])
            net.AtomicIter([iter_mutex, iter], [iter])
        else:
            iter = init_net.GetBlobRef(name)
    return iter


def EnumClassKeyVals(cls: type) -> dict[str, Any]:
    """Return the upper-case members of a class."""
    names = [name for name in dir(cls) if name == name.upper() and not name.startswith("_")]
    found = {name: getattr(cls, name) for name in names}
    assert len(set(map(repr, found.values()))) == len(found), "two members of the enum have one value"
    return found


def ArgsToDict(args: Iterable[Argument]) -> dict[str, Any]:
    """Return the values of arguments by name."""
    found: dict[str, Any] = {}
    for one in args:
        for field in ("f", "i", "s", "n"):
            if one.HasField(field):
                found[one.name] = getattr(one, field)
        for field in ("floats", "ints", "strings"):
            if getattr(one, field):
                found[one.name] = list(getattr(one, field))
        if one.name not in found:
            found[one.name] = None
    return found


def NHWC2NCHW(tensor: Any) -> Any:
    """Return images whose channels lay innermost with the channels behind the batch."""
    assert tensor.ndim >= 1
    return tensor.transpose((0, tensor.ndim - 1, *range(1, tensor.ndim - 1)))


def NCHW2NHWC(tensor: Any) -> Any:
    """Return images whose channels lay behind the batch with the channels innermost."""
    assert tensor.ndim >= 2
    return tensor.transpose((0, *range(2, tensor.ndim), 1))
