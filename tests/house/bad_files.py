"""What may lie at a path that a person names: what is no file, paths that no system takes, and odd contents."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np


def _pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def _socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)  # its path has a length of at most 107
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)
    return path


def _loop(path: Path) -> Path:
    path.symlink_to(path)
    return path


def _link_to(target: str) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        path.symlink_to(target)
        return path

    return make


def _folder_of_pipes(path: Path) -> Path:
    path.mkdir()
    for name in NAMES:
        os.mkfifo(path / name)
    return path


def _folder_of_loops(path: Path) -> Path:
    path.mkdir()
    for name in NAMES:
        (path / name).symlink_to(name)
    return path


def _folder_of_folders(path: Path) -> Path:
    for name in NAMES:
        (path / name).mkdir(parents=True)
    return path


def _below_a_file(path: Path) -> Path:
    path.write_bytes(b"a file")
    return path / path.name


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _holding(data: bytes, *, length: int | None = None) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        path.write_bytes(data)
        if length is not None:
            os.truncate(path, length)
        return path

    return make


NAMES = (
    "data.mdb",
    "lock.mdb",
    "CURRENT",
    "MANIFEST-000001",
    "init_net.pb",
    "predict_net.pb",
    "train-images-idx3-ubyte",
    "checkpoint.minidb",
    "settings.json",
    "history.csv",
    "search.json",
)
"""What folders are known by."""


def _png(width: int, height: int, *, depth: int = 8, colour: int = 2, pixels: bytes = b"") -> bytes:
    """Return a picture that declares a size, with whatever pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


def _npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def _safetensors(header: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header.encode() + data


CONTENTS: dict[str, bytes] = {
    "nothing": b"",
    "a zero": b"\0",
    "noise": random.Random(5).randbytes(3000),
    "letters": b"x" * 400_000,
    "no UTF-8": b"iteration,loss\n1,\xff\xfe",
    "deep JSON": b"[" * 200_000,
    "deep object": b'{"a":' * 100_000,
    "JSON of NaN": b'{"batch_size": NaN, "epochs": 1e999}',
    "JSON of another kind": b'[1, "a", null]',
    "JSON of wrong types": b'{"batch_size": "many", "seed": [1], "data": {}}',
    "a number of 10,000 digits": b'{"seed": ' + b"9" * 10_000 + b"}",
    "counters that are NaN": b"iteration,loss,accuracy,learning_rate,test_accuracy\nnan,nan,,,\n",
    "counters that are too long": b"iteration,loss,accuracy,learning_rate,test_accuracy\n"
    + b"9" * 9000
    + b",1,1,1,1\n",
    "a cell of 200,000 letters": b"a,b,c,d,e\n" + b"1" * 200_000 + b",1,1,1,1\n",
    "NUL in a table": b"a,b,c,d,e\n1,\0,,,\n",
    "deep text of a net": b"arg { nets { " * 20_000,
    "text of a net with a number of 10,000 digits": b"num_workers: " + b"9" * 10_000,
    "deep net": b"".join(bytes([0x12, 0]) for _ in range(10_000)),
    "IDX of rank 255": b"\0\0\x08\xff" + struct.pack(">255I", *[1] * 255) + b"\1",
    "IDX of rank 40 without elements": b"\0\0\x08\x28" + struct.pack(">40I", *[2**32 - 1] * 39, 0),
    "IDX without elements": b"\0\0\x08\3" + struct.pack(">3I", 0, 2**32 - 1, 2**32 - 1),
    "IDX of petabytes": b"\0\0\x0e\4" + struct.pack(">4I", *[2**20] * 4),
    "IDX of no elements of petabytes": b"\0\0\x0e\4" + struct.pack(">4I", 2**32 - 1, 2**32 - 1, 2**32 - 1, 0),
    "cut gzip": b"\x1f\x8b\x08\0\0\0\0\0\0\3\1",
    "picture of 67 gigapixels": _png(2**18, 2**18),
    "picture of 300 bytes and 100 megapixels": _png(10_000, 10_000, pixels=bytes(1000)),
    "picture of many pixels, one bit each": _png(30_000, 30_000, depth=1, colour=0),
    "picture without size": _png(0, 0),
    "picture that is cut": _png(64, 64, pixels=bytes(64 * 193))[:60],
    "picture with a bad filter": _png(3, 3, pixels=bytes([9] * 30)),
    "picture of colours that are not there": _png(3, 3, colour=7, pixels=bytes(100)),
    "picture in PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n",
    "picture in TIFF with odd tags": b"II*\0"
    + struct.pack("<IHHHIIHHIII", 8, 2, 0x100, 4, 1, 2**31 - 1, 0x101, 4, 1, 2**31 - 1, 0),
    "picture in GIF of 4 gigapixels": b"GIF89a\xff\xff\xff\xff\x80\0\0\0\0\0\xff\xff\xff,"
    b"\0\0\0\0\xff\xff\xff\xff\0\2\2D\1\0;",
    "picture in BMP of a negative height": b"BM"
    + struct.pack("<IHHIIiiHHIIiiII", 60, 0, 0, 54, 40, 9, -(2**31), 1, 24, *[0] * 6),
    "picture in PPM of many digits": b"P6 " + b"9" * 500 + b" 9 255\n",
    "array of objects": _npy("{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", b"\x80\4N."),
    "array of records": _npy(
        "{'descr': [('a', '<f4'), ('b', '|O')], 'fortran_order': False, 'shape': (1, 1)}", bytes(12)
    ),
    "array of petabytes": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000, 1000)}"),
    "array of petabytes by columns": _npy("{'descr': '<f8', 'fortran_order': True, 'shape': (1000000, 1000000)}"),
    "array of a negative shape": _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4)}", bytes(16)),
    "array of rank 100": _npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({'1, ' * 100})}}", bytes(4)),
    "array of text": _npy("{'descr': '<U3', 'fortran_order': False, 'shape': (2, 2)}", bytes(48)),
    "array of no bytes": _npy("{'descr': '|V0', 'fortran_order': False, 'shape': (99999999999, 2)}"),
    "array of deep text": _npy("(" * 9000),
    "array of a long header": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{",
    "array of version 9": b"\x93NUMPY\x09\x00" + bytes(100),
    "array with a shape of floats": _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1.5, 2)}", bytes(12)),
    "arrays in a zip file": b"PK\x03\x04" + bytes(200),
    "safetensors of a deep header": _safetensors("[" * 100_000),
    "safetensors of a deep object": _safetensors('{"a":' * 50_000),
    "safetensors of NaN": _safetensors('{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', bytes(4)),
    "safetensors of petabytes": _safetensors(
        '{"a":{"dtype":"F32","shape":[4611686018427387903],"data_offsets":[0,4]}}'
    ),
    "safetensors of rank 100": _safetensors(
        json.dumps({"a": {"dtype": "U8", "shape": [1] * 100, "data_offsets": [0, 1]}}), b"1"
    ),
    "safetensors of a number of 10,000 digits": _safetensors(
        '{"a":{"dtype":"U8","shape":[' + "9" * 10_000 + '],"data_offsets":[0,1]}}'
    ),
    "minidb of negative lengths": struct.pack("=ii", -1, -1) + bytes(100),
    "minidb of gigabytes": struct.pack("=ii", 2**31 - 1, 2**31 - 1) + bytes(100),
    "LMDB's data file": b"\0" * 16 + struct.pack("=II", 0xBEEFC0DE, 1) + bytes(8168),
}


