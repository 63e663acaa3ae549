"""Safetensors files: dense tensors by name; large files are mapped into memory rather than read.

    8 bytes        N, the length of the header (little-endian)
    N bytes        a JSON object: name -> {"dtype", "shape", "data_offsets": [begin, end]}; spaces may follow it
    the rest       the elements, row-major and little-endian, side by side; offsets count from here

Under the name `__metadata__` the header may hold texts by name. Nothing of a file is believed before it was checked.
That is done by `safetensors`, the library of the format's authors, when the file is opened: a header that does not fit
the file, tensors that overlap, leave gaps or have another size than their shape says are refused before any memory is
taken that the file's size does not justify. Here is what it does not do:

- tensors in the mapped file: it copies them, and gives NumPy no bfloat16;
- names that stand twice, more axes than an array has, and extents beside a 0 that no address reaches: it takes them;
- writing: it puts the texts of `__metadata__` into another order each time, and the file into memory or in place of one
  whose permissions it forgets. Here the same tensors give the same bytes.

Source: huggingface.co/docs/safetensors, "Format". A file may hold element types that no tensor here has (uint32, float8
...); its other tensors can be read all the same.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors
from numpy.typing import NDArray

from tazza.array.operand import Operand, plain_operand
from tazza.data_class import dataclass
from tazza.errors import ArgumentError, DTypeError, FileError, FormatError, NotFoundError
from tazza.runtime.files import atomic_write, one_line, open_regular, reading
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.spec import MOST_AXES, TensorSpec
from tazza.tensor.tensor import Tensor

__all__ = ["SafetensorsFile", "load_safetensors", "save_safetensors"]

METADATA = "__metadata__"
PREFIX_BYTES = 8
ALIGNMENT = 8
MOST_ELEMENTS = 2**60
"""More, of 8 bytes each, no address reaches."""
LEAST_MAPPED_BYTES = 1 << 20
"""Size of a file from which on mapping it is worth a file descriptor; to read that much takes some 0.1 ms."""


def _format_name(dtype: DataType) -> str:
    """Return what the format calls an element type: `F32` for float32."""
    return safetensors.TensorSpec(dtype=dtype.label, shape=[0], data_ptr=0, data_len=0).dtype


NAMES = {dtype: _format_name(dtype) for dtype in DataType if dtype is not DataType.STRING}
_TYPES = {name: dtype for dtype, name in NAMES.items()}


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: the format's name of its element type, and where its bytes are behind the header."""

    dtype: str
    shape: Dim
    begin: int
    end: int


# -- reading -----------------------------------------------------------------------------------------------------------


