"""Safetensors files: what is written is read again, and nothing of a broken file is believed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tazza.array.safetensors import NAMES, SafetensorsFile, load_safetensors, save_safetensors
from tazza.errors import ArgumentError, DTypeError, FileError, FormatError, NotFoundError
from tazza.tensor import DataType, Tensor, channels_last

# Written by the library `safetensors` 0.8 of the format's authors: {"b": bool [True], "w": float32 [[1, 2]]}, metadata.
GENUINE = (
    b'\x88\x00\x00\x00\x00\x00\x00\x00{"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},'
    b'"b":{"dtype":"BOOL","shape":[1],"data_offsets":[8,9]}} '
)


def write(path: Path, header: Any, content: bytes = b"", *, length: int | None = None) -> Path:
    """Write a file of this header (JSON, or bytes as they are)."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + content)
    return path


def entry(dtype: str, shape: Any, begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.slow
@settings(max_examples=40)
@given(
    specs=st.dictionaries(
        st.text(max_size=6).filter(lambda name: name != "__metadata__" and name.isprintable()),
        st.tuples(st.sampled_from(sorted(NAMES, key=str)), hnp.array_shapes(min_dims=0, min_side=0, max_side=4)),
        max_size=5,
    ),
    mapped=st.booleans(),
)
def test_what_is_written_is_read(
    specs: dict[str, tuple[DataType, tuple[int, ...]]], mapped: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arrays = {
        name: np.arange(math.prod(dims)).reshape(dims).astype(dtype.numpy) for name, (dtype, dims) in specs.items()
    }
    path = tmp_path_factory.mktemp("st") / "a.safetensors"
    save_safetensors(arrays, path, metadata={"n": str(len(arrays))})
    found = load_safetensors(path, mapped=mapped)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].shape == array.shape
        assert found[name].plain().dtype == array.dtype
        assert np.array_equal(found[name].plain(), array)
        assert found[name].address % array.itemsize == 0


def test_every_type_of_tensors_but_text_has_a_name() -> None:
    assert set(DataType) - set(NAMES) == {DataType.STRING}
    assert len(set(NAMES.values())) == len(NAMES)


def test_layouts_are_written_row_major(tmp_path: Path) -> None:
    x = Tensor((2, 3, 5, 7), layout=channels_last((2, 3, 5, 7)))
    x.array[...] = np.arange(210).reshape(2, 3, 5, 7)
    save_safetensors({"x": x, "turned": x.plain().T}, tmp_path / "a")
    found = load_safetensors(tmp_path / "a")
    assert np.array_equal(found["x"].plain().reshape(-1), np.arange(210))
    assert np.array_equal(found["turned"].plain(), x.plain().T)


def test_a_mapped_tensor_can_be_written_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save_safetensors({"x": np.arange(6.0)}, path)
    before = path.read_bytes()
    x = load_safetensors(path, mapped=True)["x"]
    x.numpy()[:] = -1
    assert path.read_bytes() == before
    save_safetensors({"x": np.zeros(6)}, path)
    assert np.all(x.plain() == -1)
    assert np.all(load_safetensors(path)["x"].plain() == 0)


def test_nothing_is_read_before_it_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"f": entry("F8_E4M3", [3], 0, 3), "x": entry("U8", [2], 3, 5)}, bytes(range(5)))
    with SafetensorsFile(path) as file:
        assert list(file.specs) == ["x"]
        assert "f" in file
        assert file["x"].plain().tolist() == [3, 4]
        with pytest.raises(DTypeError, match="F8_E4M3"):
            file["f"]
        with pytest.raises(NotFoundError, match="it has f, x"):
            file["y"]
    with pytest.raises(DTypeError):
        load_safetensors(path)


def test_elements_that_are_not_aligned_are_copied(tmp_path: Path) -> None:
    content = b"\7" + np.array([1, 2], np.float32).tobytes()
    path = write(tmp_path / "a", {"b": entry("I8", [], 0, 1), "w": entry("F32", [2], 1, 9)}, content)
    found = load_safetensors(path)
    assert (found["b"].plain().tolist(), found["w"].plain().tolist()) == (7, [1, 2])


def test_the_same_tensors_give_the_bytes_of_the_format_s_own_library(tmp_path: Path) -> None:
    path = tmp_path / "a"
    texts = {letter: letter for letter in "edcba"}
    save_safetensors({}, path, metadata=texts)
    first = path.read_bytes()
    save_safetensors({}, path, metadata=dict(sorted(texts.items())))
    assert path.read_bytes() == first
    save_safetensors({"b": np.array([True]), "w": np.array([[1, 2]], np.float32)}, path, metadata={"k": "v"})
    assert path.read_bytes() == GENUINE + np.array([1, 2], np.float32).tobytes() + b"\1"


