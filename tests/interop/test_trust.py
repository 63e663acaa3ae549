"""What a model of a stranger may do: whatever reaches beyond its workspace is neither made nor run, on any way in.

The harmful operators are drawn from the schemas: each type that may be IO, with all its texts as paths and all its
flags on. A folder stands for the disk: nothing in it may change or be opened.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza import load
from tazza.db import DBReader, Mode, open_db
from tazza.errors import TazzaError, TrustError
from tazza.graph.text import parse_net
from tazza.interop import Predictor
from tazza.interop.predictor_file import ROLES
from tazza.operator import (
    SCHEMAS,
    Effects,
    OpSchema,
    OpView,
    effects_of,
    forget_function,
    operator_def,
    register_function,
)
from tazza.proto import BlobProto, BlobsMap, MetaNetDef, NetDef, NetsMap, OperatorDef
from tazza.proto.message import read_message, serialize, write_message
from tazza.tensor import Tensor, TensorSpec, serialize_blob
from tazza.workspace import Workspace
from tests.cli.conftest import Run, bars, run
from tests.watching import watched, written

__all__ = ["bars", "run"]  # fixtures

KIND, FILE = "minidb", "there.minidb"


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a database and a log, in which the process stands."""
    folder = tmp_path / "disk"
    folder.mkdir()
    write_records(folder / FILE, {"x": np.ones((2, 3), np.float32)})
    for name in ("x.log", "x.summary"):
        (folder / name).write_text("of somebody else")
    monkeypatch.chdir(folder)
    return folder


def write_records(path: Path, values: dict[str, np.ndarray]) -> None:
    """Write tensors to a minidb."""
    with open_db(KIND, path, Mode.NEW) as db, db.transaction() as transaction:
        for name, value in values.items():
            for key, record in serialize_blob(Tensor.from_numpy(value), name):
                transaction.put(key, record)


def harmful(folder: Path, each: int) -> Iterator[OperatorDef]:
    """Yield operators that reach beyond their workspace, so many of each type."""
    for type in sorted(SCHEMAS.keys()):
        yield from itertools.islice(drawn(SCHEMAS[type], folder), each)


def drawn(declared: OpSchema, folder: Path) -> Iterator[OperatorDef]:
    """Yield operators of a type that its schema takes, and that are IO.

    What has to be given is 1; beside it nothing, all flags or a number in all lists is given, and every use of texts.
    """
    flags: dict[str, Any] = {name: True for name, spec in declared.args.items() if spec.takes(bool)}
    texts = [name for name, spec in declared.args.items() if spec.takes(str) and spec.choices is None]
    if isinstance(declared.effects, Effects) and declared.effects is not Effects.IO:
        return
    names = ["x" for spec in declared.inputs if not spec.optional]
    outputs = [f"harm{n}" if n else "harm" for n, spec in enumerate(declared.outputs) if not spec.optional]
    numbers: dict[str, Any] = {name: [1] for name, spec in declared.args.items() if spec.takes(list[int])}
    needed: dict[str, Any] = {name: 1 for name, spec in declared.args.items() if spec.required and spec.takes(int)}
    for given in ({}, flags, numbers):
        for values in itertools.product((None, str(folder / FILE), KIND), repeat=len(texts)):
            said: dict[str, Any] = {name: value for name, value in zip(texts, values, strict=True) if value is not None}
            definition = operator_def(declared.type, names, outputs, **needed, **{**given, **said})
            try:
                found = effects_of(declared.view(definition))
            except TazzaError:
                continue
            if found is Effects.IO:
                yield definition


INIT = parse_net(
    "w = GivenTensorFill(; shape=[2, 3], values=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])", "b = ConstantFill(; shape=[2])"
)
PREDICT = parse_net("net: predict", "in: x, w, b", "y = FC(x, w, b)")


def with_harm(net: NetDef, op: OperatorDef, *, first: bool = False) -> NetDef:
    """Return a net with one operator more; the blob that it reads comes from outside."""
    made = NetDef()
    made.CopyFrom(net)
    ops = [op, *net.op] if first else [*net.op, op]
    del made.op[:]
    made.op.extend(ops)
    return made


def test_what_is_drawn_covers_what_reaches_out(disk: Path) -> None:
    io = {
        type
        for type in SCHEMAS
        if not isinstance(SCHEMAS[type].effects, Effects) or SCHEMAS[type].effects == Effects.IO
    }
    assert {op.type for op in harmful(disk, 1)} == io
    assert {"Print", "Summarize", "Save", "Load", "CreateDB", "TensorProtosDBInput"} <= io


