"""Maps of whole numbers as blobs: CreateMap, KeyValueToMap, MapToKeyValue.

A map holds K keys, each once, and a value of each. Keys and values are int32 or int64, and each pair of these is a type
of its own. Source: Caffe2, whose maps have the order of a hash; these have that in which the keys came.
"""

from __future__ import annotations

import numpy as np
from google.protobuf.message import DecodeError

from tazza.data_class import dataclass
from tazza.errors import FormatError
from tazza.operator import (
    INDEX,
    ArgSpec,
    Array,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    host_kernel,
    not_written,
    schema,
)
from tazza.ops.shape.axis import require_as_many
from tazza.proto import TensorProtos
from tazza.tensor import Blob, DataType, TensorSpec, TypeSpec
from tazza.tensor.blob import blob_type
from tazza.tensor.serialization import array_to_tensor_proto, tensor_proto_to_array
from tazza.tensor.serializer import SERIALIZERS, ContentSerializer

NO_GRADIENT = not_written("Caffe2 has none either")
Types = tuple[DataType, DataType]
"""The element types of keys and values."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyMap:
    """Keys, each once, and their values: two lists that nobody writes any more."""

    keys: Array
    values: Array

    def __len__(self) -> int:
        return len(self.keys)


def _map_class(types: Types) -> type[KeyMap]:
    """Return the class of maps with these element types, by the names that Caffe2 has for it."""
    key, value = ({DataType.INT32: "int", DataType.INT64: "long int"}[dtype] for dtype in types)
    pair = f"std::allocator<std::pair<const {key}, {value}> >"
    native = f"std::unordered_map<{key}, {value}, std::hash<{key}>, std::equal_to<{key}>, {pair} >"
    made = type(f"KeyMap{types[0].label}{types[1].label}".title(), (KeyMap,), {"__slots__": ()})
    return blob_type(native, serialized=stored_name(types))(made)


def stored_name(types: Types) -> str:
    """Return the type name of stored maps with these element types, which schemas have too."""
    return f"(std::unordered_map<{types[0].label}_t, {types[1].label}_t>)"


PAIRS = [(key, value) for key in (DataType.INT32, DataType.INT64) for value in (DataType.INT32, DataType.INT64)]
MAPS = {types: _map_class(types) for types in PAIRS}
"""The class of maps of each pair of types."""
TYPES = {stored_name(types): types for types in PAIRS}


def key_map(keys: Array, values: Array) -> KeyMap:
    """Return the map of these keys to these values; the first value of a key stays.

    >>> found = key_map(np.array([3, 1, 3]), np.array([5, 6, 7]))
    >>> found.keys.tolist(), found.values.tolist()
    ([3, 1], [5, 6])
    """
    places = np.sort(np.unique(keys, return_index=True)[1])
    return MAPS[DataType.of(keys), DataType.of(values)](keys[places], values[places])


class KeyMapSerializer(ContentSerializer[KeyMap]):
    """Stores keys and values as two tensors."""

    def __init__(self, type_name: str) -> None:
        """Store maps of that type."""
        self.type_name = type_name

    def encode(self, value: KeyMap) -> bytes:
        """Return the tensors of keys and values."""
        return TensorProtos(
            protos=[array_to_tensor_proto(one) for one in (value.keys, value.values)]
        ).SerializeToString()

    def decode(self, content: bytes, name: str) -> KeyMap:
        """Return the map again.

        Raises:
            FormatError: it is no two tensors of these types, with as many elements.
        """
        try:
            protos = TensorProtos.FromString(content).protos
        except DecodeError as error:
            raise FormatError(f"map {name!r} is stored as {len(content)} bytes that are no tensors: {error}") from error
        if len(protos) != 2:
            raise FormatError(f"map {name!r} is stored as {len(protos)} tensors, it is one of keys and one of values")
        keys, values = (tensor_proto_to_array(one).reshape(-1) for one in protos)
        if (DataType.of(keys), DataType.of(values)) != TYPES[self.type_name]:
            raise FormatError(f"map {name!r} of type {self.type_name} is stored as {keys.dtype} and {values.dtype}")
        if keys.size != values.size:
            raise FormatError(f"map {name!r} is stored as {keys.size} keys and {values.size} values")
        return key_map(keys, values)


for name in TYPES:
    SERIALIZERS.register(name, KeyMapSerializer(name), help="a map: its keys and values")


def _type_arg(name: str, whose: str) -> ArgSpec:
    numbers = tuple(dtype.proto for dtype in (DataType.INT32, DataType.INT64))
    return arg(name, int, DataType.INT32.proto, choices=numbers, doc=f"number of TensorProto.DataType: that of {whose}")


CREATE_MAP = schema(
    "CreateMap",
    """map = a map without keys.

    A blob that has something in it already is given the new map instead.""",
    outputs=[blob("map", type_name=tuple(TYPES))],
    args=[_type_arg("key_dtype", "keys"), _type_arg("value_dtype", "values")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> len(run("CreateMap", key_dtype=10))
    0
    """,
)
KEY_VALUE_TO_MAP = schema(
    "KeyValueToMap",
    "map = the map of each key to its value; of several values of one key the first.",
    inputs=[
        blob("keys", INDEX, doc="of any shape"),
        blob("values", INDEX, role=Role.DATA, doc="of any shape, with as many elements"),
    ],
    outputs=[blob("map", type_name=tuple(TYPES))],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> map = run("KeyValueToMap", [3, 1, 3], [5, 6, 7])
    >>> dict(zip(map.keys.tolist(), map.values.tolist()))
    {3: 5, 1: 6}
    """,
)
MAP_TO_KEY_VALUE = schema(
    "MapToKeyValue",
    "keys (K) = the keys of a map, in the order in which they came; values (K) = the value of each.",
    inputs=[blob("map", type_name=tuple(TYPES), role=Role.STATE)],
    outputs=[blob("keys", INDEX, dynamic=True), blob("values", INDEX, dynamic=True)],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("MapToKeyValue", run("KeyValueToMap", [3, 1, 3], [5, 6, 7]))
    (array([3, 1], dtype=int32), array([5, 6], dtype=int32))
    """,
)


