"""What files in the wild do and no test of Caffe2 holds: parameters filled twice, odd names, a key a hundred times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tazza.db import Mode, open_db
from tazza.interop import load, save_nets, save_predictor
from tazza.models import Model
from tazza.operator import operator_def
from tazza.proto import NetDef, OperatorDef, TensorProtos
from tazza.tensor.tensor_proto import array_to_tensor_proto
from tazza.workspace import Workspace

NAMES = ["[rpn]xif3_4", "dbreader_../data", "test model_5", "a/b#%0", "naïve", "..", "x:0"]
X = np.array([[1, 0, 0]], np.float32)


def fill(name: str, shape: list[int], values: list[float]) -> OperatorDef:
    """Return the operator that makes a parameter."""
    return operator_def("GivenTensorFill", [], [name], shape=shape, values=values)


def test_of_a_parameter_that_is_filled_twice_the_last_value_counts() -> None:
    init = NetDef(
        op=[fill("w", [2, 3], [0.0] * 6), fill("b", [2], [5.0, 6.0]), fill("w", [2, 3], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]
    )
    predict = NetDef(op=[operator_def("FC", ["x", "w", "b"], ["y"])], external_input=["x", "w", "b"])
    with load(init, predict) as predictor:
        assert predictor.inputs == ("x",)
        assert predictor.run(x=X)["y"].tolist() == [[6, 10]]


@pytest.mark.parametrize("name", NAMES)
def test_names_may_be_anything(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As inputs, parameters and outputs, in both forms of files; what is written stays in the folder."""
    (tmp_path / "root").mkdir()
    monkeypatch.chdir(tmp_path / "root")
    model = Model("odd")
    weight, output = f"{name}_w", f"{name}_y"
    model.net.add("FC", [name, weight, "b"], output)
    model.net.add_external_output(output)
    workspace = Workspace()
    workspace.feed(weight, np.arange(6, dtype=np.float32).reshape(2, 3))
    workspace.feed("b", np.zeros(2, np.float32))
    pair, file = (tmp_path / "init_net.pb", tmp_path / "predict_net.pb"), tmp_path / "odd.minidb"
    save_nets(*pair, model.net, workspace, parameters=[weight, "b"])
    save_predictor(file, model.net, workspace, parameters=[weight, "b"], shapes={name: (1, 3)})
    for files in (pair, (file,)):
        with load(*files) as predictor:
            assert predictor.run({name: X})[output].tolist() == [[0, 3]]
    workspace.feed(name, X)
    workspace.run_operator(operator_def("Print", [name], [], to_file=True))
    assert [path.name for path in (tmp_path / "root").iterdir()] == [f"{name.replace('/', '#')}.log"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["init_net.pb", "odd.minidb", "predict_net.pb", "root"]


def test_a_key_may_stand_a_hundred_times(tmp_path: Path) -> None:
    with open_db("minidb", tmp_path / "same.minidb", Mode.NEW) as db, db.transaction() as transaction:
        for number in range(100):
            protos = [array_to_tensor_proto(np.full(2, number, np.int32))]
            transaction.put("data", TensorProtos(protos=protos).SerializeToString())
    workspace = Workspace(root=tmp_path)
    workspace.run_operator(operator_def("CreateDB", [], ["reader"], db="same.minidb", db_type="minidb"))
    workspace.run_operator(operator_def("TensorProtosDBInput", ["reader"], ["rows"], batch_size=100))
    assert workspace.fetch("rows")[:, 0].tolist() == list(range(100))
