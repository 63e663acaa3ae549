"""CreateMap, KeyValueToMap, MapToKeyValue: recorded, by dictionaries, stored and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError, FormatError, ShapeError
from tazza.operator import operator_def, run_op
from tazza.ops.sparse.key_map import MAPS, TYPES, KeyMap
from tazza.proto import BlobProto, TensorProtos
from tazza.tensor.serialization import array_to_tensor_proto, deserialize, serialize
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences, recorded

KEYS, VALUES = np.array([[5, -3, 5], [2**20, 0, -3]]), np.array([1, 2, 3, 4, 5, 6], np.int32)
FIRST = {5: 1, -3: 2, 2**20: 4, 0: 5}
CASES = [
    recorded("maps", stored=True),
    Sequence(
        "several keys",
        (
            Step(operator_def("KeyValueToMap", ["k", "v"], ["m"]), feeds={"k": KEYS, "v": VALUES}),
            Step(
                operator_def("MapToKeyValue", ["m"], ["k", "v"]),
                {"k": np.array(list(FIRST)), "v": np.array(list(FIRST.values()), np.int32)},
            ),
            Step(operator_def("KeyValueToMap", ["k", "v"], ["m"]), feeds={"k": KEYS[0], "v": -VALUES[:3]}),
            Step(operator_def("MapToKeyValue", ["m"], ["k", "v"]), {"k": KEYS[0, :2], "v": -VALUES[:2]}),
        ),
        stored=True,
    ),
]


@on_sequences(CASES)
def test_maps(case: Sequence) -> None:
    check_op(case)


def test_a_map_has_memory_of_its_own() -> None:
    keys = np.array([1, 2])
    workspace = Workspace()
    workspace.feed("k", keys)
    workspace.run_operator(operator_def("KeyValueToMap", ["k", "k"], ["m"]))
    workspace.feed("k", np.array([7, 8]))
    assert workspace.blob("m").get(KeyMap).keys.tolist() == [1, 2]


@pytest.mark.parametrize(("name", "types"), TYPES.items())
def test_it_is_stored_as_caffe2_stores_it(name: str, types: Any) -> None:
    keys, values = (np.arange(1, 4).astype(dtype.numpy) for dtype in types)
    stored = BlobProto.FromString(serialize(run_op("KeyValueToMap", keys, values), "m"))
    assert (stored.name, stored.type) == ("m", name)
    first, second = TensorProtos.FromString(stored.content).protos
    for tensor, dtype in zip((first, second), types, strict=True):
        assert (list(tensor.dims), tensor.data_type) == ([3], dtype.proto)
        assert list(tensor.int32_data) + list(tensor.int64_data) == [1, 2, 3]
    again = deserialize(stored).get(MAPS[types])
    assert (again.keys.tolist(), again.values.tolist()) == ([1, 2, 3], [1, 2, 3])


def stored_as(*tensors: Any) -> BlobProto:
    """Return a map from int32 to int32 that is stored as these tensors."""
    content = TensorProtos(protos=map(array_to_tensor_proto, tensors)).SerializeToString()
    return BlobProto(name="m", type=next(iter(TYPES)), content=content)


def test_what_is_no_map_is_not_read() -> None:
    two = np.array([1, 2], np.int32)
    assert deserialize(stored_as(two, two)).get(KeyMap).values.tolist() == [1, 2]
    for tensors, text in (
        ([two], "map 'm' is stored as 1 tensors"),
        ([two, two[:1]], "map 'm' is stored as 2 keys and 1 values"),
        ([two, two.astype(np.float32)], "is stored as int32 and float32"),
    ):
        with pytest.raises(FormatError, match=text):
            deserialize(stored_as(*tensors))
    with pytest.raises(FormatError, match="map 'm' is stored as 2 bytes that are no tensors"):
        deserialize(BlobProto(name="m", type=next(iter(TYPES)), content=b"\xff\xff"))


def test_refused() -> None:
    with pytest.raises(ShapeError, match=r"values has the shape \(2\), keys \(3\)"):
        run_op("KeyValueToMap", [1, 2, 3], [1, 2])
    with pytest.raises(DTypeError, match="values is float32, it must be int32 or int64"):
        run_op("KeyValueToMap", [1, 2], [1.0, 2.0])
    with pytest.raises(DTypeError, match="map = 'in0' is a Tensor, not a "):
        run_op("MapToKeyValue", [1, 2])
    with pytest.raises(ArgumentError, match="key_dtype"):
        run_op("CreateMap", key_dtype=1)