def _created(op: OpView) -> Types:
    return DataType.from_proto(op.key_dtype), DataType.from_proto(op.value_dtype)


@CREATE_MAP.infer
def create_map_infer(op: OpView) -> TypeSpec:
    return TypeSpec(stored_name(_created(op)))


@host_kernel(CREATE_MAP)
def create_map(op: OpView, map: Blob) -> None:
    keys, values = (np.zeros(0, dtype.numpy) for dtype in _created(op))
    map.set(key_map(keys, values))


@KEY_VALUE_TO_MAP.infer
def key_value_to_map_infer(op: OpView, keys: TensorSpec, values: TensorSpec) -> TypeSpec:
    require_as_many(op, "keys", keys.dims, values=values.dims)
    return TypeSpec(stored_name((keys.dtype, values.dtype)))


@host_kernel(KEY_VALUE_TO_MAP)
def key_value_to_map(op: OpView, keys: Blob, values: Blob, map: Blob) -> None:
    arrays = [one.tensor().plain() for one in (keys, values)]
    require_as_many(op, "keys", arrays[0].shape, values=arrays[1].shape)
    map.set(key_map(*(one.reshape(-1) for one in arrays)))


@MAP_TO_KEY_VALUE.infer
def map_to_key_value_infer(op: OpView, map: TypeSpec) -> tuple[TensorSpec, TensorSpec]:
    del op
    keys, values = TYPES[map.type_name]
    return TensorSpec((None,), keys), TensorSpec((None,), values)


@host_kernel(MAP_TO_KEY_VALUE)
def map_to_key_value(map: Blob, keys: Blob, values: Blob) -> None:
    held = map.get(KeyMap)
    for target, array in ((keys, held.keys), (values, held.values)):
        target.put(array)
