"""Damaged files of every format that tazza reads, and how each is read.

A format has samples, which tazza's own writers make (or which lie in `tests/data`), and a function that reads a file of
it as a user would. Whatever is read may only take memory that the file's size justifies.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import tazza
from tazza.array.safetensors import SafetensorsFile, save_safetensors
from tazza.array.sparse.rows import row_slices
from tazza.cli.history import History
from tazza.cli.train_settings import TrainSettings
from tazza.db import Mode, open_db
from tazza.db.idx import read_idx
from tazza.db.image_source import ImageDB, first_image_dims
from tazza.errors import TazzaError
from tazza.graph.text import parse_net
from tazza.images import Preprocessing, read_images
from tazza.interop.predictor_file import PredictorFile
from tazza.models.training import TrainingStep
from tazza.nets.plan import search
from tazza.operator import operator_def
from tazza.proto import BlobProto, ExternalDataProto, NetDef, PlanDef, QTensorProto, TensorProto, TensorProtos
from tazza.proto.message import format_text, parse, read_message
from tazza.runtime import native_code
from tazza.runtime.digest import digest_of
from tazza.runtime.flags import FLAGS
from tazza.runtime.flags import parse as parse_flags
from tazza.tensor import DataType, Tensor, deserialize, serialize_blob
from tazza.tensor.tensor_proto import array_to_tensor_proto, tensor_proto_to_array
from tazza.workspace import Workspace
from tests.fuzz.byte_mutation import damage, damage_message, damage_text
from tests.fuzz.case import Case
from tests.fuzz.guard import MIB, peak_bytes

DATA = Path(__file__).parents[1] / "data"
MEMORY_MIN = 48 * MIB
"""What reading any file may take, beyond some times its size."""
RATIO_MAX = 1100
"""Compressed files: deflate makes at most 1032 bytes of one."""


class TooMuchMemoryError(Exception):
    """A file took more memory than its size justifies."""


@dataclass(frozen=True, slots=True)
class Format:
    """`name` of the file that is read; `how` damages one sample with pieces of another."""

    file: str
    samples: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    how: tuple[Callable[[Random, bytes, bytes], bytes], ...] = (damage,)
    share: int = 4
    ratio: int = 8


def draw(seed: int) -> Case:
    """Draw a file of some format."""
    source = Random(f"files {seed}")
    name = source.choice(_deck())
    found = FORMATS[name]
    samples = _samples(name)
    data = source.choice(found.how)(source, source.choice(samples), source.choice(samples))
    return Case("files", seed, {"file": data}, (name,))


def attempt(case: Case, folder: Path) -> None:
    """Write the file and read it."""
    found = FORMATS[case.words[0]]
    data = case.parts["file"]
    path = folder / found.file
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(data)
    before = peak_bytes(reset=True)
    try:
        found.read(path)
    finally:
        more = peak_bytes() - before
        if more > MEMORY_MIN + found.ratio * len(data):
            raise TooMuchMemoryError(f"{len(data)} bytes of {case.words[0]} took {more // MIB} MiB")


def prepare() -> None:
    """Make the samples and read each once, so that what reading loads is there."""
    for name, found in FORMATS.items():
        for sample in _samples(name):
            path = Path(found.file)
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_bytes(sample)
            with suppress(TazzaError):  # such as that of elements that lie elsewhere
                found.read(path)


@cache
def _samples(name: str) -> tuple[bytes, ...]:
    return tuple(FORMATS[name].samples())


@cache
def _deck() -> tuple[str, ...]:
    return tuple(name for name, found in FORMATS.items() for _ in range(found.share))


# -- messages ----------------------------------------------------------------------------------------------------------


def _nets() -> list[NetDef]:
    return [read_message(path, NetDef) for path in sorted((DATA / "interop").rglob("*net.pb*"))]


def _arrays() -> list[Any]:
    types = [each for each in DataType if np.dtype(each.numpy).kind != "O"]
    made = [np.arange(6).reshape(2, 3).astype(each.numpy) for each in types]
    return [*made, np.array([b"a", b"bc"], object), np.zeros((0, 3), np.float32), np.float32(3)]


def _tensors() -> list[TensorProto]:
    made = [array_to_tensor_proto(np.asarray(array), "t") for array in _arrays()]
    made[0].segment.begin, made[0].segment.end = 0, 6
    raw = TensorProto(
        dims=[2, 3], data_type=TensorProto.FLOAT, storage_type=TensorProto.RAW, raw_data=bytes(24), name="raw"
    )
    outside = TensorProto(dims=[2], storage_type=TensorProto.EXTERNAL, name="outside")
    outside.external_data.CopyFrom(
        ExternalDataProto(source_type=ExternalDataProto.SIMPLE_FILE, record_id="/etc/passwd", record_size=8)
    )
    return [*made, raw, outside]


def _blobs() -> list[bytes]:
    made = [record for array in _arrays() for _, record in serialize_blob(Tensor.from_numpy(np.asarray(array)), "b", 4)]
    made += [record for _, record in serialize_blob("text", "s")]
    rows = row_slices([0, 2], np.ones((2, 3), np.float32))
    made += [record for _, record in serialize_blob(rows, "rows")]
    quantized = QTensorProto(
        dims=[2, 3], precision=8, scale=0.5, bias=0.1, is_signed=False, data=list(range(6)), name="q"
    )
    made.append(BlobProto(name="q", type="QTensor", qtensor=quantized).SerializeToString())
    return made


def _plans() -> list[bytes]:
    return [PlanDef(name="p", network=_nets()[:1]).SerializeToString()]


def _net_of(path: Path) -> None:
    net = read_message(path, NetDef)
    with tazza.load(NetDef(), net) as predictor:
        str(predictor)


def _tensor(path: Path) -> None:
    tensor_proto_to_array(parse(TensorProto, path.read_bytes(), "a tensor"))


def _blob(path: Path) -> None:
    deserialize([path.read_bytes()])


def _plan(path: Path) -> None:
    read_message(path, PlanDef)


def _graph_text(path: Path) -> None:
    parse_net(path.read_text(errors="replace"))


# -- databases ---------------------------------------------------------------------------------------------------------


def _database(kind: str) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        place = path.parent if kind == "lmdb" else path
        with open_db(kind, place, Mode.READ) as db, db.cursor() as cursor:
            keys = [key for key, _ in cursor]
            if cursor.supports_seek:
                cursor.seek(keys[-1] if keys else b"x")
            cursor.seek_to_first()
        workspace = Workspace(root=path.parent)
        first = operator_def("CreateDB", [], ["reader"], db=str(place), db_type=kind)
        batch = operator_def("TensorProtosDBInput", ["reader"], ["data", "label"], batch_size=2)
        _all(
            lambda: workspace.run_net_once(NetDef(name="n", op=[first, batch])),
            lambda: first_image_dims(ImageDB(kind, place, 1)),
        )
        workspace.reset()

    return read


def _all(*acts: Callable[[], object]) -> None:
    """Do all of it, whatever typed error the first ones end in; raise the last of these."""
    last: TazzaError | None = None
    for act in acts:
        try:
            act()
        except TazzaError as error:
            if type(error).__name__ == "KernelError":
                raise
            last = error
    if last is not None:
        raise last


def _records(kind: str) -> list[tuple[str, bytes]]:
    if kind == "protodb":  # which holds tensors, under their own names
        made = [array_to_tensor_proto(np.arange(4.0), f"{number:03}") for number in range(3)]
        return [(proto.name, proto.SerializeToString()) for proto in made]
    protos = TensorProtos(
        protos=[array_to_tensor_proto(np.ones((1, 2, 3), np.uint8)), array_to_tensor_proto(np.array(3, np.int32))]
    )
    return [(f"{number:03}", protos.SerializeToString()) for number in range(3)]


def _written_database(kind: str) -> Callable[[], list[bytes]]:
    def samples() -> list[bytes]:
        path = Path(f"sample.{kind}")
        path.unlink(missing_ok=True)
        with open_db(kind, path, Mode.NEW) as db, db.transaction() as transaction:
            for key, value in _records(kind):
                transaction.put(key, value)
        return [path.read_bytes()]

    return samples


def _predictor(path: Path) -> None:
    _all(lambda: PredictorFile.read(path), lambda: _closed(tazza.load(path)))


def _closed(predictor: tazza.Predictor) -> None:
    with predictor:
        predictor.run({name: np.ones((1, 2), np.float32) for name in predictor.inputs})


def _checkpoint_samples() -> list[bytes]:
    workspace = Workspace()
    workspace.feed("a", np.arange(6, dtype=np.float32).reshape(2, 3))
    workspace.feed("b", b"text")
    path = Path("sample.checkpoint")
    path.unlink(missing_ok=True)
    workspace.run_operator(
        operator_def("Save", ["a", "b"], [], db=str(path.absolute()), absolute_path=1, db_type="minidb")
    )
    return [path.read_bytes()]


def _checkpoint(path: Path) -> None:
    workspace = Workspace(root=path.parent)
    named = operator_def("Load", [], ["a", "b"], db=path.name, db_type="minidb")
    everything = operator_def("Load", [], [], db=path.name, db_type="minidb", load_all=1)
    _all(lambda: workspace.run_operator(named), lambda: workspace.run_operator(everything))


# -- arrays and pictures -----------------------------------------------------------------------------------------------


def _idx_samples() -> list[bytes]:
    images = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 5]) + bytes(range(30))
    doubles = bytes([0, 0, 14, 1, 0, 0, 0, 2]) + bytes(16)
    return [images, doubles, gzip.compress(images, mtime=0)]


def _damage_idx(draw: Random, data: bytes, other: bytes) -> bytes:
    """Damage the inside of what is compressed half of the time."""
    if data[:2] == b"\x1f\x8b" and draw.random() < 0.5:
        return gzip.compress(damage(draw, gzip.decompress(data), other), mtime=0)
    return damage(draw, data, other)


def _array_samples() -> list[bytes]:
    made: list[bytes] = []
    for array in (np.ones((3, 4), np.uint8), np.ones((1, 2, 3, 4), np.float32), np.arange(4.0).reshape(2, 2)):
        file = io.BytesIO()
        np.save(file, array)
        made.append(file.getvalue())
    return made


def _safetensors_samples() -> list[bytes]:
    path = Path("sample.safetensors")
    save_safetensors({"w": np.arange(3.0), "b": np.ones((2, 2), np.int32)}, path, metadata={"by": "nobody"})
    return [path.read_bytes()]


def _safetensors(path: Path) -> None:
    for mapped in (True, False):
        with SafetensorsFile(path, mapped=mapped) as file:
            for name in file:
                file[name].plain().sum()


def _picture_samples(form: str) -> Callable[[], list[bytes]]:
    def samples() -> list[bytes]:
        from PIL import Image

        made: list[bytes] = []
        for mode in ("L", "RGB"):
            file = io.BytesIO()
            Image.new(mode, (7, 5), 9).save(file, form)
            made.append(file.getvalue())
        return made

    return samples


def _pictures(path: Path) -> None:
    read_images(path, Preprocessing(scale=1.0))


# -- what a training and the compiler leave behind ---------------------------------------------------------------------


def _history_samples() -> list[bytes]:
    made = History()
    made.steps = [TrainingStep(number, 1.5, 0.5, 0.01) for number in range(1, 4)]
    made.tests = {2: 0.75}
    made.write(Path("sample.csv"))
    return [Path("sample.csv").read_bytes()]


def _history(path: Path) -> None:
    read = History.read(path, 10)
    read.curve(lambda step: step.loss)
    read.tested()
    read.write(path)


def _settings_samples() -> list[bytes]:
    TrainSettings(data="x", epochs=2.0, batch_size=8).write(Path("sample.json"))
    return [Path("sample.json").read_bytes(), json.dumps({"data": "x", "momentum": 0.5, "seed": 1}).encode()]


def _settings(path: Path) -> None:
    read = TrainSettings.read(path)
    read.check()
    read.iterations_of(100)
    read.chosen_solver()


def _searched(path: Path) -> None:
    cache = native_code.cache_folder()
    assert cache is not None, "the worker names one"
    place = cache / "search.json"
    place.parent.mkdir(exist_ok=True, parents=True)
    place.write_bytes(path.read_bytes())
    search._read()  # pyright: ignore[reportPrivateUsage] -- `stored` asks once a process


def _object_samples() -> list[bytes]:
    code = b"\x7fELF" + bytes(60)
    return [native_code.MAGIC + digest_of(code) + code]


def _object(path: Path) -> None:
    native_code._read(path)  # pyright: ignore[reportPrivateUsage] -- what is done with a file of the cache


def _flags(path: Path) -> None:
    with unchanged_flags():
        parse_flags(path.read_text(errors="replace").splitlines())


@contextmanager
def unchanged_flags() -> Generator[None]:
    """Take back what a block does to flags."""
    with ExitStack() as stack:
        for name in FLAGS:
            stack.enter_context(FLAGS[name].override(FLAGS[name].value))
        yield


def _file(*parts: str) -> Callable[[], list[bytes]]:
    """Return what gives a file of the test data."""
    return lambda: [DATA.joinpath(*parts).read_bytes()]


def _given(*samples: bytes) -> Callable[[], list[bytes]]:
    return lambda: list(samples)


GRAPH = b"net: n\nin: x\nout: y\ny = LeakyRelu(x; alpha=0.5, axes=[1, 2]) @cuda:1 name=a\n"
FLAG_WORDS = b"--num_threads=2\n--caffe2_log_level\n1\n--noexhaustive_search\n--predictor_seats=1"
MESSAGE = (damage, damage_message)
TEXT = (damage, damage_text)
PICTURE_RATIO = 4 * RATIO_MAX
FORMATS: dict[str, Format] = {
    "netdef": Format("net.pb", lambda: [net.SerializeToString() for net in _nets()], _net_of, MESSAGE, share=2),
    "netdef text": Format("net.pbtxt", lambda: [format_text(net).encode() for net in _nets()], _net_of, TEXT, share=1),
    "plandef": Format("plan.pb", _plans, _plan, MESSAGE, share=1),
    "graph text": Format("graph.txt", _given(GRAPH), _graph_text, (damage_text,)),
    "tensor": Format(
        "tensor.pb", lambda: [proto.SerializeToString() for proto in _tensors()], _tensor, MESSAGE, share=10
    ),
    "blob": Format("blob.pb", _blobs, _blob, MESSAGE, share=10),
    "minidb": Format("records.minidb", _written_database("minidb"), _database("minidb"), share=2),
    "protodb": Format("records.protodb", _written_database("protodb"), _database("protodb"), MESSAGE, share=2),
    "lmdb": Format("lmdb/data.mdb", _file("db", "mnist.lmdb", "data.mdb"), _database("lmdb"), share=1),
    "predictor": Format("model.minidb", _file("interop", "small", "predictor.minidb"), _predictor),
    "checkpoint": Format("checkpoint.minidb", _checkpoint_samples, _checkpoint),
    "idx": Format("images-idx3", _idx_samples, read_idx, (_damage_idx,), ratio=RATIO_MAX),
    "safetensors": Format("w.safetensors", _safetensors_samples, _safetensors),
    "npy": Format("a.npy", _array_samples, _pictures),
    "png": Format("p.png", _picture_samples("PNG"), _pictures, share=2, ratio=PICTURE_RATIO),
    "jpg": Format("p.jpg", _picture_samples("JPEG"), _pictures, share=1, ratio=PICTURE_RATIO),
    "bmp": Format("p.bmp", _picture_samples("BMP"), _pictures, share=1, ratio=PICTURE_RATIO),
    "gif": Format("p.gif", _picture_samples("GIF"), _pictures, share=1, ratio=PICTURE_RATIO),
    "history": Format("history.csv", _history_samples, _history, TEXT, share=1),
    "settings": Format("settings.json", _settings_samples, _settings, TEXT),
    "search": Format("search.json", _given(b'{"a": "b", "c": "d"}'), _searched, TEXT),
    "object": Format("a.o", _object_samples, _object, share=1),
    "flags": Format("flags.txt", _given(FLAG_WORDS), _flags, TEXT, share=1),
}