def _array_of(dtype: str, *, order: bool) -> bytes:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    return _npy(f"{{'descr': {dtype!r}, 'fortran_order': {order}, 'shape': (2, 3, 4)}}", array.tobytes())


for _name, _dtype in (
    ("halves", "<f2"),
    ("big-endian numbers", ">i4"),
    ("complex numbers", "<c8"),
    ("dates", "<M8[s]"),
):
    CONTENTS[f"array of {_name} by columns"] = _array_of(_dtype, order=True)

BAD: dict[str, Callable[[Path], Path]] = {
    "nothing there": lambda path: path,
    "a folder": _folder,
    "a pipe": _pipe,
    "a socket": _socket,
    "a link to itself": _loop,
    "a link to nothing": _link_to("/no/such/file"),
    "a device without end": _link_to("/dev/zero"),
    "a device without content": _link_to("/dev/null"),
    "a terminal": _link_to("/dev/tty"),
    "below a file": _below_a_file,
    "5,000 letters": lambda path: path.parent / ("x" * 5000 + path.name),
    "250 letters": lambda path: path.parent / ("x" * 250 + path.name),
    "a path of 4,080 letters": lambda path: path.parent.joinpath(*["x" * 200] * 21) / path.name,
    "a NUL": lambda path: path.parent / f"a\0b{path.name}",
    "half of a letter": lambda path: path.parent / f"\ud800{path.name}",
    "a folder of pipes": _folder_of_pipes,
    "a folder of links to themselves": _folder_of_loops,
    "a folder of folders": _folder_of_folders,
    "a terabyte of nothing": _holding(b"", length=2**40),
    **{name: _holding(data) for name, data in CONTENTS.items()},
}