class SafetensorsFile(Mapping[str, Tensor]):
    """An open file: a mapping from names to tensors, each made when it is asked for.

    A tensor of a file of 1 MiB or more lies in the mapped file: its pages are read when its elements are, and shared
    with whoever else maps the file. Writing to it changes this process's copy alone, never the file. It stays valid
    after the file was closed or replaced; a file that another process *shortens* meanwhile ends this one, as with any
    mapped file: read those with `mapped=False`.

    A mapped file takes a file descriptor until the last of its tensors has died, and systems grant a process some
    thousand; so smaller files are read, unless `mapped=True` asks for it.

    >>> import tempfile; folder = tempfile.TemporaryDirectory(); path = f"{folder.name}/a.safetensors"
    >>> save_safetensors({"w": np.arange(3.0)}, path, metadata={"made by": "an example"})
    >>> with SafetensorsFile(path) as file:
    ...     print(list(file), file.metadata, file.specs["w"], file["w"].plain())
    ['w'] {'made by': 'an example'} float64[3] [0. 1. 2.]
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, mapped: bool | None = None) -> None:
        """Open a file and check all of its header; `mapped=False` reads each tensor into memory of its own.

        None maps files of 1 MiB or more.

        Raises:
            FileError: the file cannot be opened or read.
            FormatError: it is no safetensors file, or contradicts itself.
        """
        self.path = Path(path)
        self._file: BinaryIO = open_regular(self.path)
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self.mapped = self._size >= LEAST_MAPPED_BYTES if mapped is None else mapped
            self._check()
            length = int.from_bytes(self._read_at(0, PREFIX_BYTES), "little")
            self._start = PREFIX_BYTES + length
            self.metadata, self._entries = _entries_of(self._read_at(PREFIX_BYTES, length), str(self.path))
            self._map: mmap.mmap | None = None
        except BaseException:
            self._file.close()
            raise

    def _check(self) -> None:
        """Let the format's own library look at the file that is open here, whatever has its name by now.

        Raises:
            FormatError: it is no safetensors file, or contradicts itself.
        """
        try:
            with safetensors.safe_open(f"/dev/fd/{self._file.fileno()}", framework="numpy"):
                pass
        except safetensors.SafetensorError as error:
            raise FormatError(f"'{self.path}' has {self._size} bytes: {one_line(error)}") from error
        except OSError as error:
            raise FileError(f"cannot read '{self.path}': {one_line(error)}") from error

    def _read_at(self, offset: int, nbytes: int) -> bytes:
        with reading(self.path):
            self._file.seek(offset)
            found = self._file.read(nbytes)
        if len(found) < nbytes:
            raise FormatError(f"'{self.path}' ended at byte {offset + len(found)}, it had {self._size} when opened")
        return found

    @property
    def specs(self) -> dict[str, TensorSpec]:
        """The specs of all tensors that can be held here, without reading them."""
        known = ((name, one) for name, one in self._entries.items() if one.dtype in _TYPES)
        return {name: TensorSpec(one.shape, _TYPES[one.dtype]) for name, one in known}

    def __getitem__(self, name: str) -> Tensor:
        """Return a tensor.

        Raises:
            NotFoundError: the file has none of that name.
            DTypeError: no tensor holds such elements.
        """
        entry = self._entries.get(name)
        if entry is None:
            few = ", ".join(list(self._entries)[:20])
            raise NotFoundError(f"'{self.path}' has no tensor {name!r}", hint=f"it has {few}")
        dtype = _TYPES.get(entry.dtype)
        if dtype is None:
            raise DTypeError(f"tensor {name!r} of '{self.path}' has the type {entry.dtype}, which no tensor holds here")
        return Tensor.from_numpy(self._elements(entry, dtype), copy=None)

    def _elements(self, entry: Entry, dtype: DataType) -> NDArray[Any]:
        kind = dtype.numpy.newbyteorder("<") if sys.byteorder == "big" else dtype.numpy
        if entry.begin == entry.end:
            return np.empty(entry.shape, dtype.numpy)
        offset = self._start + entry.begin
        if not self.mapped:
            content = bytearray(self._read_at(offset, entry.end - entry.begin))
            return np.frombuffer(content, kind).reshape(entry.shape)
        if self._map is None:
            # A private mapping: tensors can be written to, and the file does not change.
            self._map = mmap.mmap(self._file.fileno(), self._size, access=mmap.ACCESS_COPY)
        return np.frombuffer(self._map, kind, entry.shape.numel, offset).reshape(entry.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries  # the mixin would map the tensor

    def close(self) -> None:
        """Close the file; tensors that were taken from it keep what they have."""
        self._file.close()
        self._map = None

    def __enter__(self) -> SafetensorsFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def load_safetensors(path: str | os.PathLike[str], *, mapped: bool | None = None) -> dict[str, Tensor]:
    """Return all tensors of a file by name; see `SafetensorsFile` on `mapped`.

    Raises:
        FileError: the file cannot be opened or read.
        FormatError: it is no safetensors file, or contradicts itself.
        DTypeError: it holds elements that no tensor holds; open it with `SafetensorsFile` to read the others.
    """
    with SafetensorsFile(path, mapped=mapped) as file:
        return dict(file)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {_short(name)} stands there twice")
        found[name] = value
    return found


def _entries_of(text: bytes, who: str) -> tuple[dict[str, str], dict[str, Entry]]:
    """Return metadata and entries of a header that the library has found right.

    Raises:
        FormatError: no array can have such a shape, or a name stands there twice.
    """
    try:
        fields: dict[str, Any] = json.loads(text.decode(), object_pairs_hook=_unique)
    except ValueError as error:
        raise FormatError(f"'{who}': {one_line(error)}") from error
    metadata: dict[str, str] | None = fields.pop(METADATA, None)
    return metadata or {}, {name: _entry(f"'{who}', tensor {name!r}", value) for name, value in fields.items()}


def _entry(who: str, value: dict[str, Any]) -> Entry:
    shape: list[int] = value["shape"]
    if len(shape) > MOST_AXES:
        raise FormatError(f"{who}: shape {_short(shape)} has more than {MOST_AXES} axes")
    if math.prod(extent for extent in shape if extent) >= MOST_ELEMENTS:
        raise FormatError(f"{who}: {value['dtype']}{_short(shape)} has extents for more than an address can reach")
    return Entry(value["dtype"], Dim(shape), *value["data_offsets"])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# -- writing -----------------------------------------------------------------------------------------------------------


def save_safetensors(
    tensors: Mapping[str, Operand], path: str | os.PathLike[str], *, metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors or arrays to a file, which others find whole or as it was before.

    Larger elements come first, so that each tensor is aligned to its own; the same tensors give the same bytes. Any
    layout is written row-major.

    Args:
        tensors: by name.
        path: the file, made or replaced.
        metadata: texts by name, kept in the header.

    Raises:
        ArgumentError: the name `__metadata__`, or names and texts that are no `str`.
        DTypeError: text, whose elements the format cannot hold.
        FileError: the file cannot be written.
    """
    arrays = {name: _row_major(name, value) for name, value in tensors.items()}
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header: dict[str, Any] = {}
    if metadata is not None:
        if not all(isinstance(text, str) for pair in metadata.items() for text in pair):  # pyright: ignore[reportUnnecessaryIsInstance] -- the caller's mistake
            raise ArgumentError("metadata of a safetensors file are texts by name", hint="convert them with str()")
        header[METADATA] = dict(sorted(metadata.items()))
    begin = 0
    for name, array in ordered:
        offsets = [begin, begin + array.nbytes]
        header[name] = {"dtype": NAMES[DataType.of(array)], "shape": list(array.shape), "data_offsets": offsets}
        begin += array.nbytes
    try:
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"a name or text of a safetensors file cannot be encoded: {error}") from error
    text += b" " * (-len(text) % ALIGNMENT)
    with atomic_write(path) as file:
        file.write(len(text).to_bytes(PREFIX_BYTES, "little"))
        file.write(text)
        for _, array in ordered:
            file.write(_bytes_of(array))


def _row_major(name: str, value: Operand) -> NDArray[Any]:
    if not isinstance(name, str) or name == METADATA:  # pyright: ignore[reportUnnecessaryIsInstance] -- the caller's mistake
        raise ArgumentError(f"a tensor of a safetensors file cannot have the name {name!r}", hint="give it another")
    array = plain_operand(value, f"tensor {name!r}")
    return np.ascontiguousarray(array).reshape(array.shape)


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """Return the elements as little-endian bytes, without a copy where the machine is little-endian."""
    stored = array.byteswap() if sys.byteorder == "big" else array
    return stored.reshape(-1).view(np.uint8).data
