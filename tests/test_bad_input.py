"""Bad input: each kind gives a typed error that names the cause, and never ends the process."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tazza
from tazza import errors
from tazza.db import DBReader, Mode, open_db
from tazza.device import device_option
from tazza.graph import backward_pass
from tazza.models import Model, sgd
from tazza.models.training import Trainer
from tazza.operator import operator_def, run_op
from tazza.proto import BlobProto, NetDef, OperatorDef, TensorProto
from tazza.proto.message import parse, read_message, write_message
from tazza.runtime.modules import load_module
from tazza.tensor import AlignedAllocator, CUDAPlace, Tensor
from tazza.tensor.serialization import deserialize, serialize
from tazza.workspace import Workspace

F = np.float32


@dataclass(frozen=True)
class Bad:
    """What is done wrong, the class of the error, and what its text must say."""

    id: str
    act: Callable[[Path], Any]
    error: type[errors.TazzaError]
    says: str


def net(*ops: OperatorDef, **fields: Any) -> NetDef:
    """Return a net called n."""
    return NetDef(name="n", op=list(ops), **fields)


def with_x(definition: NetDef) -> None:
    """Run a net once in a workspace that holds x, a float32 (2, 3)."""
    ws = Workspace()
    ws.feed("x", np.ones((2, 3), F))
    ws.run_net_once(definition)


def relu(x: str = "x", y: str = "y", **fields: Any) -> OperatorDef:
    """Return a Relu."""
    return operator_def("Relu", [x], [y], **fields)


def truncated_net(folder: Path) -> None:
    """Read a net whose file ends in the middle."""
    path = folder / "net.pb"
    path.write_bytes(net(relu(), relu("y", "z")).SerializeToString()[:-3])
    read_message(path, NetDef)


def broken_text_net(folder: Path) -> None:
    """Read a net in text form with a field that does not exist."""
    (folder / "net.pbtxt").write_text('name: "n"\noops: 3\n')
    read_message(folder / "net.pbtxt", NetDef)


def read_only(folder: Path) -> None:
    """Write below something that is no folder; permissions alone do not stop root."""
    (folder / "file").write_text("")
    write_message(folder / "file" / "net.pb", net())


def cut_minidb(folder: Path) -> None:
    """Read a minidb whose last record is cut."""
    path = folder / "cut.minidb"
    path.write_bytes(struct.pack("=ii", 3, 100) + b"key" + b"value")
    DBReader("minidb", str(path)).read()


def absurd_minidb(folder: Path) -> None:
    """Read a minidb that claims a negative length."""
    path = folder / "absurd.minidb"
    path.write_bytes(struct.pack("=ii", -5, 1 << 30) + b"key")
    DBReader("minidb", str(path)).read()


def corrupt_lmdb(folder: Path) -> None:
    """Open an LMDB whose file is noise."""
    (folder / "lmdb").mkdir()
    (folder / "lmdb" / "data.mdb").write_bytes(random.Random(1).randbytes(20_000))
    DBReader("lmdb", str(folder / "lmdb")).read()


def missing_chunk(folder: Path) -> None:
    """Read a tensor of which a chunk is missing."""
    del folder
    proto = BlobProto.FromString(serialize(Tensor.from_numpy(np.zeros(4, F)), "t"))
    proto.tensor.segment.begin, proto.tensor.segment.end = 0, 2
    del proto.tensor.float_data[2:]
    deserialize([proto.SerializeToString()])


def lying_dims(folder: Path) -> None:
    """Read a tensor that claims more elements than memory holds."""
    del folder
    tensor = TensorProto(dims=[1 << 40, 1 << 20], data_type=TensorProto.FLOAT, float_data=[1.0])
    deserialize(BlobProto(name="t", type="Tensor", tensor=tensor))


def duplicate_net(folder: Path) -> None:
    """Create a net of a name that is taken."""
    del folder
    ws = Workspace()
    ws.create_net(net())
    ws.create_net(net())


def limited(folder: Path) -> None:
    """Allocate beyond the limit of an allocator."""
    del folder
    allocator = AlignedAllocator(limit_bytes=1000)
    kept = allocator.allocate(600, "weights")
    allocator.allocate(600, "activations")
    kept.close()


def no_module(folder: Path) -> None:
    """Load a text file as a shared object."""
    (folder / "module.so").write_text("not a library")
    load_module(folder / "module.so")


def load_missing_blob(folder: Path) -> None:
    """Load a blob that a checkpoint does not hold."""
    ws = Workspace(root=folder)
    ws.feed("a", np.zeros(2, F))
    ws.run_operator(operator_def("Save", ["a"], [], db="c.minidb", db_type="minidb"))
    ws.run_operator(operator_def("Load", [], ["b"], db="c.minidb", db_type="minidb"))


def predictor_without_input(folder: Path) -> None:
    """Run a predictor without the input that its net needs."""
    write_message(folder / "init.pb", NetDef(name="init"))
    write_message(folder / "predict.pb", net(relu(), external_input=["x"], external_output=["y"]))
    tazza.load(folder / "init.pb", folder / "predict.pb").run()


def nan_loss(folder: Path) -> None:
    """Train on data that is not a number."""
    del folder
    model = Model("bad_nan")
    probabilities = model.softmax(model.fc("data", "scores", 3, 2), "p")
    loss = model.averaged_loss(model.label_cross_entropy(probabilities, "label", "xent"), "loss")
    model.accuracy(probabilities, "label", "accuracy")
    model.add_gradients([loss])
    sgd(model, base_learning_rate=0.1)
    ws = Workspace()
    ws.feed("data", np.full((4, 3), np.nan, F))
    ws.feed("label", np.zeros(4, np.int32))
    with Trainer(model.init_net.proto, model.net.proto, ws, loss="loss") as trainer:
        trainer.step()


def truncated_predictor(folder: Path) -> None:
    """Load a predictor file that was cut."""
    whole = Path(__file__).parent / "data" / "interop" / "small"
    source = next(whole.glob("*.minidb"))
    (folder / "cut.minidb").write_bytes(source.read_bytes()[:-7])
    tazza.load(folder / "cut.minidb")


def truncated_checkpoint(folder: Path) -> None:
    """Load a checkpoint that was cut."""
    ws = Workspace(root=folder)
    ws.feed("a", np.zeros(20, F))
    ws.run_operator(operator_def("Save", ["a"], [], db="c.minidb", db_type="minidb"))
    path = folder / "c.minidb"
    path.write_bytes(path.read_bytes()[:-5])
    ws.run_operator(operator_def("Load", [], ["a"], db="c.minidb", db_type="minidb"))


X, W = np.ones((1, 4, 5, 6), F), np.ones((6, 4, 3, 3), F)

TABLE = [
    Bad("truncated protobuf", truncated_net, errors.FormatError, "NetDef"),
    Bad(
        "random protobuf",
        lambda _: parse(NetDef, random.Random(3).randbytes(200), "noise"),
        errors.FormatError,
        "noise",
    ),
    Bad("broken text net", broken_text_net, errors.FormatError, "oops"),
    Bad("missing net file", lambda d: read_message(d / "none.pb", NetDef), errors.FileError, "none.pb"),
    Bad("folder that cannot be written", read_only, errors.FileError, "net.pb"),
    Bad("missing blob", lambda _: with_x(net(relu("k"))), errors.NotFoundError, "input blob 'k' does not exist"),
    Bad(
        "blob without a value",
        lambda _: with_x(net(relu("x", "y"), relu("z", "w"), operator_def("Relu", ["q"], ["z"]))),
        errors.NotFoundError,
        "'z'",
    ),
    Bad("blob of another type", lambda _: run_op("Relu", b"text"), errors.BlobTypeError, "std::string"),
    Bad(
        "unknown operator",
        lambda _: with_x(net(operator_def("Rleu", ["x"], ["y"]))),
        errors.UnknownOperatorError,
        "did you mean Relu",
    ),
    Bad(
        "wrong number of inputs",
        lambda _: run_op("Relu", [1.0], [2.0]),
        errors.SchemaError,
        "Relu has 2 inputs, it takes 1",
    ),
    Bad(
        "wrong number of outputs",
        lambda _: run_op("Relu", [1.0], outputs=2),
        errors.SchemaError,
        "Relu has 2 outputs, it takes 1",
    ),
    Bad(
        "forbidden in-place pair",
        lambda _: with_x(net(operator_def("Softmax", ["x"], ["x"]))),
        errors.SchemaError,
        "cannot write Y in place",
    ),
    Bad("wrong dtype", lambda _: run_op("Relu", np.zeros(2)), errors.DTypeError, "X is float64, it must be float32"),
    Bad(
        "dtype that no tensor has",
        lambda _: Workspace().feed("x", np.zeros(2, np.complex64)),
        errors.DTypeError,
        "complex64",
    ),
    Bad("value that cannot be fed", lambda _: Workspace().feed("x", [1.0]), errors.ArgumentError, "cannot feed a list"),
    Bad(
        "shapes that do not fit",
        lambda _: run_op("FC", np.ones((2, 4), F), np.ones((7, 5), F), np.ones(7, F)),
        errors.ShapeError,
        "FC",
    ),
    Bad(
        "kernel larger than the padded image",
        lambda _: run_op("Conv", X[:, :, :2], W, kernel=3),
        errors.ShapeError,
        "kernel covers 3",
    ),
    Bad(
        "group that does not divide",
        lambda _: run_op("Conv", X, W[:5, :2], kernel=3, group=2),
        errors.ShapeError,
        "5 output channels",
    ),
    Bad(
        "channels that do not fit",
        lambda _: run_op("Conv", X[:, :3], W, kernel=3),
        errors.ShapeError,
        "X has 3 channels",
    ),
    Bad("missing argument", lambda _: run_op("Conv", X, W), errors.ArgumentError, "no kernel size"),
    Bad(
        "unknown argument",
        lambda _: run_op("Relu", [1.0], alpha=2.0),
        errors.ArgumentError,
        "Relu has no argument 'alpha'",
    ),
    Bad(
        "argument of the wrong type",
        lambda _: run_op("Conv", X, W, kernel=3.0),
        errors.ArgumentError,
        "'kernel' wants int",
    ),
    Bad("argument out of range", lambda _: run_op("Conv", X, W, kernel=-1), errors.ArgumentError, "below its minimum"),
    Bad("list of mixed types", lambda _: operator_def("X", a=[1, 2.5]), errors.ArgumentError, "mixes float, int"),
    Bad(
        "unknown learning-rate policy",
        lambda _: run_op("LearningRate", np.array([1]), base_lr=0.1, policy="nope"),
        errors.ArgumentError,
        "nope",
    ),
    Bad(
        "label out of range",
        lambda _: run_op("LabelCrossEntropy", np.ones((1, 3), F), np.array([5], np.int32)),
        errors.NumericError,
        "5",
    ),
    Bad("duplicate net", duplicate_net, errors.DuplicateError, "net 'n' exists already"),
    Bad("unknown net", lambda _: Workspace().run_net("n"), errors.NotFoundError, "net 'n' does not exist"),
    Bad("unknown net type", lambda _: with_x(net(type="nope")), errors.NetError, "unknown type 'nope'"),
    Bad(
        "cycle", lambda _: with_x(net(relu("b", "a"), relu("a", "b"), external_input=["x"])), errors.NetError, "a cycle"
    ),
    Bad(
        "declared output that nobody makes",
        lambda _: with_x(net(relu(), external_output=["q"])),
        errors.NetError,
        "'q'",
    ),
    Bad("missing database", lambda d: open_db("minidb", str(d / "none"), Mode.READ), errors.DBError, "none"),
    Bad("unknown kind of database", lambda d: open_db("minidbb", str(d), Mode.READ), errors.DBError, "minidb"),
    Bad("folder opened as a minidb", lambda d: open_db("minidb", str(d), Mode.READ), errors.DBError, "folder"),
    Bad("truncated minidb", cut_minidb, errors.DBError, "cut.minidb"),
    Bad("absurd length in a minidb", absurd_minidb, errors.DBError, "absurd.minidb"),
    Bad("corrupt LMDB", corrupt_lmdb, errors.DBError, "lmdb"),
    Bad("missing chunk of a tensor", missing_chunk, errors.FormatError, "'t'"),
    Bad("dims that the bytes do not justify", lying_dims, errors.FormatError, "'t'"),
    Bad("missing blob in a checkpoint", load_missing_blob, errors.NotFoundError, "'b'"),
    Bad(
        "gradient that is forbidden",
        lambda _: backward_pass([operator_def("Accuracy", ["x", "l"], ["a"])], ["a"]),
        errors.GradientError,
        "Accuracy",
    ),
    Bad("loss that is NaN", nan_loss, errors.NumericError, "iteration 1"),
    Bad("truncated predictor file", truncated_predictor, errors.DBError, "cut.minidb"),
    Bad("truncated checkpoint", truncated_checkpoint, errors.DBError, "c.minidb"),
    Bad("memory limit", limited, errors.OutOfMemoryError, "weights"),
    Bad("module that is none", no_module, errors.InitError, "module.so"),
    Bad(
        "unknown flag",
        lambda _: tazza.global_init(["tazza", "--caffe2_force_shared_col_bufer"]),
        errors.InitError,
        "caffe2_force_shared_col_buffer",
    ),
    Bad("predictor without its input", predictor_without_input, errors.ArgumentError, "lacks x"),
    Bad(
        "device that is not there",
        lambda _: run_op("Relu", [1.0], device=device_option(CUDAPlace(0))),
        errors.UnknownOperatorError,
        "cuda",
    ),
]


@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: bad.id)
def test_bad_input(bad: Bad, tmp_path: Path) -> None:
    with pytest.raises(bad.error) as caught:
        bad.act(tmp_path)
    assert isinstance(caught.value, RuntimeError)
    assert bad.says in str(caught.value)


def test_there_are_enough_kinds() -> None:
    assert len(TABLE) >= 30
    assert len({bad.id for bad in TABLE}) == len(TABLE)


def test_random_bytes_never_end_the_process() -> None:
    """Nets of random bytes either parse (and then are refused or empty) or raise `FormatError`."""
    source = random.Random(int(os.environ.get("TAZZA_FUZZ_SEED", "7")))
    for _ in range(300):
        data = source.randbytes(source.randrange(1, 60))
        try:
            definition = parse(NetDef, data, "noise")
            Workspace().run_net_once(definition)
        except errors.TazzaError:
            continue


def test_damaged_nets_never_end_the_process() -> None:
    """A real net with one byte changed either still is a net, or is refused with a typed error."""
    good = net(
        relu(), operator_def("Softmax", ["y"], ["z"]), external_input=["x"], external_output=["z"]
    ).SerializeToString()
    source = random.Random(11)
    for _ in range(300):
        data = bytearray(good)
        data[source.randrange(len(data))] = source.randrange(256)
        try:
            with_x(parse(NetDef, bytes(data), "damaged"))
        except errors.TazzaError:
            continue
