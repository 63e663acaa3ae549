"""Every function of the package that reads a file which a person named, declared once: what the laws of bad files run.

`modules` are those in which the reader's way to the file opens or looks at it; a gate holds that there is no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tazza
from tazza.array.safetensors import load_safetensors
from tazza.bulk.part import read_lines
from tazza.bulk.run import is_manifest
from tazza.cli.history import History
from tazza.cli.model_files import find_model
from tazza.cli.profile import Request, made
from tazza.cli.recorded_training import read_columns, read_values
from tazza.cli.train import train_lenet
from tazza.cli.train_pictures import PictureSettings, train_pictures
from tazza.cli.train_settings import TrainSettings
from tazza.cli.train_text import TextSettings, train_char_lstm
from tazza.db import DBS, Mode, open_db
from tazza.db.idx import read_idx
from tazza.db.image_source import prepare
from tazza.db.images import count_records, load_idx
from tazza.db.sentences import read_vocabulary
from tazza.db.text import read_characters
from tazza.device import Generator
from tazza.engines.cudnn import search as cudnn_search
from tazza.fitting import find_source
from tazza.images import Preprocessing, read_images, read_labels
from tazza.interop import PredictorFile
from tazza.interop.int8 import file_examples
from tazza.interop.migration.source import read_script
from tazza.interop.model_folder import read_value_info
from tazza.models import Model
from tazza.models.training import Trainer
from tazza.nets.plan import search
from tazza.operator import find_schema, operator_def
from tazza.ops.data.text_file import TextFileReader
from tazza.ops.data.video_input import VideoRecord, clips_of
from tazza.ops.distributed.store import StoreHandler
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tazza.runtime import machine
from tazza.runtime.modules import load_module
from tazza.runtime.native_code import CACHE_DIR, native_function
from tazza.tensor import DataType, Tensor
from tazza.workspace import Workspace


@dataclass(frozen=True)
class Reader:
    """A way in which a file is read; `suffix` is what its name must end in for that."""

    name: str
    read: Callable[[Path], object]
    suffix: str = ""
    missing_is_fine: bool = False
    is_cache: bool = False
    """What is in the way of a cache costs the cache, and is told in the log."""
    prefix: str = "f"
    reads_content: bool = True
    also_fine: frozenset[str] = frozenset()


def _records(db_type: str, mode: Mode) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        with open_db(db_type, path, mode) as db, db.cursor() as cursor:
            return list(cursor)

    return read


def _trainer(path: Path) -> object:
    model = Model("reader")
    model.fc("data", "loss", 3, 1)
    with Trainer(model.init_net.proto, model.net.proto, Workspace(), accuracy=None) as trainer:
        trainer.load(path)
    return None


def _profile(path: Path) -> object:
    with made(Request(str(path), None, [], None, None, 0)):
        return None


def _resume(path: Path) -> object:
    return train_lenet({}, path, resume=True, overwrite=False)


def _resume_text(path: Path) -> object:
    return train_char_lstm({}, path, resume=True, overwrite=False)


def _resume_pictures(path: Path) -> object:
    return train_pictures(None, {}, path, resume=True, overwrite=False)


def _searched_there(path: Path) -> object:
    with CACHE_DIR.override(str(path.parent)):
        return cudnn_search.TABLE.read()  # what a search reads first


def _modelled(path: Path) -> object:
    with CACHE_DIR.override(str(path.parent)):
        return machine.stored()


def _searched(path: Path) -> object:
    with CACHE_DIR.override(str(path.parent)):
        return search._read()  # pyright: ignore[reportPrivateUsage] -- what a process reads when it starts


def _compiled(path: Path) -> object:
    def build(name: str) -> str:
        return f"define i64 @{name}(i64 %a) {{ ret i64 %a }}"

    with CACHE_DIR.override(str(path)):
        return native_function(f"reader {str(path)[-40:]!a}", build)


def _entry(path: Path) -> object:
    store = StoreHandler("of a reader", path.parent)
    store.path_of = lambda folder, key: path  # pyright: ignore[reportAttributeAccessIssue] -- files are named by digests
    return store.get("key")


def _tensors(path: Path) -> dict[str, Any]:
    return {name: Tensor.plain(tensor) for name, tensor in load_safetensors(path).items()}


def _video(path: Path) -> object:
    given: dict[str, Any] = {"batch_size": 1, "crop_size": 1, "length_rgb": 1, "use_local_file": 1}
    op = find_schema("VideoInput").view(operator_def("VideoInput", ["reader"], ["data", "label"], **given))
    name = str(path).encode(errors="surrogatepass")
    return clips_of(op, VideoRecord("a record", name, np.zeros((), np.int32), 0, 0), Path(), Generator(1))


GREY, COLORED = Preprocessing(colors="grey"), Preprocessing(size=(5, 7), fit="crop")

READERS = [
    Reader("message", lambda path: read_message(path, NetDef), ".pb"),
    Reader("text of a message", lambda path: read_message(path, NetDef), ".pbtxt"),
    Reader("pair of nets", lambda path: tazza.load(path, path), ".pb"),
    Reader("predictor file", tazza.load),
    Reader("table of a predictor file", PredictorFile.read),
    Reader("model of the command line", lambda path: find_model(path, None).load(), ".pb"),
    Reader("profile", _profile),
    Reader("idx", read_idx),
    Reader("folder of idx", lambda path: load_idx(path, "train")),
    Reader("data of a training", lambda path: prepare(str(path), None, Path("nowhere"), seed=1)),
    Reader("test data of a training", lambda path: prepare(str(path), str(path), Path("nowhere"), seed=1)),
    Reader("pictures to learn from", find_source),
    Reader("arrays to learn from", find_source, ".npz"),
    Reader("settings of pictures", PictureSettings.read, ".json"),
    Reader("training on pictures to resume", _resume_pictures),
    Reader("array", lambda path: read_images(path, GREY), ".npy"),
    Reader("picture", lambda path: read_images(path, COLORED), ".png"),
    Reader("images", lambda path: read_images(path, GREY), "-idx3-ubyte"),
    Reader("preprocessing", Preprocessing.read, ".json"),
    Reader("labels", read_labels, ".txt"),
    Reader("table of inputs", read_value_info, ".json", missing_is_fine=True),
    Reader("examples from a picture", lambda path: list(file_examples(path, "data")), ".png"),
    Reader("examples from a database", lambda path: list(file_examples(path, "data"))),
    Reader("history", lambda path: History.read(path, 10), ".csv", missing_is_fine=True),
    Reader("history that is compared", read_columns, ".csv"),
    Reader("settings that are compared", read_values, ".json", missing_is_fine=True),
    Reader("settings", TrainSettings.read, ".json"),
    Reader("training to resume", _resume),
    Reader("text to learn from", read_characters, ".txt"),
    Reader("corpus", lambda path: read_vocabulary(path, 0), ".txt"),
    Reader("settings of a text", TextSettings.read, ".json"),
    Reader("training on a text to resume", _resume_text),
    Reader("checkpoint", _trainer),
    Reader("models of machines", _modelled, ".json", is_cache=True, prefix="machine"),
    Reader("table of a search", _searched, ".json", is_cache=True, prefix="search"),
    Reader("table of cuDNN's engines", _searched_there, ".json", is_cache=True, prefix="cudnn_search"),
    Reader("folder of compiled kernels", _compiled, is_cache=True, reads_content=False),
    Reader("module", load_module, ".so"),
    Reader("module of Python", load_module, ".py"),
    Reader("safetensors", _tensors),
    Reader("rows of text", lambda path: TextFileReader(path, [DataType.STRING], 1).next(9)),
    Reader("video", _video, ".avi"),
    Reader("entry of a store", _entry),
    Reader("old program", read_script, ".py"),
    Reader("part of predictions", lambda path: list(read_lines(path, 1)), ".jsonl"),
    Reader("manifest of parts", lambda path: is_manifest(path, ""), ".json", missing_is_fine=True),
    Reader("records of images", lambda path: count_records("minidb", path)),
    *(
        Reader(
            f"{name}, {mode.value}",
            _records(name, mode),
            missing_is_fine=mode is Mode.WRITE,
            also_fine=frozenset({"a folder"}),
        )
        for name in sorted(DBS)
        if name.islower()
        for mode in (Mode.READ, Mode.WRITE)
    ),
]