def state(folder: Path) -> dict[str, bytes]:
    """Return all that lies in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def write_pair(folder: Path, init: NetDef, predict: NetDef) -> Path:
    """Write a model as two nets."""
    folder.mkdir(exist_ok=True)
    write_message(folder / "init_net.pb", init)
    write_message(folder / "predict_net.pb", predict)
    return folder


def write_file(path: Path, predict: NetDef, load: NetDef, prepare: NetDef) -> Path:
    """Write a model as a predictor file."""
    meta = MetaNetDef()
    meta.blobs.append(BlobsMap(key=ROLES.PARAMETERS_BLOB_TYPE, value=["w", "b"]))
    meta.blobs.append(BlobsMap(key=ROLES.INPUTS_BLOB_TYPE, value=["x"]))
    meta.blobs.append(BlobsMap(key=ROLES.OUTPUTS_BLOB_TYPE, value=["y"]))
    for role, net in (
        (ROLES.PREDICT_NET_TYPE, predict),
        (ROLES.GLOBAL_INIT_NET_TYPE, load),
        (ROLES.PREDICT_INIT_NET_TYPE, prepare),
    ):
        meta.nets.append(NetsMap(key=role, value=net))
    record = BlobProto(name=ROLES.META_NET_DEF, type="std::string", content=serialize(meta))
    with open_db(KIND, path, Mode.NEW) as db, db.transaction() as transaction:
        transaction.put(ROLES.META_NET_DEF, serialize(record))
        for name, value in {"w": np.ones((2, 3), np.float32), "b": np.zeros(2, np.float32)}.items():
            for key, stored in serialize_blob(Tensor.from_numpy(value), name):
                transaction.put(key, stored)
    return path


TURNS = 3
READER = ROLES.PREDICTOR_DBREADER
GLOBAL_INIT = parse_net("net: global-init", f"w, b = Load({READER})")
NOTHING = NetDef(name="nothing")


def from_nets(init: NetDef, predict: NetDef) -> Callable[[Path], object]:
    """Return what loads two nets."""
    return lambda model: load(init, predict)


def ways(model: Path, op: OperatorDef, run: Run) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield all ways in which a model with this operator somewhere comes in, and what to do."""
    after, before = with_harm(PREDICT, op), with_harm(INIT, op, first=True)
    image = model / "x.npy"
    np.save(image, np.ones((1, 1, 1, 3), np.float32))
    pairs = {"predict": write_pair(model / "a", INIT, after), "init": write_pair(model / "b", before, PREDICT)}
    files = {
        "predict": write_file(model / "a.minidb", after, GLOBAL_INIT, NOTHING),
        "load": write_file(model / "b.minidb", PREDICT, with_harm(GLOBAL_INIT, op), NOTHING),
        "prepare": write_file(model / "c.minidb", PREDICT, GLOBAL_INIT, with_harm(NOTHING, op)),
    }
    for name, folder in pairs.items():
        nets = folder / "init_net.pb", folder / "predict_net.pb"
        yield f"load files, harm in {name}", lambda nets=nets: load(*nets)
        yield f"load nets, harm in {name}", lambda nets=nets: load(*(read_message(net, NetDef) for net in nets))
    for name, file in files.items():
        yield f"load predictor file, harm in {name}", lambda file=file: load(file)
    workspace = Workspace()
    for name in ("w", "b"):
        workspace.feed(name, np.ones((2, 3) if name == "w" else 2, np.float32))
    yield "Predictor", lambda: Predictor(after, workspace)
    for path in (pairs["predict"], pairs["init"], files["load"]):
        yield f"predict {path}", lambda path=path: command(run, "predict", path, image)
        yield f"profile {path}", lambda path=path: command(run, "profile", path, "--shape", "x=4,3", "--runs", 1)


def refusal(come_in: Callable[[], object]) -> str:
    """Return with which words a model is refused; none where it is not."""
    try:
        come_in()
    except TrustError as error:
        return str(error)
    return ""


def command(run: Run, *words: object) -> None:
    """Run a command; one that refuses a model raises."""
    result = run(*words)
    if result.exit_code:
        raise TrustError(result.stderr) if "does more than" in result.stderr else AssertionError(result.stderr)


@pytest.mark.slow
def test_nothing_of_a_stranger_reaches_out(disk: Path, tmp_path: Path, run: Run) -> None:
    """Each way in is tried with one of some types that come one behind the other."""
    before = state(disk)
    for number, op in enumerate(harmful(disk, 1)):
        model = tmp_path / str(number)
        model.mkdir()
        for way, come_in in itertools.islice(ways(model, op, run), number % TURNS, None, TURNS):
            with watched() as notes:
                refused = refusal(come_in)
            assert f"is {op.type}, which does more than" in refused, way
            assert [path for path in written(notes) if path.startswith(str(disk))] == [], way
            assert [args for event, args in notes if event == "open" and FILE in str(args[0])] == [], way
        for path in sorted((*model.glob("*.minidb"), *model.glob("*/predict_net.pb")))[number % TURNS :: TURNS]:
            with watched() as notes:
                run("show", path, "--shape", "x=4,3")
            assert [args for event, args in notes if event == "open" and str(disk) in str(args[0])] == [], path
        assert state(disk) == before, op