X = entry("F32", [2], 0, 8)
Y = json.dumps(entry("U8", [1], 0, 1)).encode()
BROKEN: dict[str, tuple[Any, bytes, str]] = {
    "not an object": (b"[1]", b"", "invalid JSON"),
    "no JSON": (b"{nope}", b"", "JSON"),
    "deep": (b'{"a":' + b"[" * 100_000, b"", "recursion limit"),
    "not UTF-8": (b'{"\xff":1}', b"", "invalid UTF-8"),
    "twice": (b'{"x":%s,"x":%s}' % (Y, Y), b"1", "'x' stands there twice"),
    "no entry": ({"x": 5}, b"", "invalid type: integer `5`"),
    "missing field": ({"x": {"dtype": "F32", "shape": []}}, b"", "missing field `data_offsets`"),
    "unknown type": ({"x": entry("F33", [], 0, 4)}, b"1234", "unknown variant `F33`"),
    "negative extent": ({"x": entry("F32", [-1], 0, 4)}, b"1234", "integer `-1`"),
    "true extent": ({"x": entry("F32", [True], 0, 4)}, b"1234", "boolean `true`"),
    "huge extent": ({"x": entry("F32", [2**64], 0, 4)}, b"1234", "expected usize"),
    "many axes": ({"x": entry("U8", [1] * 65, 0, 1)}, b"1", "more than 64 axes"),
    "product of extents": ({"x": entry("F32", [2**31, 2**31], 0, 8)}, bytes(8), "overflow computing buffer size"),
    "offsets": ({"x": entry("F32", [2], 8, 0)}, bytes(8), "invalid offset for tensor `x`"),
    "size": ({"x": entry("F32", [3], 0, 8)}, bytes(8), "invalid shape, data type, or offset"),
    "half a byte": ({"x": entry("F4", [3], 0, 1)}, bytes(1), "subbytes dtypes"),
    "overlap": ({"x": X, "y": entry("F32", [2], 4, 12)}, bytes(12), "invalid offset for tensor `y`"),
    "gap": ({"x": X, "y": entry("F32", [2], 12, 20)}, bytes(20), "invalid offset for tensor `y`"),
    "cut off": ({"x": X}, bytes(7), "has .* bytes: .*not fully covered"),
    "left over": ({"x": X}, bytes(9), "not fully covered"),
    "metadata": ({"__metadata__": {"a": 1}}, b"", "expected a string"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused(name: str, tmp_path: Path) -> None:
    header, content, text = BROKEN[name]
    with pytest.raises(FormatError, match=text):
        SafetensorsFile(write(tmp_path / "a", header, content))


def test_lengths_that_do_not_fit_the_file(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"1234")
    with pytest.raises(FormatError, match=r"has 4 bytes: .*header too small"):
        SafetensorsFile(tmp_path / "short")
    with pytest.raises(FormatError, match="header too large"):
        SafetensorsFile(write(tmp_path / "long", b"{}", length=2**64 - 1))
    with pytest.raises(FileError, match="cannot read"):
        SafetensorsFile(tmp_path / "missing")


@settings(max_examples=150)
@given(place=st.integers(0, len(GENUINE) + 8), value=st.integers(0, 255))
def test_one_wrong_byte_is_read_or_refused(place: int, value: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = bytearray(GENUINE + np.array([1, 2], np.float32).tobytes() + b"\1")
    whole[place] = value
    path = tmp_path_factory.mktemp("st") / "a"
    path.write_bytes(whole)
    try:
        found = load_safetensors(path)
    except (FormatError, DTypeError):
        return
    assert sum(one.nbytes for one in found.values()) == 9


def test_an_extent_of_0_beside_a_huge_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"x": entry("F32", [0, 2**62], 0, 0)})
    with pytest.raises(FormatError, match="more than an address"):
        SafetensorsFile(path)
    assert load_safetensors(write(tmp_path / "b", {"x": entry("F32", [0, 7], 0, 0)}))["x"].shape == (0, 7)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    for tensors, error, text in (
        ({"x": np.array(["a"])}, DTypeError, "'x' holds text"),
        ({"__metadata__": np.zeros(1)}, ArgumentError, "__metadata__"),
        ({"\ud800": np.zeros(1)}, ArgumentError, "cannot be encoded"),
    ):
        with pytest.raises(error, match=text):
            save_safetensors(tensors, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


DESCRIPTORS = Path("/proc/self/fd")


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="no list of file descriptors here")
def test_small_files_keep_no_descriptor(tmp_path: Path) -> None:
    before = len(list(DESCRIPTORS.iterdir()))
    save_safetensors({"x": np.arange(6.0)}, tmp_path / "small")
    save_safetensors({"x": np.arange(2.0**17)}, tmp_path / "large")
    small = [load_safetensors(tmp_path / "small") for _ in range(5)]
    assert len(list(DESCRIPTORS.iterdir())) == before
    large = load_safetensors(tmp_path / "large")
    asked = load_safetensors(tmp_path / "small", mapped=True)
    assert len(list(DESCRIPTORS.iterdir())) == before + 2
    assert small[0]["x"].plain()[5] == asked["x"].plain()[5] == large["x"].plain()[5] == 5