@pytest.mark.slow
def test_with_the_callers_word_files_are_opened_at_the_first_run(disk: Path, run: Run) -> None:
    """A model that is loaded has touched nothing yet; what it writes then lies under the root of its workspace."""
    reached: set[str] = set()
    for op in harmful(disk, 2):
        for type in ("", "simple", "dag"):
            before = state(disk)
            after = with_harm(PREDICT, op)
            after.type = type
            with watched() as notes, load(INIT, after, trust=True) as predictor:
                assert [args for event, args in notes if event == "open" and str(disk) in str(args[0])] == [], op.type
                assert state(disk) == before
                with suppress(TazzaError):  # a database that has no such blob, an input that is no reader
                    predictor.run({name: np.ones((1, 3), np.float32) for name in predictor.inputs})
            opened = {str(args[0]) for event, args in notes if event == "open" and str(disk) in str(args[0])}
            assert all(Path(path).is_relative_to(disk) for path in opened)
            reached.update([op.type] if state(disk) != before or opened else [])
    assert {"Print", "Summarize", "Save", "Load"} <= reached


@pytest.mark.slow
def test_commands_take_the_word_too(disk: Path, tmp_path: Path, run: Run) -> None:
    folder = write_pair(tmp_path / "model", INIT, with_harm(PREDICT, operator_def("Print", ["x"], [], to_file=True)))
    np.save(tmp_path / "x.npy", np.ones((1, 1, 1, 3), np.float32))
    refused = run("predict", folder, tmp_path / "x.npy")
    assert (refused.exit_code, "--trust" in refused.stderr) == (1, True)
    assert (disk / "x.log").read_text() == "of somebody else"
    result = run("profile", folder, "--shape", "x=1,3", "--runs", 1, "--trust")
    assert result.exit_code == 0, result.stderr
    assert (disk / "x.log").read_text().startswith("Tensor x of type float. Dims: (1,3,): ")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["predict_net.pb", "init_net.pb"])
def test_training_a_net_from_a_file_takes_the_word_too(
    disk: Path, tmp_path: Path, run: Run, bars: Path, name: str
) -> None:
    folder = write_pair(tmp_path / "model", INIT, PREDICT)
    write_message(
        folder / name, with_harm(read_message(folder / name, NetDef), operator_def("Print", ["x"], [], to_file=True))
    )
    nets = "--net", folder / "predict_net.pb", "--init-net", folder / "init_net.pb"
    refused = run("train", "lenet", "--out", tmp_path / "out", *nets, "--data", bars)
    assert "is Print, which does more than write blobs" in refused.stderr
    assert "is Print" not in run("train", "lenet", "--out", tmp_path / "out", *nets, "--data", bars, "--trust").stderr
    assert (disk / "x.log").read_text() == "of somebody else"


def as_first(op: OpView, X: TensorSpec) -> TensorSpec:
    """Say that Y is like X."""
    return X


@pytest.mark.slow
def test_showing_runs_no_registered_function(tmp_path: Path, run: Run) -> None:
    """What follows from a rule is shown, and nothing else."""
    called: list[int] = []

    def noted(X: NDArray[Any]) -> NDArray[Any]:
        """Return 2 X, and remember it."""
        called.append(1)
        return X + X

    try:
        for rule, shape in ((None, "?"), (as_first, "float32[4, 3]")):
            register_function(noted, "TestNoted", infer=rule, effects=Effects.PURE)
            folder = write_pair(tmp_path / "model", INIT, parse_net("in: x", "y = TestNoted(x)"))
            shown = run("show", folder, "--shape", "x=4,3")
            assert shape in shown.output, shown.stderr
            assert called == []
            forget_function("TestNoted")
    finally:
        forget_function("TestNoted")


def test_what_keeps_state_or_shows_runs_for_everybody(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = state(disk)
    predict = parse_net(
        "net: p", "type: simple", "in: x, w, b", "y = FC(x, w, b)", "t = Iter()", "Print(y)", "s = Summarize(y)"
    )
    with load(INIT, predict, outputs=["t", "s"]) as predictor:
        for count in (1, 2):
            assert predictor.run(x=np.ones((1, 3), np.float32))["t"] == [count]
    assert capsys.readouterr().out.count("Tensor y of type float") == 2
    assert state(disk) == before
    for init in (parse_net("m = CreateMutex()"), parse_net("t = Iter()")):
        with pytest.raises(TrustError, match="does more than compute tensors: it may keep state"):
            load(with_harm(INIT, init.op[0]), PREDICT)


@pytest.mark.parametrize("how", ["its name", "load_all"])
def test_nobody_puts_another_reader_in_place_of_the_files_own(disk: Path, tmp_path: Path, how: str) -> None:
    """A record of the file is a reader of another database, which the next Load would read from."""
    first = (
        operator_def("Load", [READER], [READER])
        if how == "its name"
        else operator_def("Load", [READER], [], load_all=1)
    )
    path = write_file(tmp_path / "a.minidb", PREDICT, with_harm(GLOBAL_INIT, first, first=True), NOTHING)
    with open_db(KIND, path) as db, db.cursor() as cursor:
        records = dict(cursor)
    for key, record in serialize_blob(DBReader(KIND, str(disk / FILE)), READER):
        records[key.encode()] = record
    with open_db(KIND, path, Mode.NEW) as db, db.transaction() as transaction:
        for key, record in records.items():
            transaction.put(key, record)
    with watched() as notes, pytest.raises(TrustError, match="is Load, which does more than"):
        load(path)
    assert [args for event, args in notes if event == "open" and FILE in str(args[0])] == []
